"""Control flow: what is known at compile time is chosen or unrolled, the rest is computed and selected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.core.dtype import BOOL, I64
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.model import Body
from trivet.frontends.onnx.ops.movement import joined
from trivet.ir.graph import Value
from trivet.ops.elementwise import Minimum, Where
from trivet.ops.movement import Slice

ONNX = Converters()

MAX_ROUNDS = 256
"""A loop of more rounds would make too long a plan."""


@ONNX("If")
def if_(ctx: Context) -> tuple[Value, ...]:
    """The branch that a known condition chooses; of another condition both branches, and a selection."""
    condition = ctx.operand(0)
    if condition.type.elements != 1:
        ctx.invalid(f"the condition has {condition.type.elements} elements")
    branches = [ctx.attr_body(name) for name in ("then_branch", "else_branch")]
    if any(branch.inputs for branch in branches):
        ctx.invalid("a branch takes no inputs")
    known = ctx.constant_data(condition)
    if known is not None:
        return tuple(ctx.inline(branches[0] if bool(np.ravel(known)[0]) else branches[1]))
    yes, no = (ctx.inline(branch) for branch in branches)
    return tuple(_selected(ctx, condition, a, b) for a, b in zip(yes, no, strict=True))


def _selected(ctx: Context, condition: Value, yes: Value, no: Value) -> Value:
    """yes or no, which have one type."""
    if yes is no:
        return yes
    if yes.type.dtype is not no.type.dtype or yes.type.shape != no.type.shape:
        ctx.refuse(
            f"branches that give {yes.type} and {no.type}, chosen at run time",
            hint="let both branches give tensors of one shape, or fix the condition",
        )
    flag = ctx.reshape(condition, ())
    return ctx.emit(Where(), flag, ctx.unquantized(yes), ctx.unquantized(no))


@ONNX("Loop")
def loop(ctx: Context) -> tuple[Value, ...]:
    """Rounds (operand 0) of a body: unrolled; a condition that is decided at run time keeps what was before."""
    body = ctx.attr_body("body")
    rounds = int(ctx.known_scalar(0, "the number of rounds")) if ctx.has(0) else None
    going: Value = ctx.operand(1) if ctx.has(1) else ctx.constant(True, BOOL)
    carried = [ctx.operand(index) for index in range(2, len(ctx))]
    if len(body.inputs) != 2 + len(carried) or len(body.outputs) < 1 + len(carried):
        ctx.invalid(f"its body takes {len(body.inputs)} values for {len(carried)} that are carried")
    scans: list[list[Value]] = [[] for _ in body.outputs[1 + len(carried) :]]
    number = 0
    while (rounds is None or number < rounds) and not _is(going, False):
        if number >= MAX_ROUNDS or (rounds is None and not going.is_constant):
            ctx.refuse(f"a loop of more than {MAX_ROUNDS} rounds, or of a number that the data decides",
                       hint="unroll the loop before exporting, or state the number of rounds")  # fmt: skip
        entries = [ctx.constant(number, I64), ctx.reshape(going, ()), *carried]
        results = ctx.inline(body, dict(zip((port.name for port in body.inputs), entries, strict=True)))
        after = results[1 : 1 + len(carried)]
        if going.is_constant:
            carried, going = after, results[0]
        else:
            carried = [_selected(ctx, going, new, old) for new, old in zip(after, carried, strict=True)]
            going = ctx.emit(Minimum(), ctx.reshape(going, ()), ctx.reshape(results[0], ()))
        for scan, value in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(value)
        if scans and not going.is_constant:
            ctx.refuse("results of a number of rounds that the data decides", hint="let the condition be constant")
        number += 1
    return (*carried, *(_stacked(ctx, scan, 0) for scan in scans))


def _is(value: Value, wanted: bool) -> bool:
    return value.data is not None and bool(np.ravel(value.data)[0]) is wanted


def _stacked(ctx: Context, parts: Sequence[Value], axis: int) -> Value:
    """The parts side by side along a new axis."""
    if not parts:
        ctx.refuse("results of no round at all")
    shape = parts[0].type.shape
    lifted = [ctx.reshape(part, (*shape[:axis], 1, *shape[axis:])) for part in parts]
    return joined(ctx, lifted, axis)


@ONNX("Scan")
def scan(ctx: Context) -> tuple[Value, ...]:
    """A body over the slices of `num_scan_inputs` operands, unrolled; the operands before them are carried."""
    body, count = ctx.attr_body("body"), ctx.attr_int("num_scan_inputs")
    operands = [ctx.operand(index) for index in range(len(ctx))]
    if ctx.opset < 9 or not 1 <= count <= len(operands) or len(body.inputs) != len(operands):
        ctx.refuse("the scan of operator set 8", hint="convert the model to operator set 9 or later")
    carried, sources = operands[:-count], operands[-count:]
    axes = [
        ctx.axis(axis, source.type.rank)
        for axis, source in zip(ctx.attr_ints("scan_input_axes", (0,) * count), sources, strict=True)
    ]
    backwards = ctx.attr_ints("scan_input_directions", (0,) * count)
    rounds = {source.type.shape[axis] for source, axis in zip(sources, axes, strict=True)}
    if len(rounds) != 1 or max(rounds) > MAX_ROUNDS:
        ctx.refuse(f"a scan of {sorted(rounds)} rounds, at most {MAX_ROUNDS} are unrolled", hint="split the sequence")
    results: list[list[Value]] = []
    (total,) = rounds
    for number in range(total):
        slices = [
            _slice(ctx, source, axis, total - 1 - number if back else number)
            for source, axis, back in zip(sources, axes, backwards, strict=True)
        ]
        carried, made = _round(ctx, body, [*carried, *slices], len(carried))
        results.append(made)
    return (*carried, *_scanned(ctx, results))


def _round(ctx: Context, body: Body, entries: list[Value], carried: int) -> tuple[list[Value], list[Value]]:
    results = ctx.inline(body, dict(zip((port.name for port in body.inputs), entries, strict=True)))
    return results[:carried], results[carried:]


def _slice(ctx: Context, x: Value, axis: int, index: int) -> Value:
    """x[.., index, ..] along an axis."""
    shape = x.type.shape
    starts = tuple(index if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(1 if i == axis else size for i, size in enumerate(shape))
    return ctx.reshape(ctx.emit(Slice(starts, sizes, (1,) * len(shape)), x), (*shape[:axis], *shape[axis + 1 :]))


def _scanned(ctx: Context, results: list[list[Value]]) -> list[Value]:
    """Each result of all rounds along a new axis."""
    columns = list(zip(*results, strict=True))
    axes = ctx.attr_ints("scan_output_axes", (0,) * len(columns))
    backwards = ctx.attr_ints("scan_output_directions", (0,) * len(columns))
    return [
        _stacked(ctx, column[::-1] if back else column, ctx.axis(axis, column[0].type.rank + 1))
        for column, axis, back in zip(columns, axes, backwards, strict=True)
    ]
