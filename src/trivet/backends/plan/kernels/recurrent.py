"""Recurrent layers on float32; every operand may be a constant."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.requant import fixed_scratch
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, F32, U32, Field, FieldValue, Record
from trivet.ir.graph import Node, Value
from trivet.ops.recurrent import CellFunction, Gru, Lstm, Rnn

_CODES = {function: code for code, function in enumerate(CellFunction)}

RECURRENT = Record(
    "recurrent_f32",
    (
        Field("w", BLOB, "f32 [gates][hidden][inputs]"),
        Field("r", BLOB, "f32 [gates][hidden][hidden]"),
        Field("bias", BLOB, "f32, as the kernel's operator states it"),
        Field("h", BLOB, "f32 [batch][hidden]: the first state"),
        Field("cell", BLOB, "f32 [batch][hidden]: the first cell (lstm)"),
        Field("peepholes", BLOB, "f32 [3][hidden] (lstm)"),
        Field("operands", U32, "bit i: blob i is absent because an operand holds it; else absent means zeros"),
        Field("steps", U32),
        Field("batch", U32),
        Field("inputs", U32),
        Field("hidden", U32),
        Field("functions", U32, "codes of the cell's functions: the place in CellFunction", count=3),
        Field("alphas", F32, "their parameters", count=3),
        Field("betas", F32, count=3),
        Field("clip", F32, "limit of what functions are applied to; 0: none"),
        Field("cell_clip", F32, "limit of the cell (lstm); 0: none"),
        Field("reverse", U32, "1: the last step comes first"),
        Field("variant", U32, "1: input_forget (lstm), linear_before_reset (gru)"),
    ),
)
LSTM_F32 = CKernel(203, "lstm_f32", RECURRENT, by_rows=False)
GRU_F32 = CKernel(204, "gru_f32", RECURRENT, by_rows=False)
RNN_F32 = CKernel(205, "rnn_f32", RECURRENT, by_rows=False)
FAMILY = (LSTM_F32, GRU_F32, RNN_F32)

_BLOBS = ("w", "r", "bias", "h", "cell", "peepholes")


@KERNELS.kernel(Lstm)
def lstm(node: Node) -> Call:
    op = node.op
    assert isinstance(op, Lstm)
    parts = node.inputs[1:]
    return _call(LSTM_F32, node, dict(zip(_BLOBS, parts, strict=False)), int(op.input_forget), op.cell_clip)


@KERNELS.kernel(Gru)
def gru(node: Node) -> Call:
    op = node.op
    assert isinstance(op, Gru)
    return _call(GRU_F32, node, dict(zip(_BLOBS, node.inputs[1:], strict=False)), int(op.linear_before_reset))


@KERNELS.kernel(Rnn)
def rnn(node: Node) -> Call:
    return _call(RNN_F32, node, dict(zip(_BLOBS, node.inputs[1:], strict=False)))


def _call(kernel: CKernel, node: Node, parts: dict[str, Value], variant: int = 0, cell_clip: float = 0.0) -> Call:
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Lstm | Gru | Rnn)
    steps, batch, inputs = x.type.shape
    hidden = node.outputs[0].type.shape[2]
    blobs: dict[str, FieldValue | Blob | None] = {name: None for name in _BLOBS}
    operands, mask = [x], 0
    for bit, name in enumerate(_BLOBS):
        part = parts.get(name)
        if part is None:
            continue
        if part.data is None:
            operands.append(part)
            mask |= 1 << bit
        elif name in ("w", "r") or np.any(part.data):
            blobs[name] = part.data
    pad = (0,) * (3 - len(op.functions))
    params = blobs | {
        "operands": mask, "steps": steps, "batch": batch, "inputs": inputs, "hidden": hidden,
        "functions": (*(_CODES[f] for f in op.functions), *pad), "alphas": (*op.alphas, *pad),
        "betas": (*op.betas, *pad), "clip": op.clip, "cell_clip": cell_clip, "reverse": int(op.reverse),
        "variant": variant,
    }  # fmt: skip
    return Call(kernel, tuple(operands), params, fixed_scratch(4 * 4 * hidden), images=1)
