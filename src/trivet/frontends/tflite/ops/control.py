"""Subgraphs that operators call: converted in place; loops whose condition is known in every round are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trivet.core.dtype import BOOL
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.ir.graph import Value
from trivet.ops.elementwise import Where
from trivet.ops.movement import Reshape

MAX_ROUNDS = 256
"""A loop of more rounds would make too long a plan."""
MAX_DEPTH = 16
"""Subgraphs that call each other deeper than this are taken to call themselves."""
_LOOP = "unroll the loop when exporting (Keras: unroll=True)"
_KEEPING = ("ASSIGN_VARIABLE", "CALL_ONCE")


def _inlined(op: Conversion, index: int, operands: Sequence[Value]) -> list[Value] | None:
    """The results of a subgraph, converted where the operator stands; None where that has problems, which are noted.

    Raises: InvalidModel.
    """
    scope, subgraphs = op.scope, op.scope.model.subgraphs
    if not 0 < index < len(subgraphs) or scope.depth >= MAX_DEPTH:
        raise InvalidModel(f"{op.record.kind} of subgraph {index}")
    subgraph = subgraphs[index]
    if len(subgraph.inputs) != len(operands):
        raise InvalidModel(f"subgraph {index} takes {len(subgraph.inputs)} operands, {len(operands)} are given")
    scope.called.add(index)
    inner = replace(
        scope, subgraph=subgraph, values=dict(zip(subgraph.inputs, operands, strict=True)), handles={}, doubtful=set(),
        problems=[], depth=scope.depth + 1,
    )  # fmt: skip
    inner.run()
    scope.problems.extend(inner.problems)
    return None if inner.problems else [inner.value(output) for output in subgraph.outputs]


def _give(op: Conversion, results: Sequence[Value] | None) -> None:
    """Let the results stand for the operator's; without any its tensors stay doubtful.

    Raises: InvalidModel.
    """
    if results is None:
        for index in op.record.outputs:
            op.scope.doubt(index)
        return
    if len(results) != len(op.record.outputs):
        raise InvalidModel(f"it has {len(op.record.outputs)} results, its subgraph gives {len(results)}")
    for index, value in enumerate(results):
        op.result(value, index)


def call(op: Conversion) -> None:
    """CALL, and what a StableHLO composite is made of."""
    _give(op, _inlined(op, op.integer("subgraph"), op.operands()))


def if_(op: Conversion) -> None:
    """The branch that a known condition chooses; of another condition both branches, and a selection.

    Raises: Unsupported, where the branches give different types, or a branch keeps something.
    """
    condition, *operands = op.operands()
    branches = op.integer("then_subgraph"), op.integer("else_subgraph")
    if condition.type.dtype is not BOOL or condition.type.elements != 1:
        raise InvalidModel(f"the condition is {condition.type}")
    if condition.data is not None:
        _give(op, _inlined(op, branches[0 if condition.data.ravel()[0] else 1], operands))
        return
    yes, no = (_inlined(op, branch, operands) for branch in branches)
    for branch in branches:
        if any(inner.kind in _KEEPING for inner in op.scope.model.subgraphs[branch].operators):
            raise Unsupported("a branch that keeps a value, chosen at run time", hint="export with the condition fixed")
    flag = op.emit(Reshape(()), condition)
    _give(op, None if yes is None or no is None else [_chosen(op, flag, *pair) for pair in zip(yes, no, strict=False)])


def _chosen(op: Conversion, flag: Value, yes: Value, no: Value) -> Value:
    if yes.type != no.type:
        raise Unsupported(
            f"branches that give {yes.type} and {no.type}, chosen at run time",
            hint="let both branches give tensors of one type, or export with the condition fixed",
        )
    return yes if yes is no else op.emit(Where(), flag, yes, no)


def while_(op: Conversion) -> None:
    """Rounds of a body while a condition holds that is known in every round.

    Raises: Unsupported.
    """
    carried: list[Value] = op.operands()
    for _ in range(MAX_ROUNDS + 1):
        going = _inlined(op, op.integer("cond_subgraph"), carried)
        if going is None:
            _give(op, None)
            return
        if len(going) != 1 or going[0].type.elements != 1:
            raise InvalidModel("the condition of a loop is one value")
        (condition,) = going
        if condition.data is None:
            raise Unsupported("a loop whose number of rounds is decided at run time", hint=_LOOP)
        if not condition.data.ravel()[0]:
            _give(op, carried)
            return
        results = _inlined(op, op.integer("body_subgraph"), carried)
        if results is None or len(results) != len(carried):
            _give(op, results)
            return
        carried = results
    raise Unsupported(f"a loop of more than {MAX_ROUNDS} rounds", hint=_LOOP)


CONVERTERS: dict[str, Converter] = {
    "CALL": call,
    "STABLEHLO_COMPOSITE": call,
    "IF": if_,
    "WHILE": while_,
}
