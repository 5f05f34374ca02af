"""Dequantized constants that a float operator reads."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.ops.quantize import Dequantize
from trivet.passes.base import Pass
from trivet.passes.const_fold import fold


@dataclass(frozen=True, slots=True)
class DequantizeConstants(Pass):
    """dequantize(constant)  -->  float constant, for operators that stay float.

    Runs after fold-qdq, which has taken the integers that it wants.
    """

    name: ClassVar[str] = "dequantize-constants"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            if isinstance(node.op, Dequantize) and node.inputs[0].is_constant:
                fold(rw, node)
