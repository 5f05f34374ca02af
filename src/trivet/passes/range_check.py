"""The proof that exact integer arithmetic never leaves its type."""

from __future__ import annotations

from typing import ClassVar

from trivet.analysis.accumulators import INT32
from trivet.analysis.ranges import Overflowing, Ranges, analyze_ranges, is_exact, limits_of
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.core.source import excerpt
from trivet.errors import CompileError, MayOverflow, Problems
from trivet.ir.graph import Node
from trivet.ir.op import full_range
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass

EXACT_HINT = "use smaller constants or fewer terms, or state a narrower range of the i32 inputs (--i32-range)"
SHOWN_STEPS = 12
PRODUCT_HINT = "quantize with a larger scale of the weights, or split the layer: its sums are kept in 32 bits"


@dataclass(frozen=True, slots=True)
class RangeCheck(Pass):
    """The graph is accepted, or rejected because exact arithmetic or the sums of a product may overflow.

    i32 inputs of exact programs are assumed to lie in `i32` (None: in what their ports accept, or in +-2^20), and their
    ports say so from then on; operators that wrap by definition are left alone.
    """

    name: ClassVar[str] = "range-check"
    i32: Interval | None = None

    def rewrite(self, rw: Rewriter) -> None:
        ranges = analyze_ranges(rw.graph, self.i32)
        problems: list[CompileError] = [_explain(found, ranges) for found in ranges.overflowing]
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise Problems(rw.graph.name, problems)
        for index, value in enumerate(rw.graph.inputs):
            interval = ranges.interval(value)
            if rw.accept(index, None if interval == full_range(value.type) else interval):
                rw.count("range of an input")


def _explain(found: Overflowing, ranges: Ranges) -> MayOverflow:
    node = found.node
    bits = max(found.interval.hi.bit_length(), (-found.interval.lo - 1).bit_length()) + 1
    what, room = node.op.name, "i32" if limits_of(node) == INT32 else node.output.type.dtype.name
    if not is_exact(node):
        what = f"the sum inside {what}"
    lines = [f"{what} may reach {_show(found.interval)}, which needs {bits} bits and does not fit {room}"]
    lines += excerpt(node.loc)
    steps = [_step(step, ranges) for step in found.chain]
    if len(steps) > SHOWN_STEPS:
        steps[SHOWN_STEPS // 2 : -SHOWN_STEPS // 2] = [f"    ... {len(steps) - SHOWN_STEPS} more ..."]
    lines += steps
    return MayOverflow("\n".join(lines), where=node.loc, hint=EXACT_HINT if is_exact(node) else PRODUCT_HINT)


def _step(node: Node, ranges: Ranges) -> str:
    operands = ", ".join(f"{v.name or v.type} in {_show(ranges.interval(v))}" for v in node.inputs)
    return f"    {node.op.name} of {operands}" + (f"  ({node.loc})" if node.loc is not None else "")


def _show(interval: Interval) -> str:
    return f"[{interval.lo}, {interval.hi}]"
