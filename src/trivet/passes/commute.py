"""How operators commute with a transpose: op(transpose(x)) as transpose(op'(x)).

Axes of the operand as `op` sees it are called outer, axes of `x` inner: outer axis i is inner axis perm[i].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.op import Op
from trivet.ir.types import Shape
from trivet.ops.activation import Lookup, Relu
from trivet.ops.elementwise import Cast
from trivet.ops.matmul import Dense
from trivet.ops.movement import Concat, Expand, Gather, Pad, Reinterpret, Reshape, Slice, Tile
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.ops.reduce import ArgMax, ArgMin, Mean, ReduceMax, ReduceMin, ReduceProd, Sum
from trivet.ops.softmax import LogSoftmax, Softmax
from trivet.passes.lookup_tables import POINTWISE

Perm = tuple[int, ...]

ELEMENTWISE = (*POINTWISE, Relu, Cast, Dequantize, Requantize)
"""Operators whose operands all broadcast together, and that have no attribute about an axis."""

REDUCTIONS = (Mean, Sum, ReduceMax, ReduceMin, ReduceProd)


@dataclass(frozen=True, slots=True)
class Commuted:
    """op(transpose{perm}(x)) = transpose{after}(op(x)) with this `op`."""

    op: Op
    after: Perm


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes `perm`."""
    undone = [0] * len(perm)
    for axis, source in enumerate(perm):
        undone[source] = axis
    return tuple(undone)


def compose(inner: Perm, outer: Perm) -> Perm:
    """transpose{outer}(transpose{inner}(x)) as one permutation."""
    return tuple(inner[axis] for axis in outer)


def data_operands(node: Node) -> range:
    """The operands that carry the axes: all of an elementwise operator or concat, else the first."""
    joined = isinstance(node.op, (*ELEMENTWISE, Concat))
    return range(len(node.inputs)) if joined else range(1)


def commuted(node: Node, perm: Perm) -> Commuted | None:
    """How `node` commutes with a transpose by `perm` on every data operand, or None if it does not."""
    op = node.op
    if isinstance(op, ELEMENTWISE):
        return Commuted(op, perm)
    if isinstance(op, Concat | Slice | Pad | Tile | Softmax | LogSoftmax | Lookup | Quantize | Reinterpret):
        return _same_rank(op, perm)
    if isinstance(op, REDUCTIONS):
        return _reduction(op, perm)
    match op:
        case ArgMax(axis, keep) | ArgMin(axis, keep):
            return Commuted(replace(op, axis=perm[axis]), perm if keep else _without(perm, (axis,)))
        case Expand(shape) if len(shape) == len(perm):
            return Commuted(Expand(_inner(shape, perm)), perm)
        case Gather(axis):
            return _gather(axis, node.inputs[1].type.rank, perm)
        case Dense() if perm[-1] == len(perm) - 1:
            return Commuted(op, perm)
        case Reshape(shape):
            return reshaped(node.inputs[0].type.shape, shape, perm)
    return None


def _inner(values: Sequence[int], perm: Perm) -> tuple[int, ...]:
    """One value for each outer axis, reordered for the inner axes."""
    return tuple(values[axis] for axis in inverse(perm))


def _same_rank(op: Op, perm: Perm) -> Commuted | None:
    match op:
        case Concat(axis):
            return Commuted(Concat(perm[axis]), perm)
        case Slice(starts, sizes, steps):
            return Commuted(Slice(_inner(starts, perm), _inner(sizes, perm), _inner(steps, perm)), perm)
        case Pad(before, after):
            return Commuted(replace(op, before=_inner(before, perm), after=_inner(after, perm)), perm)
        case Tile(repeats):
            return Commuted(Tile(_inner(repeats, perm)), perm)
        case Softmax(axis) | LogSoftmax(axis):
            # Kernels run along the last axis; a softmax that is there stays there.
            last = len(perm) - 1
            kept = axis != last or perm[axis] == last
            return Commuted(replace(op, axis=perm[axis]), perm) if kept else None
        case Quantize(out) if out.axis is not None:
            return Commuted(replace(op, out=out.with_axis(perm[out.axis])), perm)
        case Reinterpret(out) if out is not None and out.axis is not None:
            return Commuted(Reinterpret(out.with_axis(perm[out.axis])), perm)
    return Commuted(op, perm)


def _without(perm: Perm, axes: tuple[int, ...]) -> Perm:
    """What is left of a permutation when outer `axes` disappear."""
    kept = [source for axis, source in enumerate(perm) if axis not in axes]
    order = sorted(kept)
    return tuple(order.index(source) for source in kept)


def _reduction(op: Op, perm: Perm) -> Commuted:
    assert isinstance(op, REDUCTIONS)
    axes = tuple(sorted(perm[axis] for axis in op.axes))
    return Commuted(replace(op, axes=axes), perm if op.keep_dims else _without(perm, op.axes))


def _gather(axis: int, indices_rank: int, perm: Perm) -> Commuted:
    """The gathered axis becomes the axes of the indices, in both orders."""
    gathered = perm[axis]

    def position(source: int) -> int:
        return source if source < gathered else source + indices_rank - 1

    after: list[int] = []
    for outer, source in enumerate(perm):
        after += range(gathered, gathered + indices_rank) if outer == axis else [position(source)]
    return Commuted(Gather(gathered), tuple(after))


@dataclass(slots=True)
class _Group:
    """Neighbouring axes before a reshape that become neighbouring axes after it."""

    before: list[int]
    after: list[int]


def reshaped(outer: Shape, target: Shape, perm: Perm) -> Commuted | None:
    """How a reshape of `outer` to `target` commutes: possible iff axes that merge or split together are neighbours in
    the same order in inner order too, axes of extent one aside.
    """
    groups = _groups(outer, target)
    if groups is None:
        return None
    owner = {perm[axis]: number for number, group in enumerate(groups) for axis in group.before if outer[axis] != 1}
    runs = [owner[source] for source in sorted(owner)]
    for number, group in enumerate(groups):
        sources = [perm[axis] for axis in group.before if outer[axis] != 1]
        first = runs.index(number) if sources else 0
        if sources != sorted(sources) or runs[first : first + len(sources)] != [number] * len(sources):
            return None
    order = sorted(range(len(groups)), key=lambda number: _place(groups[number], outer, perm))
    axes = [axis for number in order for axis in groups[number].after]
    return Commuted(Reshape(tuple(target[axis] for axis in axes)), tuple(axes.index(a) for a in range(len(target))))


def _place(group: _Group, outer: Shape, perm: Perm) -> int:
    sources = [perm[axis] for axis in group.before if outer[axis] != 1] or [perm[axis] for axis in group.before]
    return min(sources, default=len(perm))


def _groups(outer: Shape, target: Shape) -> list[_Group] | None:
    """The finest common grouping of two shapes with equal products; left-over unit axes join the last group."""
    if 0 in outer or 0 in target or not outer or not target:
        return None
    groups: list[_Group] = []
    i = j = 0
    while i < len(outer) and j < len(target):
        group = _Group([i], [j])
        i, j = i + 1, j + 1
        while True:
            left = math.prod(outer[axis] for axis in group.before)
            right = math.prod(target[axis] for axis in group.after)
            if left == right:
                break
            if left < right:
                group.before.append(i)
                i += 1
            else:
                group.after.append(j)
                j += 1
        groups.append(group)
    groups[-1].before += range(i, len(outer))
    groups[-1].after += range(j, len(target))
    return groups
