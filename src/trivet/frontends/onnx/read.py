"""ONNX files to plain values. Everything that a damaged file can do goes wrong here, as InvalidModel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx.checker
import onnx.inliner
import onnx.shape_inference
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from trivet.errors import CompileError, InvalidModel
from trivet.frontends.onnx.model import Attribute, Body, Dim, ForeignNode, Model, PortInfo, Unreadable
from trivet.frontends.onnx.tensors import DTYPES, decode_tensor, dtype_name
from trivet.frontends.options import contents
from trivet.ir.op import Array
from trivet.ir.types import Shape

_KINDS = onnx.AttributeProto
_MAX_NESTING = 16
"""Bodies inside bodies; deeper files are taken for damaged ones, as protobuf does at 100 levels."""


def read(path: Path) -> Model:
    """The model in a file, its local functions inlined.

    Raises: CompileError (the file cannot be opened), InvalidModel (it is no ONNX model, or a damaged one).
    """
    try:
        data = contents(path)
    except OSError as error:
        raise CompileError(f"cannot read the model: {error.strerror}", where=path) from None
    try:
        return _convert(_inline_functions(_parse(data)), path.parent)
    except InvalidModel as error:
        raise InvalidModel(error.message, where=error.where or path, hint=error.hint) from None


def inferred_types(path: Path, inputs: Mapping[str, Shape]) -> dict[str, PortInfo]:
    """What ONNX's own inference says about the values inside of a readable model, given its inputs' shapes.

    Used after a problem only, so that what reads an unconvertible result is looked at as well.
    """
    proto = _inline_functions(_parse(contents(path)))
    for info in proto.graph.input:
        if info.name in inputs:
            shape = onnx.TensorShapeProto(dim=[{"dim_value": size} for size in inputs[info.name]])
            info.type.tensor_type.shape.CopyFrom(shape)
    try:
        typed = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        return {port.name: port for port in (_port(info) for info in typed.graph.value_info)}
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, InvalidModel):
        return {}


def _parse(data: bytes) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise InvalidModel("this is not an ONNX model, or a damaged one: its bytes do not decode") from None
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise InvalidModel("this is not an ONNX model: it holds no graph")
    return proto


def _inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    if not proto.functions:
        return proto
    try:
        return onnx.inliner.inline_local_functions(proto)
    except (onnx.checker.ValidationError, RuntimeError, ValueError, TypeError, DecodeError) as error:
        # The inliner is C++; it reports what it finds through these types only.
        reason = (str(error).strip().splitlines() or ["unknown"])[0]
        raise InvalidModel(f"the model's local functions cannot be inlined: {reason}") from None


def _convert(proto: onnx.ModelProto, directory: Path) -> Model:
    opsets = {_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    if "" not in opsets:
        used = {_domain(node.domain) for node in proto.graph.node}
        if "" in used or not opsets:
            raise InvalidModel("the model states no operator set version of ONNX")
    return Model(_body(proto.graph, directory, 0), opsets)


def _domain(raw: object) -> str:
    name = _text(raw, "a domain")
    return "" if name == "ai.onnx" else name


def _text(raw: object, what: str) -> str:
    """Protobuf hands over bytes where a name is not valid UTF-8."""
    if not isinstance(raw, str):
        raise InvalidModel(f"{what} is not valid text")
    return raw


def _body(graph: onnx.GraphProto, directory: Path, depth: int) -> Body:
    if depth > _MAX_NESTING:
        raise InvalidModel(f"graphs are nested deeper than {_MAX_NESTING} levels")
    initializers: dict[str, Array | Unreadable] = {}
    for tensor in graph.initializer:
        name = _text(tensor.name, "the name of an initializer")
        if name in initializers:
            raise InvalidModel(f"two initializers are called '{name}'")
        initializers[name] = decode_tensor(tensor, directory)
    for sparse in graph.sparse_initializer:
        name = _text(sparse.values.name, "the name of an initializer")
        initializers[name] = Unreadable(f"tensor '{name}' is sparse")
    body = Body(
        _text(graph.name, "the graph's name"),
        tuple(_port(info) for info in graph.input),
        tuple(_port(info) for info in graph.output),
        initializers,
        tuple(_node(node, index, directory, depth) for index, node in enumerate(graph.node)),
    )
    _check_definitions(body)
    return body


def _check_definitions(body: Body) -> None:
    inputs = [port.name for port in body.inputs]
    results = [name for node in body.nodes for name in node.outputs if name]
    seen: set[str] = set()
    for name in (*inputs, *results):
        if name in seen or (name in body.initializers and name not in inputs):
            raise InvalidModel(f"value '{name}' is defined twice")
        seen.add(name)


def _port(info: onnx.ValueInfoProto) -> PortInfo:
    name = _text(info.name, "the name of an input or output")
    if info.type.WhichOneof("value") not in (None, "tensor_type"):
        return PortInfo(name, None, None, str(info.type.WhichOneof("value")).removesuffix("_type"))
    tensor = info.type.tensor_type
    dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return PortInfo(name, DTYPES.get(tensor.elem_type), dims, dtype_name(tensor.elem_type))


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    """Exporters also write -1 or 0 for a free dimension."""
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0:
        return int(dim.dim_value)
    return _text(dim.dim_param, "the name of a dimension")


def _node(node: onnx.NodeProto, index: int, directory: Path, depth: int) -> ForeignNode:
    kind = _text(node.op_type, f"the kind of operator {index}")
    if not kind:
        raise InvalidModel(f"operator {index} has no kind")
    attributes: dict[str, Attribute] = {}
    for attribute in node.attribute:
        name = _text(attribute.name, f"the name of an attribute of operator {index} {kind}")
        try:
            attributes[name] = _attribute(attribute, directory, depth)
        except InvalidModel as error:
            raise InvalidModel(f"operator {index} {kind}, attribute '{name}': {error.message}") from None
    return ForeignNode(
        index,
        kind,
        _domain(node.domain),
        _text(node.name, f"the name of operator {index} {kind}"),
        tuple(_text(name, f"an operand of operator {index} {kind}") for name in node.input),
        tuple(_text(name, f"a result of operator {index} {kind}") for name in node.output),
        attributes,
    )


def _attribute(attribute: onnx.AttributeProto, directory: Path, depth: int) -> Attribute:
    match attribute.type:
        case _KINDS.INT:
            return int(attribute.i)
        case _KINDS.FLOAT:
            return float(attribute.f)
        case _KINDS.STRING:
            return _decoded(attribute.s)
        case _KINDS.INTS:
            return tuple(int(v) for v in attribute.ints)
        case _KINDS.FLOATS:
            return tuple(float(v) for v in attribute.floats)
        case _KINDS.STRINGS:
            return tuple(_decoded(v) for v in attribute.strings)
        case _KINDS.TENSOR:
            return decode_tensor(attribute.t, directory)
        case _KINDS.GRAPH:
            return _body(attribute.g, directory, depth + 1)
        case _KINDS.UNDEFINED:
            raise InvalidModel("it has no type")
        case other:
            return Unreadable(f"an attribute of type {other}")


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
