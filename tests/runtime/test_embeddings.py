"""Networks that look their input up in a table: indices out of range end a run, random inputs stay in range."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from plans import sequential

from trivet.artifact import Artifact
from trivet.backends.plan.host import HostModel, check_library
from trivet.backends.plan.writer import write
from trivet.core.dtype import F32, I32
from trivet.errors import InvalidModel
from trivet.ir.graph import Graph
from trivet.ir.types import TensorType
from trivet.ops.movement import Gather, Reshape

WORDS = 7


@pytest.fixture(scope="module")
def host(library: ctypes.CDLL) -> ctypes.CDLL:
    check_library(library, Path("libtrivet-test.so"))
    return library


def embedding() -> bytes:
    """The rows of a table for two indices, which come as [1, 2]."""
    table = np.arange(WORDS * 3, dtype=np.float32).reshape(WORDS, 3)
    graph = Graph()
    tokens = graph.add_input("tokens", TensorType(I32, (1, 2)))
    indices = graph.append(Reshape((2,)), [tokens]).output
    rows = graph.append(Gather(0), [graph.constant(table, TensorType(F32, table.shape)), indices])
    graph.add_output(rows.output)
    return write(sequential(graph))


def test_indices_choose_rows(host: ctypes.CDLL) -> None:
    (rows,) = HostModel(embedding(), host).run([np.array([[6, -7]], np.int32)])
    np.testing.assert_array_equal(rows, [[18, 19, 20], [0, 1, 2]])


@pytest.mark.parametrize("index", [WORDS, -WORDS - 1, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_an_error(host: ctypes.CDLL, index: int) -> None:
    model = HostModel(embedding(), host)
    with pytest.raises(InvalidModel, match=r"the run stopped: .* out of range"):
        model.run([np.array([[0, index]], np.int32)])
    assert len(model.run([np.array([[0, 1]], np.int32)])) == 1


def test_random_inputs_stay_inside_the_table() -> None:
    artifact = Artifact(embedding())
    drawn = np.concatenate([artifact.random_inputs(seed)[0] for seed in range(20)])
    assert set(drawn.ravel()) == set(range(WORDS))
