"""Windowed pools."""

from __future__ import annotations

from trivet.frontends.tflite.activations import fused_bounds
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.ops.conv import image, strides, window_pads
from trivet.ops.pool import AveragePool2D, MaxPool2D


def average_pool_2d(op: Conversion) -> None:
    """Integer pools average the stored values: the operand's quantization stays, whatever the file declares."""
    x = image(op, 0)
    kernel, stride = (op.integer("filter_h"), op.integer("filter_w")), strides(op)
    pads = window_pads(op, x.type, kernel, stride, (1, 1))
    numerics = op.numerics
    pool = AveragePool2D(kernel, stride, pads, False, fused_bounds(op), x.type.quant, numerics)
    op.result(op.emit(pool, x))


def max_pool_2d(op: Conversion) -> None:
    x = image(op, 0)
    kernel, stride = (op.integer("filter_h"), op.integer("filter_w")), strides(op)
    pads = window_pads(op, x.type, kernel, stride, (1, 1))
    op.result(op.emit(MaxPool2D(kernel, stride, (1, 1), pads, fused_bounds(op)), x))


CONVERTERS: dict[str, Converter] = {"AVERAGE_POOL_2D": average_pool_2d, "MAX_POOL_2D": max_pool_2d}
