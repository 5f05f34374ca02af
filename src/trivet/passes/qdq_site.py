"""Where fold-qdq works: one quantize, and the float operator whose result it stores."""

from __future__ import annotations

import math

import numpy as np

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.ir.graph import Node, Value
from trivet.ir.op import Op
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.activation import Clamp
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.passes.patterns import made_by


@dataclass(frozen=True, slots=True)
class Site:
    """`node` computes in float what `quantize` stores; new operators go before `quantize`."""

    rw: Rewriter
    quantize: Node
    node: Node

    @property
    def _op(self) -> Quantize:
        assert isinstance(self.quantize.op, Quantize)
        return self.quantize.op

    @property
    def out(self) -> Quant:
        return self._op.out

    @property
    def dtype(self) -> DType:
        return self._op.dtype

    @property
    def numerics(self) -> Numerics:
        return self._op.numerics

    def emit(self, op: Op, *operands: Value, name: str = "") -> Value:
        return self.rw.insert_before(self.quantize, op, operands, name, self.node.loc)

    def stored(self, value: Value) -> Value | None:
        """The integers behind a dequantized operand of the site's element type with one scale, or None."""
        source = made_by(value, Dequantize)
        if source is None:
            return None
        integers = source.inputs[0]
        quant = integers.type.quant
        return integers if integers.type.dtype is self.dtype and quant is not None and quant.axis is None else None

    def requantized(self, value: Value) -> Value:
        """A quantized value under the site's quantization."""
        if value.type.quant == self.out and value.type.dtype is self.dtype:
            return value
        return self.emit(Requantize(self.out, self.dtype, self.numerics), value)

    def quantized(self, value: Value) -> Value:
        """Any operand as integers under the site's quantization: requantized, or quantized where it is float."""
        stored = self.stored(value)
        return self.emit(self._op, value) if stored is None else self.requantized(stored)

    def clamped(self, value: Value, bounds: Bounds) -> Value:
        """`value`, which has the site's quantization, within real bounds."""
        stored = self.bounds(bounds)
        if stored == UNBOUNDED:
            return value
        return self.emit(Clamp(stored, out=self.out, numerics=self.numerics), value)

    def bounds(self, real: Bounds) -> Bounds:
        """Real bounds as stored integers: rounding is monotone, so clamping before or after it is the same."""
        return stored_bounds(real, self._op)


def stored_bounds(real: Bounds, quantize: Quantize) -> Bounds:
    """Real bounds as `quantize` stores them; a side that excludes nothing stays open."""
    dtype = quantize.dtype
    ends = np.array([real.lo, real.hi], np.float32)
    lo, hi = (int(v) for v in quantize.evaluate((ends,), (TensorType(F32, (2,)),))[0])
    return Bounds(-math.inf if lo == dtype.min else lo, math.inf if hi == dtype.max else hi)
