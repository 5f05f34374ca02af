"""Operators that move elements without computing on them. Quantization travels along unchanged."""

from __future__ import annotations

import math
from enum import Enum
from typing import ClassVar

import numpy as np

from trivet.core.access import Access, AxisRule, Blocked, Shifted, Sliding, Span, Whole, pointwise
from trivet.core.dtype import I32, I64
from trivet.core.interval import Interval
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir import op as contract
from trivet.ir.op import Array, Arrays, Intervals, Op, Region, broadcast_shapes, require
from trivet.ir.types import Shape, TensorType, Types
from trivet.ops.pointwise import Pointwise, broadcast_access, covers, regions


def _moved(x: TensorType, shape: Shape) -> TensorType:
    """Another shape, for operators that need a per-tensor quantization."""
    require(x.quant is None or x.quant.is_per_tensor, f"{x} is quantized per channel")
    return x.with_shape(shape)


class _Movement(Op):
    """Every result element is one of the first operand's."""

    __slots__ = ()

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals[:1]


def _contiguous(x: Array) -> Array:
    """`x` in C order; unlike numpy's own function this keeps rank 0."""
    return np.asarray(x, order="C")


def _sizes(out: Region) -> Shape:
    return tuple(span.size for span in out)


@dataclass(frozen=True, slots=True)
class Copy(_Movement):
    """The same tensor in another place: planning puts it where a value goes from one memory to another.

    x: [...] -> y: [...]
    """

    name: ClassVar[str] = "copy"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "copy takes one operand")
        return types

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (arrays[0].copy(),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (tuple(pointwise(axis, size) for axis, size in enumerate(types[0].shape)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        return contract.Tile(self, (out,))


@dataclass(frozen=True, slots=True)
class Reshape(_Movement):
    """The same elements in the same order under another shape.

    x: [...] -> y: `shape`
    """

    shape: Shape
    name: ClassVar[str] = "reshape"
    views_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "reshape takes one operand")
        (x,) = types
        require(math.prod(self.shape) == x.elements, f"reshape of {x} to {list(self.shape)} changes the element count")
        return (_moved(x, self.shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (arrays[0].reshape(self.shape),)

    def access(self, types: Types) -> tuple[Access, ...]:
        shape, kept = types[0].shape, self._kept_axes(types[0].shape)
        return (tuple(pointwise(i, n) if i < kept else Whole(n) for i, n in enumerate(shape)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        kept = self._kept_axes(types[0].shape)
        if not all(covers(out, self.shape, axis) for axis in range(kept, len(self.shape))):
            return None
        op = Reshape((*_sizes(out[:kept]), *self.shape[kept:]))
        return contract.Tile(op, ((*out[:kept], *(Span(0, n) for n in types[0].shape[kept:])),))

    def _kept_axes(self, shape: Shape) -> int:
        """How many leading axes have the same extent before and after."""
        pairs = zip(shape, self.shape, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(shape), len(self.shape)))


@dataclass(frozen=True, slots=True)
class Transpose(_Movement):
    """Axes in another order: axis i of the result is axis perm[i] of the operand."""

    perm: tuple[int, ...]
    name: ClassVar[str] = "transpose"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "transpose takes one operand")
        (x,) = types
        require(sorted(self.perm) == list(range(x.rank)), f"transpose {self.perm} is no permutation of {x.rank} axes")
        quant = x.quant
        if quant is not None and quant.axis is not None:
            quant = quant.with_axis(self.perm.index(quant.axis))
        return (TensorType(x.dtype, tuple(x.shape[p] for p in self.perm), quant),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (_contiguous(arrays[0].transpose(self.perm)),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (tuple(pointwise(self.perm.index(i), n) for i, n in enumerate(types[0].shape)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        return contract.Tile(self, regions(self.access(types), out))


@dataclass(frozen=True, slots=True)
class Concat(_Movement):
    """Operands one after the other along an axis; all have the same element type and quantization.

    x_i: [..., S_i, ...] -> y: [..., sum S_i, ...]
    """

    axis: int
    name: ClassVar[str] = "concat"

    def infer(self, types: Types) -> Types:
        require(len(types) >= 1, "concat takes at least one operand")
        first = types[0]
        require(0 <= self.axis < first.rank, f"concat axis {self.axis} is outside rank {first.rank}")
        for other in types[1:]:
            require(
                other.dtype is first.dtype and other.rank == first.rank, f"concat does not take {first} with {other}"
            )
            require(other.quant == first.quant, f"concat operands differ in quantization: {first.quant}, {other.quant}")
            rest = [i for i in range(first.rank) if i != self.axis]
            require(all(other.shape[i] == first.shape[i] for i in rest), f"concat does not take {first} with {other}")
        shape = list(first.shape)
        shape[self.axis] = sum(t.shape[self.axis] for t in types)
        return (_moved(first, tuple(shape)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (np.concatenate(arrays, self.axis),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return (Interval.hull(intervals),)

    def access(self, types: Types) -> tuple[Access, ...]:
        offset, operands = 0, []
        for type_ in types:
            joined = Shifted(self.axis, type_.shape[self.axis], offset)
            operands.append(tuple(joined if i == self.axis else pointwise(i, n) for i, n in enumerate(type_.shape)))
            offset += type_.shape[self.axis]
        return tuple(operands)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        return contract.Tile(self, regions(self.access(types), out))


@dataclass(frozen=True, slots=True)
class Slice(_Movement):
    """A regular part: index i of axis a of the result is index starts[a] + i*steps[a] of the operand.

    x: [...] -> y: `sizes`; steps may be negative.
    """

    starts: tuple[int, ...]
    sizes: Shape
    steps: tuple[int, ...]
    name: ClassVar[str] = "slice"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "slice takes one operand")
        (x,) = types
        require(len(self.starts) == len(self.sizes) == len(self.steps) == x.rank, f"slice needs {x.rank} axes")
        for axis, (start, size, step) in enumerate(zip(self.starts, self.sizes, self.steps, strict=True)):
            last = start + (size - 1) * step
            inside = 0 <= start < x.shape[axis] and 0 <= last < x.shape[axis]
            require(step != 0 and size >= 0 and (size == 0 or inside), f"slice leaves axis {axis} of {x}")
        return (_moved(x, self.sizes),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        for axis, (start, size, step) in enumerate(zip(self.starts, self.sizes, self.steps, strict=True)):
            x = np.take(x, start + np.arange(size) * step, axis)
        return (_contiguous(x),)

    def access(self, types: Types) -> tuple[Access, ...]:
        rules = [
            _slice_rule(axis, *parts)
            for axis, parts in enumerate(zip(types[0].shape, self.starts, self.steps, strict=True))
        ]
        return (tuple(rules),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        (region,) = regions(self.access(types), out)
        first = [start + span.start * step for start, span, step in zip(self.starts, out, self.steps, strict=True)]
        starts = tuple(max(0, a - span.start) for a, span in zip(first, region, strict=True))
        return contract.Tile(Slice(starts, _sizes(out), self.steps), (region,))


def _slice_rule(axis: int, size: int, start: int, step: int) -> AxisRule:
    if step == 1:
        return Shifted(axis, size, -start)
    return Sliding(axis, size, stride=step, before=-start) if step > 1 else Whole(size)


class PadMode(Enum):
    """What padding holds: one value, the border element, or the mirrored tensor without / with its border."""

    CONSTANT = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


@dataclass(frozen=True, slots=True)
class Pad(_Movement):
    """Elements added before and after each axis; `value` is a stored value.

    x: [...] -> y: [before + size + after for each axis]
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0
    mode: PadMode = PadMode.CONSTANT
    name: ClassVar[str] = "pad"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "pad takes one operand")
        (x,) = types
        require(len(self.before) == len(self.after) == x.rank, f"pad needs {x.rank} axes")
        require(min((*self.before, *self.after), default=0) >= 0, "pad takes no negative padding")
        if self.mode in (PadMode.REFLECT, PadMode.SYMMETRIC):
            spare = 1 if self.mode is PadMode.REFLECT else 0
            limit = all(max(b, a) <= d - spare for b, a, d in zip(self.before, self.after, x.shape, strict=True))
            require(limit, f"{self.mode.value} padding is wider than {x}")
        return (_moved(x, tuple(b + d + a for b, d, a in zip(self.before, x.shape, self.after, strict=True))),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        (x,) = arrays
        widths = tuple(zip(self.before, self.after, strict=True))
        if self.mode is PadMode.CONSTANT:
            return (np.pad(x, widths, constant_values=x.dtype.type(self.value)),)
        return (np.pad(x, widths, mode=self.mode.value),)

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        if self.mode is not PadMode.CONSTANT or not types[0].dtype.is_integer:
            return intervals
        return (Interval.hull((*intervals, Interval(int(self.value), int(self.value)))),)

    def access(self, types: Types) -> tuple[Access, ...]:
        (x,) = types
        if self.mode is PadMode.CONSTANT:
            return (
                tuple(Shifted(i, n, before) for i, (n, before) in enumerate(zip(x.shape, self.before, strict=True))),
            )
        return (tuple(Whole(n) if self._pads(i) else pointwise(i, n) for i, n in enumerate(x.shape)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        (access,) = self.access(types)
        if self.mode is not PadMode.CONSTANT:
            (y,) = self.infer(types)
            whole = all(covers(out, y.shape, axis) for axis in range(y.rank) if self._pads(axis))
            return contract.Tile(self, regions((access,), out)) if whole else None
        missing = [rule.missing(span) for rule, span in zip(access, out, strict=True)]
        op = Pad(tuple(m[0] for m in missing), tuple(m[1] for m in missing), self.value, self.mode)
        return contract.Tile(op, regions((access,), out))

    def _pads(self, axis: int) -> bool:
        return self.before[axis] > 0 or self.after[axis] > 0


@dataclass(frozen=True, slots=True)
class Expand(_Movement):
    """Axes of extent one repeated.

    x: broadcasts to `shape` -> y: `shape`
    """

    shape: Shape
    name: ClassVar[str] = "expand"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1, "expand takes one operand")
        (x,) = types
        require(broadcast_shapes(x.shape, self.shape) == self.shape, f"{x} does not broadcast to {list(self.shape)}")
        return (_moved(x, self.shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (_contiguous(np.broadcast_to(arrays[0], self.shape)),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (broadcast_access(types[0].shape, self.shape),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        return contract.Tile(Expand(_sizes(out)), regions(self.access(types), out))


@dataclass(frozen=True, slots=True)
class Tile(_Movement):
    """The whole operand repeated along each axis.

    x: [...] -> y: [size * repeats for each axis]
    """

    repeats: tuple[int, ...]
    name: ClassVar[str] = "tile"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and len(self.repeats) == types[0].rank, "tile takes one operand and a count per axis")
        (x,) = types
        return (_moved(x, tuple(d * r for d, r in zip(x.shape, self.repeats, strict=True))),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (np.tile(arrays[0], self.repeats),)

    def access(self, types: Types) -> tuple[Access, ...]:
        return (tuple(pointwise(i, n) if self.repeats[i] == 1 else Whole(n) for i, n in enumerate(types[0].shape)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        (y,) = self.infer(types)
        if not all(covers(out, y.shape, axis) for axis, repeat in enumerate(self.repeats) if repeat != 1):
            return None
        return contract.Tile(self, regions(self.access(types), out))


@dataclass(frozen=True, slots=True)
class Gather(_Movement):
    """Slices along an axis, chosen by index.

    x: [A.., S, B..], indices: i32 or i64 [I..] in [-S, S) -> y: [A.., I.., B..]
    """

    axis: int
    name: ClassVar[str] = "gather"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"gather takes 2 operands, got {len(types)}")
        x, indices = types
        require(0 <= self.axis < x.rank, f"gather axis {self.axis} is outside rank {x.rank}")
        require(indices.dtype in (I32, I64), f"gather takes i32 or i64 indices, got {indices}")
        return (_moved(x, (*x.shape[: self.axis], *indices.shape, *x.shape[self.axis + 1 :])),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, indices = arrays
        return (np.asarray(np.take(x, indices, self.axis)),)

    def access(self, types: Types) -> tuple[Access, ...]:
        x, indices = types
        after = indices.rank - 1
        rules = [pointwise(i if i < self.axis else i + after, n) for i, n in enumerate(x.shape)]
        chosen = tuple(pointwise(self.axis + i, n) for i, n in enumerate(indices.shape))
        return (*rules[: self.axis], Whole(x.shape[self.axis]), *rules[self.axis + 1 :]), chosen

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        return contract.Tile(self, regions(self.access(types), out))


@dataclass(frozen=True, slots=True)
class SpaceToDepth(_Movement):
    """Blocks of pixels become channels.

    x: [N, H*b, W*b, C] -> y: [N, H, W, b*b*C], block row, block column, channel
    """

    block: int
    name: ClassVar[str] = "space_to_depth"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].rank == 4 and self.block > 0, "space_to_depth takes one [N, H, W, C]")
        n, h, w, c = types[0].shape
        require(
            h % self.block == 0 and w % self.block == 0, f"space_to_depth by {self.block} does not divide {types[0]}"
        )
        return (_moved(types[0], (n, h // self.block, w // self.block, c * self.block**2)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        n, h, w, c = types[0].shape
        b = self.block
        blocks = arrays[0].reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
        return (_contiguous(blocks).reshape(n, h // b, w // b, b * b * c),)

    def access(self, types: Types) -> tuple[Access, ...]:
        n, h, w, c = types[0].shape
        return ((pointwise(0, n), Blocked(1, h, self.block, 1), Blocked(2, w, self.block, 1), Whole(c)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        (y,) = self.infer(types)
        return contract.Tile(self, regions(self.access(types), out)) if covers(out, y.shape, 3) else None


@dataclass(frozen=True, slots=True)
class DepthToSpace(_Movement):
    """Channels become blocks of pixels.

    x: [N, H, W, b*b*C] -> y: [N, H*b, W*b, C]; `channel_major` reads channels as (C, b, b), else as (b, b, C).
    """

    block: int
    channel_major: bool = False
    name: ClassVar[str] = "depth_to_space"

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].rank == 4 and self.block > 0, "depth_to_space takes one [N, H, W, C]")
        n, h, w, c = types[0].shape
        require(c % self.block**2 == 0, f"depth_to_space by {self.block} does not divide {types[0]}")
        return (_moved(types[0], (n, h * self.block, w * self.block, c // self.block**2)),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        n, h, w, c = types[0].shape
        b, depth = self.block, c // self.block**2
        if self.channel_major:
            blocks = arrays[0].reshape(n, h, w, depth, b, b).transpose(0, 1, 4, 2, 5, 3)
        else:
            blocks = arrays[0].reshape(n, h, w, b, b, depth).transpose(0, 1, 3, 2, 4, 5)
        return (_contiguous(blocks).reshape(n, h * b, w * b, depth),)

    def access(self, types: Types) -> tuple[Access, ...]:
        n, h, w, c = types[0].shape
        return ((pointwise(0, n), Blocked(1, h, 1, self.block), Blocked(2, w, 1, self.block), Whole(c)),)

    def tile(self, types: Types, out: Region) -> contract.Tile | None:
        (y,) = self.infer(types)
        aligned = all(end % self.block == 0 for span in out[1:3] for end in (span.start, span.stop))
        return contract.Tile(self, regions(self.access(types), out)) if aligned and covers(out, y.shape, 3) else None


@dataclass(frozen=True, slots=True)
class Reinterpret(Pointwise):
    """The same stored integers under another quantization: no arithmetic.

    x: quantized or plain integers [...] -> y: the same shape and element type, quantization `out`
    """

    out: Quant | None
    name: ClassVar[str] = "reinterpret"
    views_input: ClassVar[bool] = True

    def infer(self, types: Types) -> Types:
        require(len(types) == 1 and types[0].dtype.is_integer, "reinterpret takes one integer operand")
        return (TensorType(types[0].dtype, types[0].shape, self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return arrays

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        return intervals
