"""Layers that the planner fuses, so that what lies between them is never held as a tensor.

No frontend makes a block and no text form has one: the planner puts it in the place of its layers, which it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trivet.core.access import Access, Sliding, Span, whole
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op
from trivet.ir.types import TensorType, Types
from trivet.ops.conv import Conv2D, DepthwiseConv2D


@dataclass(frozen=True, slots=True)
class Block(Op):
    """A pointwise convolution (maybe), then a depthwise one, then a pointwise one (maybe).

    x: [1, H, W, C], then the constants of each layer in turn -> y: [1, H', W', O]
    `counts` are the numbers of constants. `keeps_lines`: rows of the first layer's result that the next row of windows
    needs again are kept; else they are computed again. `strip`: pixels that
    are made at a time.
    """

    expand: Conv2D | None
    depthwise: DepthwiseConv2D
    project: Conv2D | None
    counts: tuple[int, ...]
    keeps_lines: bool = True
    strip: int = 4
    name: ClassVar[str] = "block"

    @property
    def layers(self) -> tuple[Op, ...]:
        return tuple(op for op in (self.expand, self.depthwise, self.project) if op is not None)

    def infer(self, types: Types) -> Types:
        return (self.results(types)[-1],)

    def results(self, types: Types) -> list[TensorType]:
        """The result type of each layer."""
        found: list[TensorType] = []
        for op, constants in self._parts(types):
            (result,) = op.infer((found[-1] if found else types[0], *constants))
            found.append(result)
        return found

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        value, type_ = arrays[0], types[0]
        for (op, constants), given in zip(self._parts(types), self._given(arrays), strict=True):
            operands = (type_, *constants)
            (value,) = op.evaluate((value, *given), operands)
            (type_,) = op.infer(operands)
        return (value,)

    def access(self, types: Types) -> tuple[Access, ...]:
        """The windows are the depthwise layer's; the others are pointwise."""
        widened = self.results(types)[0] if self.expand is not None else types[0]
        weights = next(constants for op, constants in self._parts(types) if op is self.depthwise)
        rows, columns = self.depthwise.access((widened, *weights))[0][1:3]
        assert isinstance(rows, Sliding) and isinstance(columns, Sliding)
        batch, _, _, channels = whole(types[0].shape)
        return ((batch, rows, columns, channels), *(whole(t.shape) for t in types[1:]))

    def macs(self, types: Types) -> int:
        total, value = 0, types[0]
        for op, constants in self._parts(types):
            total += op.macs((value, *constants))
            (value,) = op.infer((value, *constants))
        return total

    def repeated_macs(self, types: Types) -> int:
        """What is computed again because no lines are kept: rows of the first layer beyond the first time."""
        if self.expand is None or self.keeps_lines:
            return 0
        first = self.results(types)[0]
        rows, height = self.access(types)[0][1], self.results(types)[-1].shape[1]
        assert isinstance(rows, Sliding)
        made = sum(rows.reads(Span(y, y + 1)).size for y in range(height))
        return self.expand.macs(types[: 1 + self.counts[0]]) * (made - first.shape[1]) // first.shape[1]

    def _parts(self, types: Types) -> Iterator[tuple[Op, Types]]:
        at = 1
        for op, count in zip(self.layers, self.counts, strict=True):
            yield op, types[at : at + count]
            at += count

    def _given(self, arrays: Arrays) -> Iterator[tuple[Array, ...]]:
        at = 1
        for count in self.counts:
            yield arrays[at : at + count]
            at += count
