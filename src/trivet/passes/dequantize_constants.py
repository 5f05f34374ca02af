"""Dequantized constants that a float operator reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.dtype import F16
from trivet.ir.rewriter import Rewriter
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.fold_constants import fold


@dataclass(frozen=True)
class DequantizeConstants(Pass):
    """dequantize(constant)  -->  float constant, for operators that stay float.

    Runs after fold-qdq has taken the integers that it wants; `only_f16` takes float16 weights alone, which have no
    integer form, and may run at any time.
    """

    only_f16: bool = False
    name: ClassVar[str] = "dequantize-constants"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if not isinstance(node.op, Dequantize) or not node.inputs[0].is_constant:
                continue
            if self.only_f16 and node.inputs[0].type.dtype is not F16:
                continue
            fold(rw, node)
