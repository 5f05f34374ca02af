"""Audio features in integers, from energies to features."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.ir.graph import Node
from trivet.ops import filter_bank as f

FILTER_BANK = CKernel(
    225,
    "filter_bank",
    Record(
        "filter_bank",
        (
            Field("weights", BLOB, "i16, of the energies of a channel"),
            Field("unweights", BLOB, "i16, of the same energies in the next channel"),
            Field("frequencies", BLOB, "i16 [channels + 1]: the first of each"),
            Field("places", BLOB, "i16 [channels + 1]: the first weight of each"),
            Field("counts", BLOB, "i16 [channels + 1]"),
        ),
    ),
    by_rows=False,
)
FILTER_BANK_SQUARE_ROOT = CKernel(
    226, "filter_bank_square_root", Record("filter_bank_square_root", (Field("channels", U32),)), by_rows=False
)
SPECTRAL_SUBTRACTION = CKernel(
    227,
    "spectral_subtraction",
    Record(
        "spectral_subtraction",
        (
            Field(
                "coefficients", U32, "even channels: of the signal, of the old estimate; odd channels alike", count=4
            ),
            Field("floor", U32, "least part of the signal that remains"),
            Field("bits", U32, "fraction bits of these numbers", limits=(0, 31)),
            Field("extra_bits", U32, "fraction bits of the estimate", limits=(0, 31)),
            Field("clamping", U32, "1: the estimate is at most the signal"),
        ),
    ),
    by_rows=False,
)
PCAN = CKernel(
    228,
    "pcan",
    Record(
        "pcan",
        (
            Field("gains", BLOB, "i16 [125]; absent: operand 2 holds it"),
            Field("snr_shift", U32, "right", limits=(0, 63)),
        ),
    ),
    by_rows=False,
)
FILTER_BANK_LOG = CKernel(
    229,
    "filter_bank_log",
    Record(
        "filter_bank_log",
        (
            Field("table", BLOB, "u16 [129]: log2(1 + x) - x in Q16"),
            Field("scale", U32, "of the logarithms"),
            Field("correction_bits", U32, "left, of the operand", limits=(0, 31)),
        ),
    ),
    by_rows=False,
)
FAMILY = (FILTER_BANK, FILTER_BANK_SQUARE_ROOT, SPECTRAL_SUBTRACTION, PCAN, FILTER_BANK_LOG)


@KERNELS.kernel(f.FilterBank)
def filter_bank(node: Node) -> Call | None:
    x, *constants = node.inputs
    if any(constant.data is None for constant in constants):
        return None
    names = ("weights", "unweights", "frequencies", "places", "counts")
    return Call(FILTER_BANK, (x,), {name: c.data for name, c in zip(names, constants, strict=True)}, images=1)


@KERNELS.kernel(f.FilterBankSquareRoot)
def filter_bank_square_root(node: Node) -> Call | None:
    x, bits = node.inputs
    if bits.is_constant:
        return None
    return Call(FILTER_BANK_SQUARE_ROOT, (x, bits), {"channels": x.type.elements}, images=1)


@KERNELS.kernel(f.SpectralSubtraction)
def spectral_subtraction(node: Node) -> Call | None:
    op = node.op
    assert isinstance(op, f.SpectralSubtraction)
    if any(value.is_constant for value in node.inputs):
        return None
    params: Params = {
        "coefficients": (*op.smoothing[0], *op.smoothing[1]),
        "floor": op.floor,
        "bits": op.bits,
        "extra_bits": op.extra_bits,
        "clamping": int(op.clamping),
    }
    return Call(SPECTRAL_SUBTRACTION, node.inputs, params, images=1)


@KERNELS.kernel(f.Pcan)
def pcan(node: Node) -> Call | None:
    op, (x, noise, gains) = node.op, node.inputs
    assert isinstance(op, f.Pcan)
    if x.is_constant or noise.is_constant:
        return None
    operands = (x, noise, gains) if gains.data is None else (x, noise)
    params: Params = {"gains": gains.data, "snr_shift": op.snr_shift}
    return Call(PCAN, operands, params, images=1)


@KERNELS.kernel(f.FilterBankLog)
def filter_bank_log(node: Node) -> Call:
    op = node.op
    assert isinstance(op, f.FilterBankLog)
    params: Params = {"table": f.LOG_TABLE.astype("<u2"), "scale": op.scale, "correction_bits": op.correction_bits}
    return Call(FILTER_BANK_LOG, node.inputs, params, images=1)
