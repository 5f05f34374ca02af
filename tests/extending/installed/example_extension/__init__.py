"""An extension of Trivet: scrambled model files, an operator with its kernel, a pass, a board."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from trivet.backends.ckernels import Call
from trivet.backends.plan.kernels.lookup import LOOKUP_S8
from trivet.core.dtype import I8
from trivet.core.record import dataclass
from trivet.extending import Extension
from trivet.frontends.tflite.conversion import Conversion
from trivet.ir.graph import Node
from trivet.ir.op import Arrays
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import Types
from trivet.ops.pointwise import Pointwise
from trivet.passes.base import Pass

SCRAMBLED = b"SCRAMBLED"
KEY = 0x5A


def unscramble(path: Path, data: bytes) -> bytes:
    """Files that begin with a mark have every byte behind it changed by a key."""
    if not data.startswith(SCRAMBLED):
        return data
    return bytes(byte ^ KEY for byte in data[len(SCRAMBLED) :])


@dataclass(frozen=True, slots=True)
class Flip(Pointwise):
    """-1 - x of stored int8 numbers."""

    name: ClassVar[str] = "flip"

    def infer(self, types: Types) -> Types:
        return (types[0],)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        return (~arrays[0],)


def flip_table(node: Node) -> Call | None:
    if node.inputs[0].type.dtype is not I8:
        return None
    return Call(LOOKUP_S8, node.inputs, {"table": ~np.arange(-128, 128).astype(np.int8)})


@dataclass(frozen=True, slots=True)
class FlipTwice(Pass):
    """%y = flip(flip(%x))  -->  %x"""

    name: ClassVar[str] = "flip-twice"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            producer = node.inputs[0].producer if isinstance(node.op, Flip) else None
            if producer is not None and isinstance(producer.op, Flip):
                rw.replace_value(node.output, producer.inputs[0])
                rw.erase(node)
                rw.erase_dead_producers(producer.output)
                rw.count("two flips")
                return


def convert_flip(op: Conversion) -> None:
    op.result(op.emit(Flip(), op.operand(0)))


def extend(extension: Extension) -> None:
    extension.rewrite(unscramble)
    extension.operator(Flip)
    extension.tflite("CUSTOM:Flip")(convert_flip)
    extension.kernel(Flip)(flip_table)
    extension.graph_pass(FlipTwice(), after="cse")
    extension.target(Path(__file__).parent / "example-board.toml")
