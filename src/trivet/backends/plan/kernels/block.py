"""Fused layers: a depthwise convolution between pointwise ones, a strip of pixels at a time."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.backends.ckernels import Blob, Call, CKernel
from trivet.backends.plan.kernels.conv import CONV_S8, PATCH_BYTES, WINDOW
from trivet.backends.plan.kernels.depthwise import DEPTHWISE_S8
from trivet.backends.plan.kernels.requant import REQUANT_BLOBS, REQUANT_FIELDS
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, I32, U32, Field, FieldValue, Record
from trivet.ir.graph import Graph, Node, Value
from trivet.ops.block import Block

STEP = 4
"""Channels of one step of products: operands of pointwise layers must be whole steps."""

_LAYERS = ("expand", "depthwise", "project")


def _named(layer: str, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(Field(f"{layer}_{f.name}", f.type, f.doc, f.count) for f in fields)


_WEIGHTS = Field("weights", BLOB, "as the layer's own kernel takes them; absent: there is no such layer")
_ZEROS = (Field("in_zero", I32, "zero point of the operand"), Field("weight_zero", I32, "zero point of the weights"))
BLOCK_S8 = CKernel(
    6,
    "block_s8",
    Record(
        "block_s8",
        (
            *(field for layer in _LAYERS for field in _named(layer, (_WEIGHTS, *REQUANT_BLOBS))),
            *(field for layer in _LAYERS for field in _named(layer, (*_ZEROS, *REQUANT_FIELDS))),
            Field("in_channels", U32),
            Field("channels", U32, "of the depthwise layer"),
            Field("out_channels", U32),
            *WINDOW,
            Field("strip", U32, "pixels that are made at a time"),
            Field("lines", U32, "rows of the first layer's result that are kept from row to row"),
        ),
    ),
)
FAMILY = (BLOCK_S8,)


@KERNELS.kernel(Block)
def block(node: Node) -> Call | None:
    op, shape = node.op, node.inputs[0].type.shape
    assert isinstance(op, Block)
    calls = [_part_call(part) for part in _parts(node, op)]
    if any(call is None for call in calls) or op.depthwise.dilation != (1, 1) or shape[0] != 1:
        return None
    names = [name for name in _LAYERS if getattr(op, name) is not None]
    found = dict(zip(names, calls, strict=True))
    kernels = {name: call.kernel for name, call in found.items() if call is not None}
    wanted = {"expand": CONV_S8, "depthwise": DEPTHWISE_S8, "project": CONV_S8}
    if any(kernels[name] is not wanted[name] for name in kernels):
        return None
    return _call(node, op, {name: call for name, call in found.items() if call is not None})


def _call(node: Node, op: Block, calls: dict[str, Call]) -> Call | None:
    middle = calls["depthwise"].params
    channels, inputs, outputs = middle["channels"], node.inputs[0].type.shape[3], node.output.type.shape[3]
    assert isinstance(channels, int)
    whole_steps = (op.expand is None or inputs % STEP == 0) and (op.project is None or channels % STEP == 0)
    if not whole_steps or channels > PATCH_BYTES or not all(_is_pointwise(calls.get(n)) for n in ("expand", "project")):
        return None
    kernel_h, stride_h = op_window(middle)
    lines = max(0, kernel_h - stride_h) if op.expand is not None and op.keeps_lines else 0
    params: dict[str, FieldValue | Blob | None] = {field.name: middle[field.name] for field in WINDOW}
    params |= {"in_channels": inputs, "channels": channels, "out_channels": outputs, "strip": op.strip, "lines": lines}
    for layer in _LAYERS:
        for field in (_WEIGHTS, *REQUANT_BLOBS, *_ZEROS, *REQUANT_FIELDS):
            absent = None if field.type is BLOB else 0
            params[f"{layer}_{field.name}"] = calls[layer].params[field.name] if layer in calls else absent
    size = _scratch(op, params)
    return Call(BLOCK_S8, node.inputs[:1], params, lambda rows: size, keeps_scratch=lines > 0)


def _scratch(op: Block, params: dict[str, FieldValue | Blob | None]) -> int:
    """Kept lines, the window, and what the depthwise layer makes (kernels/block_s8.c)."""
    n = {name: value for name, value in params.items() if isinstance(value, int)}
    window = n["kernel_h"] * (n["kernel_w"] + (op.strip - 1) * n["stride_w"]) if op.expand is not None else 0
    strip = op.strip if op.project is not None else 0
    return (n["lines"] * n["in_width"] + window + strip) * n["channels"]


def op_window(params: object) -> tuple[int, int]:
    """Kernel and stride along the rows."""
    assert isinstance(params, dict)
    return params["kernel_h"], params["stride_h"]


def _is_pointwise(call: Call | None) -> bool:
    names = ("kernel_h", "kernel_w", "stride_h", "stride_w", "groups")
    return call is None or (
        all(call.params[name] == 1 for name in names) and call.params["pad_top"] == call.params["pad_left"] == 0
    )


def _parts(node: Node, op: Block) -> Iterator[Node]:
    """Every layer as a node of its own, with operands of its own."""
    type_, at = node.inputs[0].type, 1
    for layer, count in zip(op.layers, op.counts, strict=True):
        constants = [Value(v.type, v.name, v.data) for v in node.inputs[at : at + count]]
        part = Graph().append(layer, [Value(type_), *constants])
        at, type_ = at + count, part.output.type
        yield part


def _part_call(part: Node) -> Call | None:
    return KERNELS.select(part)
