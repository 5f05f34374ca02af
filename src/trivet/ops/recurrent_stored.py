"""TensorFlow Lite's recurrent layers on stored integers: the LSTM with an int16 cell, and SVDF (in floats as well)."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from trivet.core import fixedpoint
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import F32, I8, I16, I32, I64
from trivet.core.fixedpoint import (
    Ints,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_64,
    rdbp,
    saturate16,
    wrap32,
)
from trivet.core.numerics import Numerics
from trivet.core.quant import Multiplier, Quant, quantize_multiplier
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, require
from trivet.ir.types import TensorType, Types
from trivet.ops.stored import scale_ratio
from trivet.ops.tflite_activation import logistic16, tanh16

GATE_SCALE = 2.0**-12
"""Of the sums that gates are applied to: Q3.12."""
UNIT_SCALE = 2.0**-15
"""Of gates: Q0.15."""
GATES = 4


@dataclass(frozen=True, slots=True)
class QuantizedLstm(Op):
    """Gates i, f, candidate, o (the order of rows) in 16 bits: cell = f*cell + i*candidate, h = o * tanh(cell).

    x: i8 or i16 [T, N, I], w: i8 [4H, I] and r: i8 [4H, H] with one scale a row (equal inside a gate), bias: i32 or
    (beside i16) i64 [4H], h: x's type [N, H], cell: i16 [N, H], whose scale is a power of two -> y [T, N, H], h, cell
    `out` is the quantization of o * tanh(cell); `cell_clip` limits the cell (0: not at all).
    """

    out: Quant
    numerics: Numerics
    cell_clip: float = 0.0
    name: ClassVar[str] = "quantized_lstm"

    def infer(self, types: Types) -> Types:
        require(len(types) == 6, f"quantized_lstm takes 6 operands, got {len(types)}")
        x, w, r, bias, h, cell = types
        require(x.dtype in (I8, I16) and x.rank == 3 and x.elements > 0, f"quantized_lstm takes [T, N, I], got {x}")
        require(x.dtype is I8 or not self.numerics.is_litert, "quantized_lstm on i16 is TensorFlow Lite Micro's")
        require(self.numerics is not Numerics.ONNX, "quantized_lstm is TensorFlow Lite's")
        require(r.rank == 2 and r.elements > 0 and r.shape[0] == GATES * r.shape[1], f"quantized_lstm weights {r}")
        hidden = r.shape[1]
        require(w.shape == (GATES * hidden, x.shape[2]), f"quantized_lstm weights {w} do not suit {x} and {r}")
        wanted = (I64, I32) if x.dtype is I16 else (I32,)
        require(bias.shape == (GATES * hidden,) and bias.dtype in wanted, f"quantized_lstm bias {bias}")
        state = (x.shape[1], hidden)
        require(h.shape == state and h.dtype is x.dtype and cell.shape == state, f"quantized_lstm states {h}, {cell}")
        require(cell.dtype is I16 and w.dtype is I8 and r.dtype is I8, "quantized_lstm has an i16 cell, i8 weights")
        quants = [t.quant for t in (x, w, r, h, cell)]
        require(all(q is not None for q in quants), "quantized_lstm takes quantized operands")
        require(all(t.quant is not None and t.quant.is_per_tensor for t in (x, h, cell)), "quantized_lstm scales")
        require(all(self._is_by_gate(t) for t in (w, r)), "quantized_lstm weights have one scale a gate")
        require(-20 <= self.cell_log2(types) <= 0, f"quantized_lstm cell of scale {cell}")
        require(math.isfinite(self.cell_clip) and self.cell_clip >= 0, f"quantized_lstm clips at {self.cell_clip}")
        return TensorType(x.dtype, (*x.shape[:2], hidden), h.quant), h, cell

    def _is_by_gate(self, weights: TensorType) -> bool:
        quant = weights.quant
        if quant is None or any(quant.zero_points):
            return False
        by_gate = quant.scales_for(weights.shape[0]).reshape(GATES, -1)
        return quant.axis in (None, 0) and bool((by_gate == by_gate[:, :1]).all())

    def cell_log2(self, types: Types) -> int:
        """log2 of the cell's scale; 1 where it is no power of two."""
        quant = types[5].quant
        assert quant is not None
        fraction, exponent = math.frexp(quant.scale)
        return exponent - 1 if fraction == 0.5 else 1

    def gate_multipliers(self, types: Types, operand: int, weights: int) -> tuple[Multiplier, ...]:
        """What brings sums of products of two operands to Q3.12, for each gate."""
        x, w = types[operand].quant, types[weights].quant
        assert x is not None and w is not None
        scales = w.scales_for(types[weights].shape[0]).reshape(GATES, -1)[:, 0]
        return tuple(scale_ratio(self.numerics, (x.scale, float(s)), (GATE_SCALE,)) for s in scales)

    def output_multiplier(self) -> Multiplier:
        """o * tanh(cell), both Q0.15, to the hidden state's scale; LiteRT's steps are float32."""
        if not self.numerics.is_litert:
            return quantize_multiplier(UNIT_SCALE * UNIT_SCALE / self.out.scale)
        unit = np.float32(UNIT_SCALE)
        return quantize_multiplier(float(unit / np.float32(self.out.scale) * unit))

    def cell_limit(self, types: Types) -> int:
        """The stored cell's largest magnitude; 0: none is set."""
        quant = types[5].quant
        assert quant is not None
        return int(min(float(np.float32(self.cell_clip)) / quant.scale, 32767.0)) if self.cell_clip else 0

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w, r, bias, h, cell = (a.astype(np.int64) for a in arrays)
        assert types[0].quant is not None and types[4].quant is not None
        hidden, log2, limit = r.shape[1], self.cell_log2(types), self.cell_limit(types)
        y = np.zeros((*x.shape[:2], hidden), np.int64)
        output = self.output_multiplier()
        for step in range(len(x)):
            sums = self._sums(x[step] - types[0].quant.zero_point, w, bias, types, (0, 1))
            state = self._sums(h - types[4].quant.zero_point, r, np.zeros_like(bias), types, (4, 2))
            i, f, g, o = np.split(self._gate_sums(sums, state), GATES, axis=-1)
            cell = self._cell(self._logistic(f) * cell, self._logistic(i) * self._tanh(g), log2)
            if limit:
                cell = np.clip(cell, -limit, limit)
            product = self._cell_tanh(cell, log2) * self._logistic(o)
            h = multiply_by_quantized_multiplier(product, output.mantissa, output.shift) + self.out.zero_point
            h = y[step] = np.clip(h, types[0].dtype.min, types[0].dtype.max)
        stored = types[0].dtype.numpy
        return y.astype(stored), h.astype(stored), cell.astype(np.int16)

    def _sums(self, x: Ints, w: Ints, bias: Ints, types: Types, operands: tuple[int, int]) -> Ints:
        """The sums of all gates in Q3.12, not yet saturated: [N, 4H]."""
        multipliers = self.gate_multipliers(types, *operands)
        rows = len(w) // GATES
        mantissas = np.repeat([m.mantissa for m in multipliers], rows)
        shifts = np.repeat([m.shift for m in multipliers], rows)
        acc = x @ w.T + bias
        if types[0].dtype is I16:
            return multiply_by_quantized_multiplier_64(acc, mantissas, shifts)
        return multiply_by_quantized_multiplier(wrap32(acc), mantissas, shifts)

    def _gate_sums(self, sums: Ints, state: Ints) -> Ints:
        if self.numerics.is_litert:
            return saturate16(state + saturate16(sums))
        return saturate16(saturate16(sums) + saturate16(state))

    def _logistic(self, x: Ints) -> Ints:
        return fixedpoint.logistic(x, 3, 16) if self.numerics.is_litert else logistic16(x, 3, 0)

    def _tanh(self, x: Ints) -> Ints:
        return fixedpoint.tanh(x, 3, 16) if self.numerics.is_litert else tanh16(x, 3, 0)

    def _cell(self, kept: Ints, added: Ints, log2: int) -> Ints:
        """kept: Q0.15 * cell, added: Q0.30."""
        if self.numerics.is_litert:
            return saturate16(saturate16(rdbp(kept, 15)) + saturate16(rdbp(added, 30 + log2)))
        keep, add = cell_multipliers(log2)
        kept = multiply_by_quantized_multiplier(kept, keep.mantissa, keep.shift)
        added = multiply_by_quantized_multiplier(added, add.mantissa, add.shift)
        return saturate16(saturate16(kept) + saturate16(added))

    def _cell_tanh(self, cell: Ints, log2: int) -> Ints:
        if not self.numerics.is_litert:
            return tanh16(cell, *tanh_argument(log2))
        bits = 15 + log2
        if bits > 6:
            return fixedpoint.tanh(saturate16(cell << (bits - 6)), 6, 16)
        return fixedpoint.tanh(cell, bits, 16) if bits >= 0 else fixedpoint.tanh(rdbp(cell, -bits), 0, 16)

    def macs(self, types: Types) -> int:
        x, w, r = types[:3]
        return x.shape[0] * x.shape[1] * (w.elements + r.elements)


def cell_multipliers(log2: int) -> tuple[Multiplier, Multiplier]:
    """TensorFlow Lite Micro's: of gate * cell, and of gate * candidate, to the cell's scale 2^log2."""
    return quantize_multiplier(UNIT_SCALE), quantize_multiplier(UNIT_SCALE * UNIT_SCALE / 2.0**log2)


def tanh_argument(log2: int) -> tuple[int, int]:
    """(multiplier, right shift) of a cell of scale 2^log2 as the argument of the int16 hyperbolic tangent."""
    shift = 12 + log2
    return (3 << shift, 0) if shift >= 0 else (3, -shift)


@dataclass(frozen=True, slots=True)
class Svdf(Op):
    """A filter over features, then one over the last M results of it; `rank` filters add up to a unit.

    x: [N, I], features: [F, I], times: [F, M], bias: [F/rank], state: [N, F*M] -> y: [N, F/rank], the next state
    On f32, or on stored integers: x and features i8, times and state i8 or i16 (LiteRT: i16), bias i32.
    """

    rank: int
    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "svdf"

    def infer(self, types: Types) -> Types:
        require(len(types) == 5, f"svdf takes 5 operands, got {len(types)}")
        x, features, times, bias, state = types
        require(x.rank == 2 and features.rank == 2 and times.rank == 2, "svdf takes matrices")
        filters, memory = times.shape
        require(min(filters, memory, x.elements) > 0, f"svdf of nothing: {x}, {times}")
        require(features.shape == (filters, x.shape[1]), f"svdf filters {features} do not suit {x} and {times}")
        require(self.rank > 0 and filters % self.rank == 0, f"svdf of rank {self.rank} with {filters} filters")
        units = filters // self.rank
        require(bias.shape == (units,) and state.shape == (x.shape[0], filters * memory), f"svdf {bias} and {state}")
        if x.dtype is F32:
            require(all(t.dtype is F32 for t in types) and self.out is None and self.numerics is None, "svdf on f32")
            return TensorType(F32, (x.shape[0], units)), state
        require(self.out is not None and self.numerics in (Numerics.TFLM, Numerics.LITERT), "svdf needs a contract")
        require(x.dtype is I8 and features.dtype is I8 and bias.dtype is I32, f"svdf takes i8, got {x}, {features}")
        require(times.dtype in (I8, I16) and state.dtype in (I8, I16), f"svdf takes i8 or i16, got {times}, {state}")
        scaled = all(t.quant is not None and t.quant.is_per_tensor for t in (x, features, times, state))
        require(scaled, "svdf takes operands with one scale")
        return TensorType(I8, (x.shape[0], units), self.out), state

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, _, times, bias, state = arrays
        shape = (len(x), *times.shape)
        zero = 0 if types[0].dtype is F32 else self.state_zero(types)
        memory = np.concatenate([state.reshape(shape)[:, :, 1:], self._newest(arrays, types)[:, :, None]], axis=2)
        wide = np.float64 if types[0].dtype is F32 else np.int64
        sums = (times.astype(wide) * (memory.astype(wide) - zero)).sum(2)
        total = sums.reshape(len(x), -1, self.rank).sum(2) + bias.astype(wide)
        return self._result(total, types), memory.reshape(state.shape).astype(state.dtype)

    def _newest(self, arrays: Arrays, types: Types) -> Array:
        """What the filters over features give now: [N, F]."""
        x, features = arrays[:2]
        if types[0].dtype is F32:
            return np.asarray(x.astype(np.float64) @ features.T.astype(np.float64), np.float32)
        assert types[0].quant is not None
        first, _ = self.multipliers(types)
        acc = wrap32((x.astype(np.int64) - types[0].quant.zero_point) @ features.T.astype(np.int64))
        dtype = types[4].dtype
        values = np.clip(multiply_by_quantized_multiplier(acc, first.mantissa, first.shift), dtype.min, dtype.max)
        return (values + self.state_zero(types)).astype(dtype.numpy)

    def _result(self, total: Array, types: Types) -> Array:
        if self.out is None:
            return np.asarray(np.clip(total, self.clamp.lo, self.clamp.hi), np.float32)
        _, second = self.multipliers(types)
        values = multiply_by_quantized_multiplier(wrap32(total), second.mantissa, second.shift) + self.out.zero_point
        return np.clip(values, -128, 127).astype(np.int8)

    def state_zero(self, types: Types) -> int:
        """The state's zero point, which LiteRT ignores."""
        quant = types[4].quant
        return 0 if quant is None or self.numerics is Numerics.LITERT else quant.zero_point

    def multipliers(self, types: Types) -> tuple[Multiplier, Multiplier]:
        """To the state's scale, and from there to the result's."""
        x, features, times, _, state = (t.quant for t in types)
        assert self.out is not None and self.numerics is not None
        assert x is not None and features is not None and times is not None and state is not None
        return (
            scale_ratio(self.numerics, (x.scale, features.scale), (state.scale,)),
            scale_ratio(self.numerics, (state.scale, times.scale), (self.out.scale,)),
        )

    def macs(self, types: Types) -> int:
        return types[0].shape[0] * (types[1].elements + types[2].elements)
