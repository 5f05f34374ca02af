"""Quantized ONNX networks cut into layers: what stands between quantized tensors, as a model of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from references import run_onnxruntime


@dataclass(frozen=True)
class Layer:
    """A model from quantized inputs (or the network's own) to one quantized output, with the reference's arrays."""

    title: str
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    expected: np.ndarray


def layers(path: Path, inputs: dict[str, np.ndarray]) -> Iterator[Layer]:
    """A layer for each QuantizeLinear of a network, fed with what onnxruntime computes before it."""
    network = onnx.load(path)
    nodes = {name: node for node in network.graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in network.graph.initializer}
    cuts = [node.output[0] for node in network.graph.node if node.op_type == "QuantizeLinear"]
    arrays = {**inputs, **_values(network, inputs, cuts)}
    for cut in cuts:
        members, borders = _between(cut, nodes, set(constants), set(cuts))
        used = [constants[name] for node in members for name in node.input if name in constants]
        graph = helper.make_graph(
            [node for node in network.graph.node if any(node is member for member in members)],
            "layer",
            [_info(name, arrays[name]) for name in borders],
            [onnx.ValueInfoProto(name=cut)],
            list({tensor.name: tensor for tensor in used}.values()),
        )
        model = helper.make_model(graph, opset_imports=network.opset_import, ir_version=network.ir_version)
        yield Layer(cut, model, {name: arrays[name] for name in borders}, arrays[cut])


def _values(network: onnx.ModelProto, inputs: dict[str, np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    """What onnxruntime computes for values inside of a network."""
    opened = onnx.ModelProto()
    opened.CopyFrom(network)
    del opened.graph.output[:]
    opened.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, run_onnxruntime(opened.SerializeToString(), inputs), strict=True))


def _between(
    cut: str, nodes: dict[str, onnx.NodeProto], constants: set[str], cuts: set[str]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The operators behind `cut` up to the next quantized values, and the names of those values."""
    members: list[onnx.NodeProto] = []
    borders: dict[str, None] = {}
    pending, seen = [cut], set[str]()
    while pending:
        name = pending.pop()
        if not name or name in seen or name in constants:
            continue
        seen.add(name)
        if name not in nodes or (name in cuts and name != cut):
            borders[name] = None
            continue
        node = nodes[name]
        if not any(node is member for member in members):
            members.append(node)
        pending.extend(node.input)
    return members, list(borders)


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
