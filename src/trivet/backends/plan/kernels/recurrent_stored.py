"""TensorFlow Lite's recurrent layers: the LSTM with an int16 cell, SVDF."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.limits import SHIFTS, SHIFTS_64
from trivet.backends.plan.kernels.requant import fixed_scratch, real_bounds
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, I32, U32, Field, Record
from trivet.core import dtype as d
from trivet.core.tables import SIGMOID_TABLE
from trivet.ir.graph import Node
from trivet.ops.recurrent_stored import GATES, QuantizedLstm, Svdf, cell_multipliers, tanh_argument

QUANTIZED_LSTM = CKernel(
    206,
    "quantized_lstm",
    Record(
        "quantized_lstm",
        (
            Field("w", BLOB, "i8 [4][hidden][inputs]: gates i, f, candidate, o"),
            Field("r", BLOB, "i8 [4][hidden][hidden]"),
            Field("bias", BLOB, "i64 [4][hidden]"),
            Field("h", BLOB, "the hidden state that is read; absent: an operand holds it"),
            Field("cell", BLOB, "i16, the cell that is read; absent: an operand holds it"),
            Field("sigmoid", BLOB, "u16 [256]: the logistic function in Q0.16 at steps of 1/24; absent: fixed point"),
            Field("steps", U32),
            Field("batch", U32),
            Field("inputs", U32),
            Field("hidden", U32),
            Field("is_wide", U32, "1: operand and hidden state are int16, 0: int8"),
            Field("in_zero", I32, "zero point of the operand"),
            Field("state_zero", I32, "zero point of the hidden state that is read"),
            Field("out_zero", I32, "zero point of the hidden state that is written"),
            Field("w_mantissas", I32, "to Q3.12, a gate each", count=GATES),
            Field("w_shifts", I32, "left if positive", GATES, SHIFTS_64),
            Field("r_mantissas", I32, count=GATES),
            Field("r_shifts", I32, count=GATES, limits=SHIFTS_64),
            Field("keep_mantissa", I32, "of gate * cell (with the table)"),
            Field("keep_shift", I32, limits=SHIFTS),
            Field("add_mantissa", I32, "of gate * candidate (with the table)"),
            Field("add_shift", I32, limits=SHIFTS),
            Field("out_mantissa", I32, "of gate * tanh(cell)"),
            Field("out_shift", I32, limits=SHIFTS),
            Field("cell_log2", I32, "log2 of the cell's scale, -20 to 0"),
            Field("cell_limit", I32, "largest magnitude of the cell; 0: none"),
            Field("tanh_factor", I32, "of the cell, as the argument of the table"),
            Field("tanh_shift", U32, "right, after that"),
        ),
    ),
    by_rows=False,
)
SVDF_S8 = CKernel(
    207,
    "svdf_s8",
    Record(
        "svdf_s8",
        (
            Field("features", BLOB, "i8 [filters][inputs]"),
            Field("times", BLOB, "i16 [filters][memory]"),
            Field("bias", BLOB, "i32 [filters / rank]"),
            Field("state", BLOB, "that is read; absent: an operand holds it"),
            Field("batch", U32),
            Field("inputs", U32),
            Field("filters", U32),
            Field("memory", U32),
            Field("rank", U32),
            Field("is_wide", U32, "1: the state is int16, 0: int8"),
            Field("in_zero", I32),
            Field("state_zero", I32),
            Field("out_zero", I32),
            Field("feature_mantissa", I32, "to the state's scale"),
            Field("feature_shift", I32, "left if positive", limits=SHIFTS),
            Field("mantissa", I32, "to the result's scale"),
            Field("shift", I32, limits=SHIFTS),
        ),
    ),
    by_rows=False,
)
SVDF_F32 = CKernel(
    208,
    "svdf_f32",
    Record(
        "svdf_f32",
        (
            Field("features", BLOB, "f32 [filters][inputs]"),
            Field("times", BLOB, "f32 [filters][memory]"),
            Field("bias", BLOB, "f32 [filters / rank]"),
            Field("state", BLOB, "f32, that is read; absent: an operand holds it"),
            Field("batch", U32),
            Field("inputs", U32),
            Field("filters", U32),
            Field("memory", U32),
            Field("rank", U32),
            Field("lo", F32, "least result"),
            Field("hi", F32, "largest result"),
        ),
    ),
    by_rows=False,
)
FAMILY = (QUANTIZED_LSTM, SVDF_S8, SVDF_F32)


@KERNELS.kernel(QuantizedLstm)
def quantized_lstm(node: Node) -> Call | None:
    op, types = node.op, node.input_types
    assert isinstance(op, QuantizedLstm)
    x, w, r, bias, h, cell = node.inputs
    if w.data is None or r.data is None or bias.data is None:
        return None
    assert x.type.quant is not None and h.type.quant is not None
    steps, batch, inputs = x.type.shape
    from_x, from_h = op.gate_multipliers(types, 0, 1), op.gate_multipliers(types, 4, 2)
    output, log2 = op.output_multiplier(), op.cell_log2(types)
    keep, add = cell_multipliers(log2)
    factor, right = tanh_argument(log2)
    if any(m.shift > 7 for m in (*from_x, *from_h)) or output.shift > 30:
        return None
    params = {
        "w": w.data, "r": r.data, "bias": bias.data.astype("<i8"),
        "h": h.data, "cell": cell.data,
        "sigmoid": None if op.numerics.is_litert else SIGMOID_TABLE.astype("<u2"),
        "steps": steps, "batch": batch, "inputs": inputs, "hidden": h.type.shape[1],
        "is_wide": int(x.type.dtype is d.I16), "in_zero": x.type.quant.zero_point,
        "state_zero": h.type.quant.zero_point, "out_zero": op.out.zero_point,
        "w_mantissas": tuple(m.mantissa for m in from_x), "w_shifts": tuple(m.shift for m in from_x),
        "r_mantissas": tuple(m.mantissa for m in from_h), "r_shifts": tuple(m.shift for m in from_h),
        "keep_mantissa": keep.mantissa, "keep_shift": keep.shift, "add_mantissa": add.mantissa, "add_shift": add.shift,
        "out_mantissa": output.mantissa, "out_shift": output.shift, "cell_log2": log2,
        "cell_limit": op.cell_limit(types), "tanh_factor": factor, "tanh_shift": right,
    }  # fmt: skip
    operands = tuple(v for v in (x, h, cell) if v.data is None)
    return Call(QUANTIZED_LSTM, operands, params, fixed_scratch(2 * GATES * h.type.shape[1]), images=1)


@KERNELS.kernel(Svdf)
def svdf(node: Node) -> Call | None:
    op, types = node.op, node.input_types
    assert isinstance(op, Svdf)
    x, features, times, bias, state = node.inputs
    if features.data is None or times.data is None or bias.data is None:
        return None
    operands = tuple(v for v in (x, state) if v.data is None)
    sizes = {
        "state": state.data, "batch": x.type.shape[0], "inputs": x.type.shape[1], "filters": times.type.shape[0],
        "memory": times.type.shape[1], "rank": op.rank,
    }  # fmt: skip
    if x.type.dtype is d.F32:
        weights = {"features": features.data, "times": times.data, "bias": bias.data}
        return Call(SVDF_F32, operands, {**weights, **sizes, **real_bounds(op.clamp)}, images=1)
    assert x.type.quant is not None and op.out is not None
    first, second = op.multipliers(types)
    if max(first.shift, second.shift) > 30:
        return None
    params = {
        **sizes, "features": features.data, "times": times.data.astype("<i2"), "bias": bias.data,
        "is_wide": int(state.type.dtype is d.I16), "in_zero": x.type.quant.zero_point,
        "state_zero": op.state_zero(types), "out_zero": op.out.zero_point, "feature_mantissa": first.mantissa,
        "feature_shift": first.shift, "mantissa": second.mantissa, "shift": second.shift,
    }  # fmt: skip
    return Call(SVDF_S8, operands, params, images=1)
