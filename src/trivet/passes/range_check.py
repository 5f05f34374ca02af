"""The proof that exact integer arithmetic never leaves its type."""

from __future__ import annotations

from typing import ClassVar

from trivet.analysis.ranges import DEFAULT_I32, Overflowing, Ranges, analyze_ranges, is_exact
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.errors import CompileError, MayOverflow, Problems
from trivet.ir.rewriter import Rewriter
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class RangeCheck(Pass):
    """The graph stays as it is: accepted, or rejected because an exact operator may overflow.

    i32 inputs are assumed to lie in `i32`; operators that wrap by definition are left alone.
    """

    name: ClassVar[str] = "range-check"
    i32: Interval = DEFAULT_I32

    def rewrite(self, rw: Rewriter) -> None:
        if not any(is_exact(node) for node in rw.graph.nodes):
            return
        ranges = analyze_ranges(rw.graph, self.i32)
        problems: list[CompileError] = [_explain(found, ranges) for found in ranges.overflowing]
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise Problems(rw.graph.name, problems)


def _explain(found: Overflowing, ranges: Ranges) -> MayOverflow:
    node = found.node
    bits = max(found.interval.hi.bit_length(), (-found.interval.lo - 1).bit_length()) + 1
    lines = [
        f"{node.op.name} may reach [{found.interval.lo}, {found.interval.hi}], "
        f"which needs {bits} bits and does not fit {node.output.type.dtype.name}"
    ]
    for step in found.chain:
        operands = ", ".join(f"{v.name or v.type} in {_show(ranges.interval(v))}" for v in step.inputs)
        lines.append(f"    {step.op.name} of {operands}" + (f"  ({step.loc})" if step.loc is not None else ""))
    return MayOverflow(
        "\n".join(lines),
        where=node.loc,
        hint="use smaller constants or fewer terms, or state a narrower range of the i32 inputs (--i32-range)",
    )


def _show(interval: Interval) -> str:
    return f"[{interval.lo}, {interval.hi}]"
