"""Resampling of images."""

from __future__ import annotations

from trivet.errors import InvalidModel
from trivet.frontends.tflite.conversion import Conversion, Converter
from trivet.frontends.tflite.ops.conv import image
from trivet.ops.resize import Coordinates, NearestRounding, ResizeBilinear, ResizeNearest


def resize_bilinear(op: Conversion) -> None:
    x, size = image(op, 0), _size(op)
    coordinates = Coordinates.HALF_PIXEL if op.flag("half_pixel_centers") else Coordinates.ASYMMETRIC
    if op.flag("align_corners"):
        coordinates = Coordinates.ALIGN_CORNERS
    op.result(op.emit(ResizeBilinear(size, coordinates, numerics=op.numerics), x))


def resize_nearest(op: Conversion) -> None:
    """Aligned corners round to the nearest index, everything else goes down."""
    x, size = image(op, 0), _size(op)
    rounding = NearestRounding.FLOOR
    coordinates = Coordinates.TF_HALF_PIXEL_FOR_NN if op.flag("half_pixel_centers") else Coordinates.ASYMMETRIC
    if op.flag("align_corners"):
        coordinates, rounding = Coordinates.ALIGN_CORNERS, NearestRounding.ROUND_PREFER_CEIL
    op.result(op.emit(ResizeNearest(size, coordinates, rounding), x))


def _size(op: Conversion) -> tuple[int, int]:
    """Operand 1: rows, columns.

    Raises: InvalidModel.
    """
    size = op.integers(1)
    if len(size) != 2:
        raise InvalidModel(f"the new size must be rows and columns, got {list(size)}")
    if op.flag("align_corners") and op.flag("half_pixel_centers"):
        raise InvalidModel("align_corners and half_pixel_centers exclude each other")
    return size[0], size[1]


CONVERTERS: dict[str, Converter] = {"RESIZE_BILINEAR": resize_bilinear, "RESIZE_NEAREST_NEIGHBOR": resize_nearest}
