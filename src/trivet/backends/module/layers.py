"""The layers of a plan as a module holds them: operands as bytes in memory, shared between layers."""

from __future__ import annotations

from trivet.backends.module.firings import step_height
from trivet.backends.plan import format as f
from trivet.backends.plan.reader import PlanInfo, StepInfo, TensorInfo
from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of one image: as the runtime's geometry.c makes it. `stride` is the distance of images in bytes."""

    region: int
    offset: int
    row_bytes: int
    height: int
    depth: int
    stride: int


@dataclass(frozen=True, slots=True)
class Layer:
    """A step with its operands as indices; firing n makes rows from n * `rows` on, of `height`."""

    step: StepInfo
    operands: tuple[int, ...]
    rows: int
    height: int


@dataclass(frozen=True, slots=True)
class Layers:
    """All steps of a plan, and the operands that they share."""

    layers: tuple[Layer, ...]
    operands: tuple[Operand, ...]


def layers_of(plan: PlanInfo) -> Layers:
    """The steps of a plan."""
    operands: dict[Operand, int] = {}
    layers = []
    for step in plan.steps:
        tensors = [(i, False) for i in step.inputs] + [(i, True) for i in step.outputs]
        seen = [_operand(plan.tensors[index], step.images, is_result) for index, is_result in tensors]
        indices = tuple(operands.setdefault(operand, len(operands)) for operand in seen)
        height = step_height(plan, step)
        layers.append(Layer(step, indices, height if step.rows == f.ALL_ROWS else step.rows, height))
    return Layers(tuple(layers), tuple(operands))


def _operand(tensor: TensorInfo, images: int, is_result: bool) -> Operand:
    row_bytes, height, depth, stride = tensor.row_bytes, tensor.height, tensor.depth, 0
    if tensor.depth < tensor.height:
        pass  # a ring holds one image after the other
    elif len(tensor.shape) != 4:
        height = depth = 1
        if images != 1 and is_result:
            row_bytes = stride = row_bytes // images
    elif tensor.shape[0] > 1 and images == 1:
        height = depth = tensor.shape[0] * height  # the step takes the batch as one
    elif tensor.shape[0] > 1:
        stride = height * row_bytes
    return Operand(tensor.region, tensor.offset, row_bytes, height, depth, stride)
