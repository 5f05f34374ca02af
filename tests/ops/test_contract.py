"""Every fact that an operator states about itself holds, for random instances of every operator."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import STRATEGIES
from strategies.operands import Instance
from trivet.core.access import Broadcast, Reduced, Span, Whole
from trivet.core.interval import Interval
from trivet.ir.graph import Graph
from trivet.ir.op import Array, Op, Region, full_range, whole_region
from trivet.ir.text.parser import parse_graph
from trivet.ir.text.printer import print_graph
from trivet.ir.types import TensorType
from trivet.ops import ALL_OPS, OP_BY_NAME

EVERY_OP = pytest.mark.parametrize("kind", list(STRATEGIES), ids=lambda kind: kind.name)
FEW = settings(max_examples=max(5, settings().max_examples // 4))
"""For facts that depend on attributes or types alone."""
WHOLE_RULES = (Whole, Reduced, Broadcast)
"""Rules that read all of an axis whatever is asked for."""


def test_every_operator_has_a_strategy() -> None:
    missing = [kind.name for kind in ALL_OPS if kind not in STRATEGIES]
    assert not missing, f"operators without a strategy in tests/strategies: {', '.join(missing)}"


def test_operator_names_are_unique() -> None:
    assert len(OP_BY_NAME) == len(ALL_OPS)


@EVERY_OP
@given(data=st.data())
def test_results_are_what_infer_says(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    for type_, result in zip(case.op.infer(case.types), evaluate(case), strict=True):
        assert isinstance(result, np.ndarray), f"{kind.name} gives a {type(result).__name__}"
        assert (result.shape, result.dtype) == (type_.shape, type_.dtype.numpy)


@EVERY_OP
@given(data=st.data())
def test_results_lie_inside_the_bound(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    intervals = tuple(interval(a, t) for a, t in zip(case.arrays, case.types, strict=True))
    bounds = case.op.bound(intervals, case.types)
    for type_, result, bound in zip(case.op.infer(case.types), evaluate(case), bounds, strict=True):
        if type_.dtype.is_integer and result.size:
            assert interval(result, type_).within(bound), f"{interval(result, type_)} leaves {bound}"


@EVERY_OP
@given(data=st.data())
def test_a_tile_alone_is_that_tile_of_the_whole(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    results = evaluate(case)
    region = data.draw(regions(results[0].shape), "region")
    tile = case.op.tile(case.types, region) if results[0].size else None
    if tile is None:
        return
    types = tuple(t.part(r) for t, r in zip(case.types, tile.regions, strict=True))
    arrays = tuple(np.asarray(cut(a, r), order="C") for a, r in zip(case.arrays, tile.regions, strict=True))
    assert tile.op.infer(types)[0] == case.op.infer(case.types)[0].part(region)
    assert_same(tile.op.evaluate(arrays, types)[0], cut(results[0], region), f"{tile.op} of {tile.regions}")


@EVERY_OP
@given(data=st.data())
def test_nothing_outside_the_access_rules_is_read(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    access, results = case.op.access(case.types), evaluate(case)
    assert [len(rules) for rules in access] == [t.rank for t in case.types], "one rule per operand axis"
    region = data.draw(regions(results[0].shape), "region")
    changed = []
    for array, rules in zip(case.arrays, access, strict=True):
        needed = tuple(
            Span(0, size) if isinstance(rule, WHOLE_RULES) else rule.reads(region[rule.out_axis])
            for rule, size in zip(rules, array.shape, strict=True)
        )
        other = scrambled(array, data.draw(st.integers(0, 2**32 - 1), "seed"))
        cut(other, needed)[...] = cut(array, needed)
        changed.append(other)
    again = case.op.evaluate(tuple(changed), case.types)
    assert_same(cut(again[0], region), cut(results[0], region), f"{case.op.name} reads outside {access}")


@EVERY_OP
@FEW
@given(data=st.data())
def test_access_rules_never_move_back(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    (shape, *_) = (t.shape for t in case.op.infer(case.types))
    for rules in case.op.access(case.types):
        for rule in rules:
            if isinstance(rule, WHOLE_RULES):
                continue
            spans = [rule.reads(Span(o, o + 1)) for o in range(shape[rule.out_axis])]
            for before, after in itertools.pairwise([s for s in spans if s.size]):
                assert before.start <= after.start and before.stop <= after.stop, f"{rule}: {before} then {after}"


@EVERY_OP
@FEW
@given(data=st.data())
def test_operands_are_left_alone_and_results_repeat(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    before = [a.copy() for a in case.arrays]
    first, second = evaluate(case), evaluate(case)
    for array, copy in zip(case.arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", [k for k in STRATEGIES if k.commutative], ids=lambda kind: kind.name)
@given(data=st.data())
def test_the_first_two_operands_swap(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    types = (case.types[1], case.types[0], *case.types[2:])
    arrays = (case.arrays[1], case.arrays[0], *case.arrays[2:])
    for one, two in zip(evaluate(case), case.op.evaluate(arrays, types), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", [k for k in STRATEGIES if k.reuses_input], ids=lambda kind: kind.name)
@given(data=st.data())
def test_an_element_of_the_result_needs_only_its_own_of_the_first_operand(kind: type[Op], data: st.DataObject) -> None:
    """Where shape and width are equal, so that the result may be written over the operand element by element."""
    case = draw(data, kind)
    result, type_ = evaluate(case)[0], case.op.infer(case.types)[0]
    if type_.shape != case.types[0].shape or type_.dtype.bits != case.types[0].dtype.bits or not result.size:
        return
    index = np.unravel_index(data.draw(st.integers(0, result.size - 1), "element"), result.shape)
    other = scrambled(case.arrays[0], data.draw(st.integers(0, 2**32 - 1), "seed"))
    other[index] = case.arrays[0][index]
    again = case.op.evaluate((other, *case.arrays[1:]), case.types)[0]
    np.testing.assert_array_equal(again[index], result[index])


@pytest.mark.parametrize("kind", [k for k in STRATEGIES if k.views_input], ids=lambda kind: kind.name)
@given(data=st.data())
def test_a_view_has_the_bytes_of_its_operand(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    assert evaluate(case)[0].tobytes() == case.arrays[0].tobytes()


@EVERY_OP
@FEW
@given(data=st.data())
def test_the_text_form_reads_back(kind: type[Op], data: st.DataObject) -> None:
    case = draw(data, kind)
    graph = Graph()
    values = [graph.add_input(f"x{i}", type_) for i, type_ in enumerate(case.types)]
    node = graph.append(case.op, values)
    for value in node.outputs:
        graph.add_output(value)
    (again,) = parse_graph(print_graph(graph), OP_BY_NAME).nodes
    assert again.op == case.op and hash(again.op) == hash(case.op)
    assert again.input_types == case.types


def draw(data: st.DataObject, kind: type[Op]) -> Instance:
    case = data.draw(STRATEGIES[kind], kind.name)
    assert isinstance(case.op, kind)
    for array in case.arrays:
        array.flags.writeable = False
    return case


def evaluate(case: Instance) -> tuple[Array, ...]:
    return case.op.evaluate(case.arrays, case.types)


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...]) -> Region:
    """Everything along most axes; along one or more the first, the last, one or some indices."""
    spans = list(whole_region(shape))
    for axis in draw(st.sets(st.sampled_from(range(len(shape))))) if shape else ():
        size = shape[axis]
        start = draw(st.sampled_from((0, size - 1, size // 2)))
        spans[axis] = Span(start, draw(st.integers(start + 1, size)) if draw(st.booleans()) else start + 1)
    return tuple(spans) if all(shape) else whole_region(shape)


def cut(array: Array, region: Region) -> Array:
    return array[(*(slice(span.start, span.stop) for span in region), ...)]


def scrambled(array: Array, seed: int) -> Array:
    """The same values in other places, and further ones: every element differs from what stood there, where it can."""
    rng = np.random.default_rng(seed)
    if array.dtype.kind == "f":
        return np.asarray(array + rng.choice([-100.0, 100.0], array.shape), array.dtype)
    if array.dtype.kind == "b":
        return np.asarray(~array)
    return rng.permutation(array.ravel()).reshape(array.shape)


def interval(array: Array, type_: TensorType) -> Interval:
    if not type_.dtype.is_integer or array.size == 0:
        return Interval(0, 0) if type_.dtype.is_float else full_range(type_)
    return Interval(int(array.min()), int(array.max()))


def assert_same(actual: Array, expected: Array, message: str) -> None:
    """Integers equal; floats to the order of summation."""
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=message)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=message)
