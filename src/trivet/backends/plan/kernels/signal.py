"""Audio features in integers, from samples to energies."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel, Params
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.ir.graph import Node
from trivet.ops.signal import FftAutoScale, Rfft, SignalWindow, SpectrumEnergy, split_twiddles, twiddles

SIGNAL_WINDOW = CKernel(
    221,
    "signal_window",
    Record(
        "signal_window",
        (
            Field("window", BLOB, "i16 [columns]"),
            Field("shift", U32, "right, of the products", limits=(0, 31)),
        ),
    ),
    by_rows=False,
)
FFT_AUTO_SCALE = CKernel(222, "fft_auto_scale", Record("fft_auto_scale", (Field("samples", U32),)), by_rows=False)
RFFT = CKernel(
    223,
    "rfft",
    Record(
        "rfft",
        (
            Field("twiddles", BLOB, "i16 [length / 2][2]: exp(-4 pi i k / length) in Q0.15"),
            Field("split", BLOB, "i16 [length / 4][2]: exp(-pi i (2 (k + 1) / length + 1 / 2)) in Q0.15"),
            Field("samples", U32, "columns of the operand"),
            Field("length", U32, "samples of a spectrum, a power of two"),
        ),
    ),
    by_rows=False,
)
SPECTRUM_ENERGY = CKernel(
    224,
    "spectrum_energy",
    Record("spectrum_energy", (Field("start", U32, "first frequency"), Field("stop", U32, "behind the last one"))),
    by_rows=False,
)
FAMILY = (SIGNAL_WINDOW, FFT_AUTO_SCALE, RFFT, SPECTRUM_ENERGY)


@KERNELS.kernel(SignalWindow)
def signal_window(node: Node) -> Call | None:
    op, (x, window) = node.op, node.inputs
    assert isinstance(op, SignalWindow)
    if window.data is None:
        return None
    return Call(SIGNAL_WINDOW, (x,), {"window": window.data, "shift": op.shift})


@KERNELS.kernel(FftAutoScale)
def fft_auto_scale(node: Node) -> Call:
    return Call(FFT_AUTO_SCALE, node.inputs, {"samples": node.inputs[0].type.elements}, images=1)


@KERNELS.kernel(Rfft)
def rfft(node: Node) -> Call:
    op, (x,) = node.op, node.inputs
    assert isinstance(op, Rfft)
    half = op.length // 2
    params: Params = {
        "twiddles": twiddles(half).astype("<i2"),
        "split": split_twiddles(half).astype("<i2"),
        "samples": x.type.shape[-1],
        "length": op.length,
    }
    return Call(RFFT, (x,), params)


@KERNELS.kernel(SpectrumEnergy)
def spectrum_energy(node: Node) -> Call:
    op = node.op
    assert isinstance(op, SpectrumEnergy)
    return Call(SPECTRUM_ENERGY, node.inputs, {"start": op.start, "stop": op.stop}, images=1)
