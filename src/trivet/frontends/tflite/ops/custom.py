"""Custom operators that published networks use, and weights that are stored sparse."""

from __future__ import annotations

import struct

from trivet.errors import InvalidModel
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.ops.conv import bias, image, weights
from trivet.ops.conv import ConvTranspose2D

_SAME, _VALID = 1, 2
"""Padding codes of MediaPipe's custom operators."""


def densify(op: Conversion) -> None:
    """Sparse constants are read as dense ones."""
    op.result(op.operand(0))


def transpose_conv_bias(op: Conversion) -> None:
    """MediaPipe's transposed convolution. x: [N, H, W, C], filter: [O, KH, KW, C], bias: [O].

    Options: padding, columns from pixel to pixel, rows from pixel to pixel (int32 each).
    """
    x, w = image(op, 0), weights(op, 1, 4)
    if len(op.record.custom) < 12:
        raise InvalidModel("its options take 12 bytes")
    padding, *steps = struct.unpack_from("<iii", op.record.custom)
    if padding not in (_SAME, _VALID) or not 1 <= min(steps) <= max(steps) <= 1 << 15:
        raise InvalidModel(f"padding {padding} and strides {steps}")
    stride = (steps[1], steps[0])
    cuts, extra = [], []
    for axis, step in enumerate(stride):
        surplus = w.type.shape[axis + 1] - step if padding == _SAME else 0
        cut = max(surplus, 0)
        cuts.append((cut // 2, cut - cut // 2))
        extra.append(max(-surplus, 0))
    conv = ConvTranspose2D(stride, (1, 1), (cuts[0], cuts[1]), (extra[0], extra[1]), 1, out=op.out)
    op.result(op.emit(conv, x, w, *bias(op, 2)))


CONVERTERS: dict[str, Converter] = {
    "DENSIFY": densify,
    "CUSTOM:Convolution2DTransposeBias": transpose_conv_bias,
}
