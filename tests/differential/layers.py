"""Each layer of a network alone: fed with the runtime's own tensors, compared with what the runtime computed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import tflite

from trivet import interp
from trivet.ir.graph import Graph, Value

UNSEEN = ("RESOURCE", "VARIANT", "STRING")
TYPE_NAMES = {code: name for name, code in vars(tflite.TensorType).items() if not name.startswith("_")}
KIND_NAMES = {code: name for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}


@dataclass(frozen=True)
class Layer:
    """The first result of an operator: its kind, its tensor, and that tensor's name."""

    kind: str
    tensor: int
    name: str


def layers(model: bytes) -> list[Layer]:
    """What every operator of the main subgraph computes, handles of variables left out."""
    root = tflite.Model.GetRootAs(model)
    subgraph = root.Subgraphs(0)
    found = []
    for index in range(subgraph.OperatorsLength()):
        operator = subgraph.Operators(index)
        kind = KIND_NAMES[root.OperatorCodes(operator.OpcodeIndex()).BuiltinCode()]
        for output in range(operator.OutputsLength()):
            tensor = subgraph.Tensors(operator.Outputs(output))
            if TYPE_NAMES[tensor.Type()] not in UNSEEN:
                found.append(Layer(kind, operator.Outputs(output), (tensor.Name() or b"").decode()))
    return found


def with_outputs(model: bytes, tensors: list[int]) -> bytes:
    """The model with other outputs of its main subgraph: a new list at the end of the file."""
    table = tflite.Model.GetRootAs(model).Subgraphs(0)._tab
    field = table.Pos + table.Offset(8)
    start = len(model) + -len(model) % 4
    listed = struct.pack(f"<{len(tensors) + 1}I", len(tensors), *tensors)
    return (
        model[:field] + struct.pack("<I", start - field) + model[field + 4 :].ljust(start - field - 4, b"\0") + listed
    )


def walk(
    graph: Graph, inputs: list[np.ndarray], reference: Mapping[str, np.ndarray]
) -> Iterator[tuple[Value, np.ndarray, np.ndarray]]:
    """Every value that the runtime computes as well: the value, what Trivet computed, what the runtime did.

    Whatever reads the value then reads the runtime's numbers.
    """
    arrays = {id(value): array for value, array in zip(graph.inputs, inputs, strict=True)}
    arrays |= {id(state.read): state.initial for state in graph.states}
    for node in graph.nodes:
        for value, computed in zip(node.outputs, interp.run_node(node, arrays), strict=True):
            arrays[id(value)] = computed
            if value.name in reference:
                expected = _restated(reference[value.name], computed)
                yield value, computed, expected
                arrays[id(value)] = expected


def _restated(array: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The runtime's tensor in the form of Trivet's value: uint8 as int8."""
    if array.dtype == np.uint8 and like.dtype == np.int8:
        array = (array ^ np.uint8(128)).view(np.int8)
    return array.reshape(like.shape)
