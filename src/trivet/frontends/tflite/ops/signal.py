"""Custom operators of TensorFlow Lite Micro's signal library: audio features in integers.

Their options are a FlexBuffer: a vector of numbers in the alphabetical order of their names.
"""

from __future__ import annotations

import numpy as np

from trivet.core.dtype import I16, U32
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.flexbuffer import numbers
from trivet.ir.types import TensorType
from trivet.ops.filter_bank import FilterBank, FilterBankLog, FilterBankSquareRoot, Pcan, SpectralSubtraction
from trivet.ops.signal import FftAutoScale, Rfft, SignalWindow, SpectrumEnergy

_INT16 = 7
"""TFLite's code of the element type."""


def _options(op: Conversion, count: int) -> list[int]:
    found = numbers(op.record.custom)
    if len(found) < count:
        raise InvalidModel(f"it has {len(found)} options, {count} are needed")
    return found


def window(op: Conversion) -> None:
    op.result(op.emit(SignalWindow(_options(op, 1)[0]), op.operand(0), op.operand(1)))


def auto_scale(op: Conversion) -> None:
    samples, bits = op.emit_all(FftAutoScale(), op.operand(0))
    op.result(samples)
    op.result(bits, 1)


def rfft(op: Conversion) -> None:
    """Options: element type, length."""
    code, length = _options(op, 2)[:2]
    if code != _INT16 or op.operand(0).type.dtype is not I16:
        raise Unsupported("a spectrum of anything but int16", hint="use the int16 form of the audio features")
    if length & (length - 1):
        raise Unsupported(f"a spectrum of {length} samples", hint="give a power of two of samples")
    op.result(op.emit(Rfft(length), op.operand(0)))


def energy(op: Conversion) -> None:
    stop, start = _options(op, 2)[:2]
    op.result(op.emit(SpectrumEnergy(start, stop), op.operand(0)))


def filter_bank(op: Conversion) -> None:
    """Raises: InvalidModel, where a channel reads what is not there."""
    x, *constants = op.operands()
    if len(constants) != 5:
        raise InvalidModel(f"it has {len(constants) + 1} operands, 6 are needed")
    weights, (frequencies, places, counts) = op.constant(1), (op.constant(i).astype(np.int64) for i in (3, 4, 5))
    limits = ((frequencies, x.type.elements), (places, weights.size))
    if (counts < 0).any() or any((s < 0).any() or (s + counts > limit).any() for s, limit in limits):
        raise InvalidModel("a channel reads outside its frequencies or its weights")
    op.result(op.emit(FilterBank(), x, *constants))


def square_root(op: Conversion) -> None:
    op.result(op.emit(FilterBankSquareRoot(), op.operand(0), op.operand(1)))


def spectral_subtraction(op: Conversion) -> None:
    """The estimate of the noise lives on from one invocation to the next."""
    odd_old, odd_new, clamping, floor, _, even_old, even_new, extra, bits = _options(op, 9)[:9]
    x = op.operand(0)
    smoothing = ((even_new, even_old), (odd_new, odd_old))
    type_ = TensorType(U32, x.type.shape)
    noise = op.scope.graph.add_state(op.source(1).name, type_, np.zeros(type_.shape, np.uint32))
    y, estimate = op.emit_all(SpectralSubtraction(smoothing, floor, bits, extra, clamping != 0), x, noise)
    op.scope.graph.set_state(noise, estimate)
    op.result(y)
    op.result(estimate, 1)


def pcan(op: Conversion) -> None:
    op.result(op.emit(Pcan(_options(op, 1)[0]), *op.operands()))


def log(op: Conversion) -> None:
    correction, scale = _options(op, 2)[:2]
    op.result(op.emit(FilterBankLog(scale, correction), op.operand(0)))


CONVERTERS: dict[str, Converter] = {
    "CUSTOM:SignalWindow": window,
    "CUSTOM:SignalFftAutoScale": auto_scale,
    "CUSTOM:SignalRfft": rfft,
    "CUSTOM:SignalEnergy": energy,
    "CUSTOM:SignalFilterBank": filter_bank,
    "CUSTOM:SignalFilterBankSquareRoot": square_root,
    "CUSTOM:SignalFilterBankSpectralSubtraction": spectral_subtraction,
    "CUSTOM:SignalPCAN": pcan,
    "CUSTOM:SignalFilterBankLog": log,
}
