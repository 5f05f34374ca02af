"""Operators whose every output element depends on the same element of each operand, extents of one broadcasting."""

from __future__ import annotations

from trivet.core.access import Access, AxisRule, Broadcast, Reduced, Span, Whole, pointwise
from trivet.ir.op import Op, Region, Tile
from trivet.ir.types import Shape, Types


def broadcast_access(operand: Shape, out: Shape) -> Access:
    """Rules of an operand that broadcasts to the result."""
    lead = len(out) - len(operand)
    return tuple(
        Broadcast() if size == 1 and out[axis + lead] != 1 else pointwise(axis + lead, size)
        for axis, size in enumerate(operand)
    )


def regions(access: tuple[Access, ...], out: Region) -> tuple[Region, ...]:
    """What each operand is read for the output region `out`."""
    return tuple(tuple(_read(rule, out) for rule in operand) for operand in access)


def _read(rule: AxisRule, out: Region) -> Span:
    match rule:
        case Broadcast() | Reduced() | Whole():
            return Span(0, rule.size)
        case _:
            return rule.reads(out[rule.out_axis])


def covers(out: Region, shape: Shape, axis: int) -> bool:
    """True iff the region holds all of an axis of the result."""
    return out[axis].start == 0 and out[axis].stop == shape[axis]


class Pointwise(Op):
    """Gives access and tiles to elementwise operators."""

    __slots__ = ()

    def access(self, types: Types) -> tuple[Access, ...]:
        (y,) = self.infer(types)
        return tuple(broadcast_access(operand.shape, y.shape) for operand in types)

    def tile(self, types: Types, out: Region) -> Tile | None:
        return Tile(self, regions(self.access(types), out))


class AlongAxis(Op):
    """Gives access and tiles to operators that need all of one axis and work alone along every other."""

    __slots__ = ()

    axis: int

    def access(self, types: Types) -> tuple[Access, ...]:
        (x,) = types
        return (tuple(Whole(n) if i == self.axis else pointwise(i, n) for i, n in enumerate(x.shape)),)

    def tile(self, types: Types, out: Region) -> Tile | None:
        if not covers(out, types[0].shape, self.axis):
            return None
        return Tile(self, regions(self.access(types), out))
