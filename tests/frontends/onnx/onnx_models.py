"""Small ONNX models, and the comparison of what Trivet makes of them with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from references import run_onnxruntime
from trivet import interp
from trivet.frontends.onnx.convert import load
from trivet.frontends.options import Loaded, LoadOptions
from trivet.ir.graph import Graph, Port
from trivet.passes.manager import PassManager
from trivet.passes.pipelines import normalize

Arrays = Mapping[str, np.ndarray]


def node(kind: str, inputs: str, outputs: str = "y", domain: str = "", **attributes: object) -> onnx.NodeProto:
    """An operator; names are separated by spaces, `-` stands for an absent operand."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), domain=domain, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray | onnx.ValueInfoProto],
    outputs: str = "y",
    constants: Arrays | None = None,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model whose input types are those of the sample arrays; outputs declare no shape."""
    infos = [_info(name, value) for name, value in inputs.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    initializers = [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", infos, results, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    imports += [helper.make_opsetid(domain, 1) for domain in {function.domain for function in functions}]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))


def _info(name: str, value: np.ndarray | onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    if isinstance(value, onnx.ValueInfoProto):
        return value
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def save(proto: onnx.ModelProto, directory: Path) -> Path:
    path = directory / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def run(loaded: Loaded, inputs: Arrays) -> list[np.ndarray]:
    """What the imported graph computes; inputs that the model does not feed are left out."""
    outputs, _ = interp.run(loaded.graph, [inputs[port.name] for port in loaded.graph.input_ports])
    return outputs


def run_normalized(graph: Graph, inputs: Arrays) -> list[np.ndarray]:
    """What a graph computes after normalization, which changes it in place."""
    PassManager().run(graph, normalize())
    stored = [_stored(inputs[port.name], port) for port in graph.input_ports]
    outputs, _ = interp.run(graph, stored)
    ports = graph.output_ports
    return [a if p.perm is None else a.transpose(p.perm) for a, p in zip(outputs, ports, strict=True)]


def _stored(array: np.ndarray, port: Port) -> np.ndarray:
    return array if port.perm is None else np.ascontiguousarray(array.transpose(np.argsort(port.perm)))


def agrees(proto: onnx.ModelProto, inputs: Arrays, directory: Path, tolerance: float = 1e-5) -> Loaded:
    """Assert that the imported graph computes what onnxruntime does, and still does after normalization."""
    path = save(proto, directory)
    loaded = load(path, LoadOptions())
    expected = run_onnxruntime(proto.SerializeToString(), dict(inputs))
    for found in (run(loaded, inputs), run_normalized(load(path).graph, inputs)):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            _assert_same(ours, theirs, tolerance)
    return loaded


def _assert_same(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """Integers exactly, floats to `tolerance` of the largest element (or of one)."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if ours.dtype.kind == "f":
        scale = max(1.0, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(ours, theirs)


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*shape: int, seed: int = 0, low: int = -5, high: int = 6, dtype: type = np.int64) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
