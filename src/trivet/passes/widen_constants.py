"""Float16 weights at compile time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.dtype import F16
from trivet.ir.rewriter import Rewriter
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.fold_constants import fold


@dataclass(frozen=True)
class WidenConstants(Pass):
    """dequantize(f16 constant)  -->  f32 constant: no operator has a float16 form that could want the stored ones."""

    name: ClassVar[str] = "widen-constants"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if isinstance(node.op, Dequantize) and node.inputs[0].is_constant and node.inputs[0].type.dtype is F16:
                fold(rw, node)
