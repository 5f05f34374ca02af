"""Narrow constants that no kernel reads."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from trivet.core.dtype import F16, I4, I8, U4
from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.rewriter import Rewriter
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.const_fold import fold


@dataclass(frozen=True, slots=True)
class WidenConstants(Pass):
    """dequantize(f16 constant)  -->  f32 constant: no operator has a float16 form that could want the stored ones;
    dequantize(i4 or u4 constant)  -->  dequantize(i8 constant) of the same integers.
    """

    name: ClassVar[str] = "widen-constants"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if not isinstance(node.op, Dequantize) or not node.inputs[0].is_constant:
                continue
            if node.inputs[0].type.dtype is F16:
                fold(rw, node)
            elif node.inputs[0].type.dtype in (I4, U4):
                _nibbles_as_bytes(rw, node)


def _nibbles_as_bytes(rw: Rewriter, node: Node) -> None:
    constant = node.inputs[0]
    assert constant.data is not None
    data = constant.data.astype(I8.numpy)
    rw.set_operands(node, [rw.constant(data, replace(constant.type, dtype=I8), constant.name)])
    rw.count("nibbles as bytes")
