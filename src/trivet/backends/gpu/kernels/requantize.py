"""From exact sums to stored results: Q0.31 multipliers, zero point, clamp, on the extended machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trivet.backends.gpu.builder import Builder
from trivet.backends.gpu.ir import Value, Var
from trivet.backends.gpu.isa import Opcode
from trivet.backends.gpu.recipe import Words
from trivet.core.bounds import Bounds
from trivet.core.dtype import I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant, quantize_multipliers
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ops.products import Reals, centered, clamp_limits

MOST_SUM = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Requantizer:
    """acc * scale of the channel, rounded twice as TensorFlow Lite does: left shift, product, right shift.

    Each of the three is one number for all channels, or a table with one for each. A left shift that leaves 32 bits is
    a fault here, where the contract wraps.
    """

    lefts: Words
    mantissas: Words
    rights: Words
    zero_point: int
    clamp: Bounds

    @staticmethod
    def of(scales: Reals, out: Quant, clamp: Bounds) -> Requantizer:
        mantissas, shifts = quantize_multipliers(scales)
        return Requantizer(np.maximum(shifts, 0), mantissas, np.maximum(-shifts, 0), out.zero_point, clamp)

    def tables(self) -> tuple[Words, ...]:
        """What must lie in memory."""
        return tuple(values for values in (self.lefts, self.mantissas, self.rights) if len(set(values.tolist())) > 1)

    def write(self, out: Builder, total: Value, channel: Value, tables: tuple[int, ...]) -> Var:
        """The stored result; `tables` are the addresses of `tables()`."""
        left = iter(tables)
        shift, mantissa, right = (
            _one_of(out, values, channel, left) for values in (self.lefts, self.mantissas, self.rights)
        )
        value = total if shift == 0 else out.binary(Opcode.SHL, total, shift, "shifted")
        result = out.binary(Opcode.MULH, value, mantissa, "scaled")
        if right != 0:
            result = out.binary(Opcode.SHRN, result, right, "y")
        limits = clamp_limits(I8, self.clamp)
        result = out.add(result, self.zero_point, "y")
        return clipped(out, result, limits.lo, limits.hi)


def _one_of(out: Builder, values: Words, channel: Value, tables: Iterator[int]) -> Value:
    if len(set(values.tolist())) == 1:
        return int(values[0])
    return out.load(out.add(channel, next(tables)), "m")


def clipped(out: Builder, value: Value, lo: int, hi: int) -> Var:
    """min(max(value, lo), hi)"""
    return out.binary(Opcode.MIN, out.binary(Opcode.MAX, value, lo, "y"), hi, "y")


def is_int8_product(node: Node) -> bool:
    """True iff the operator sums products of int8 values with a constant weight in 32 bits, under a TFLite contract."""
    numerics = getattr(node.op, "numerics", None)
    types = node.input_types
    plain = numerics is not None and numerics is not Numerics.ONNX and all(t.dtype is I8 for t in types[:2])
    constant = all(value.is_constant for value in node.inputs[1:])
    return plain and constant and all(t.dtype is I32 for t in types[2:])


def centered_weight(node: Node) -> Words:
    """The weight minus its zero points, flat."""
    w = node.inputs[1]
    assert w.data is not None
    return centered(w.data, w.type).astype(np.int64).ravel()


def bias_of(node: Node, channels: int) -> Words:
    """The bias, or zeros: [channels]."""
    if len(node.inputs) < 3:
        return np.zeros(channels, np.int64)
    data = node.inputs[2].data
    assert data is not None
    return data.astype(np.int64)


def zero_of(node: Node) -> int:
    """The zero point of the activations."""
    quant = node.inputs[0].type.quant
    assert quant is not None
    return quant.zero_point
