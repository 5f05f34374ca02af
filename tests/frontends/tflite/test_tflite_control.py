"""Subgraphs that are called, chosen and repeated, against LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import loaded

from references import run_litert
from tflite_builder import ModelBuilder, Subgraph
from trivet import interp
from trivet.errors import CompileError

X = np.array([[1.5, -2.0, 3.0]], np.float32)


def unary(kind: str, shape: tuple[int, ...] = (1, 3)) -> Subgraph:
    """y = kind(x)."""
    part = ModelBuilder()
    x, y = part.tensor("x", shape, np.float32), part.tensor("y", shape, np.float32)
    part.operator(kind, [x], [y])
    return part, [x], [y]


def agrees(model: bytes, inputs: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    found, _ = interp.run(loaded(folder, model).graph, inputs)
    for got, wanted in zip(found, run_litert(model, inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    return found


@pytest.mark.parametrize("known", [True, False], ids=["known", "computed"])
@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_chosen(known: bool, condition: bool, tmp_path: Path) -> None:
    m = ModelBuilder()
    flag = m.tensor("flag", (), np.bool_, data=np.array(condition) if known else None)
    x, y = m.tensor("x", (1, 3), np.float32), m.tensor("y", (1, 3), np.float32)
    m.operator("IF", [flag, x], [y], "IfOptions", then_subgraph_index=1, else_subgraph_index=2)
    model = m.finish([x] if known else [flag, x], [y], [unary("NEG"), unary("ABS")])
    (found,) = agrees(model, [X] if known else [np.array(condition), X], tmp_path)
    assert np.array_equal(found, -X if condition else np.abs(X))


def test_branches_of_two_shapes_are_refused(tmp_path: Path) -> None:
    m = ModelBuilder()
    flag, x, y = m.tensor("flag", (), np.bool_), m.tensor("x", (1, 3), np.float32), m.tensor("y", (1, 3), np.float32)
    m.operator("IF", [flag, x], [y], "IfOptions", then_subgraph_index=1, else_subgraph_index=2)
    narrow = ModelBuilder()
    a, b = narrow.tensor("a", (1, 3), np.float32), narrow.tensor("b", (3,), np.float32)
    shape = narrow.tensor("shape", (1,), np.int32, data=[3])
    narrow.operator("RESHAPE", [a, shape], [b])
    with pytest.raises(CompileError, match="branches that give"):
        loaded(tmp_path, m.finish([flag, x], [y], [unary("NEG"), (narrow, [a], [b])]))


def counting(rounds: int, first: np.ndarray | None = None) -> bytes:
    """for (i = 0; i < rounds; i++) x = x + x."""
    m = ModelBuilder()
    zero = m.tensor("zero", (), np.int32, data=first)
    x, last, y = (
        m.tensor(n, s, t) for n, s, t in (("x", (1, 3), np.float32), ("i", (), np.int32), ("y", (1, 3), np.float32))
    )
    m.operator("WHILE", [zero, x], [last, y], "WhileOptions", cond_subgraph_index=1, body_subgraph_index=2)
    cond = ModelBuilder()
    i, x0 = cond.tensor("i", (), np.int32), cond.tensor("x", (1, 3), np.float32)
    limit, going = cond.tensor("limit", (), np.int32, data=rounds), cond.tensor("going", (), np.bool_)
    cond.operator("LESS", [i, limit], [going])
    body = ModelBuilder()
    j, x1 = body.tensor("i", (), np.int32), body.tensor("x", (1, 3), np.float32)
    one, k, x2 = (
        body.tensor("one", (), np.int32, data=1),
        body.tensor("k", (), np.int32),
        body.tensor("z", (1, 3), np.float32),
    )
    body.operator("ADD", [j, one], [k], "AddOptions")
    body.operator("ADD", [x1, x1], [x2], "AddOptions")
    inputs = [x] if first is not None else [zero, x]
    return m.finish(inputs, [y], [(cond, [i, x0], [going]), (body, [j, x1], [k, x2])])


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_a_loop_of_known_rounds_is_unrolled(rounds: int, tmp_path: Path) -> None:
    (found,) = agrees(counting(rounds, np.array(0, np.int32)), [X], tmp_path)
    assert np.array_equal(found, X * 2**rounds)


def test_loops_that_the_data_decides_or_that_are_long_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="number of rounds is decided at run time"):
        loaded(tmp_path, counting(3))
    with pytest.raises(CompileError, match="more than 256 rounds"):
        loaded(tmp_path, counting(300, np.array(0, np.int32)))


def test_a_subgraph_that_calls_itself_is_refused(tmp_path: Path) -> None:
    m, inner = ModelBuilder(), ModelBuilder()
    for part in (m, inner):
        x, y = part.tensor("x", (1, 3), np.float32), part.tensor("y", (1, 3), np.float32)
        part.operator("CALL", [x], [y], "CallOptions", subgraph=1)
    with pytest.raises(CompileError, match="CALL of subgraph 1"):
        loaded(tmp_path, m.finish([0], [1], [(inner, [0], [1])]))


def test_what_a_subgraph_cannot_do_is_reported(tmp_path: Path) -> None:
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 3), np.float32), m.tensor("y", (1, 3), np.float32)
    m.operator("CALL", [x], [y], "CallOptions", subgraph=1)
    with pytest.raises(CompileError, match=r"1 problem\n.*UNIQUE"):
        loaded(tmp_path, m.finish([x], [y], [unary("UNIQUE")]))
