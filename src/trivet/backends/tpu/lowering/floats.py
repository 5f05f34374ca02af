"""Floats at the border of a quantized network: the scalar unit turns them into stored integers and back."""

from __future__ import annotations

from functools import partial

from trivet.backends.tpu.ir import DequantizeLayer, QuantizeLayer, Rounding, Target
from trivet.backends.tpu.limits import refuse_unless
from trivet.backends.tpu.lowering.builder import LOWERINGS, Builder, Lower
from trivet.core.dtype import F32, I8, I32, U8
from trivet.core.numerics import Numerics
from trivet.ir.graph import Node
from trivet.ops.quantize import Dequantize, Quantize
from trivet.ops.tflite_elementwise import scale_of


@LOWERINGS.kernel(Quantize)
def lower_quantize(node: Node) -> Lower:
    """Every element divided by the scale, rounded, moved, clipped."""
    y = node.output.type
    refuse_unless(y.dtype in (I8, U8), node, f"the scalar unit quantizes to i8 and u8, not {y.dtype.name}")
    refuse_unless(y.quant is not None and y.quant.is_per_tensor, node, "its quantization is per channel")
    return partial(_emit_quantize, node)


def _emit_quantize(node: Node, builder: Builder) -> None:
    op, y = node.op, node.output.type
    assert isinstance(op, Quantize) and y.quant is not None
    rounding = Rounding.EVEN if op.numerics is Numerics.ONNX else Rounding.AWAY
    view = builder.flat(node.inputs[0])
    target = Target.matrix(builder.define(node.output), 1, view.columns)
    name = node.output.name or "quantize"
    builder.add(QuantizeLayer(name, view, scale_of(y), y.quant.zero_point, rounding, target))


@LOWERINGS.kernel(Dequantize)
def lower_dequantize(node: Node) -> Lower:
    """Every element moved and multiplied by the scale."""
    x = node.inputs[0].type
    refuse_unless(x.dtype in (I8, U8, I32), node, f"the scalar unit dequantizes i8, u8 and i32, not {x.dtype.name}")
    refuse_unless(x.quant is not None and x.quant.is_per_tensor, node, "its quantization is per channel")
    return partial(_emit_dequantize, node)


def _emit_dequantize(node: Node, builder: Builder) -> None:
    x = node.inputs[0]
    assert x.type.quant is not None and node.output.type.dtype is F32
    view = builder.flat(x)
    target = Target.matrix(builder.define(node.output), 1, view.columns)
    name = node.output.name or "dequantize"
    builder.add(DequantizeLayer(name, view, scale_of(x.type), x.type.quant.zero_point, target))
