"""Matrix products: with a constant weight (dense), of two activations (batch), and exact (matmul, from `.tiny`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.dtype import I8, I32
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Arrays, Op, broadcast_shapes, require
from trivet.ir.types import TensorType, Types
from trivet.ops.quantized import check_bias, check_numerics, result


@dataclass(frozen=True, slots=True)
class Dense(Op):
    """Matrix product with a weight stored output-major, over the last axis.

    x: [..., K], w: [O, K], bias: [O] (optional) -> y: [..., O]
    """

    clamp: Bounds = UNBOUNDED
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "dense"

    def infer(self, types: Types) -> Types:
        require(len(types) in (2, 3), f"dense takes 2 or 3 operands, got {len(types)}")
        x, w = types[:2]
        check_numerics("dense", x, self.out, self.numerics)
        require(x.rank >= 1 and w.rank == 2, f"dense takes [..., K] and [O, K], got {x} and {w}")
        require(x.shape[-1] == w.shape[1], f"dense: {x} has {x.shape[-1]} features, the weight takes {w.shape[1]}")
        if len(types) == 3:
            check_bias("dense", x, types[2], w.shape[0])
        return (result(x, (*x.shape[:-1], w.shape[0]), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError

    def macs(self, types: Types) -> int:
        x, w = types[:2]
        return x.elements * w.shape[0]


@dataclass(frozen=True, slots=True)
class BatchMatMul(Op):
    """Product of two activations; leading axes broadcast.

    a: [..., M, K], b: [..., K, N] (or [..., N, K] with `transpose_b`) -> y: [..., M, N]
    """

    transpose_b: bool = False
    out: Quant | None = None
    numerics: Numerics | None = None
    name: ClassVar[str] = "batch_matmul"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2, f"batch_matmul takes 2 operands, got {len(types)}")
        a, b = types
        check_numerics("batch_matmul", a, self.out, self.numerics)
        require(a.rank >= 2 and b.rank >= 2 and a.dtype is b.dtype, f"batch_matmul does not take {a} and {b}")
        k, n = (b.shape[-1], b.shape[-2]) if self.transpose_b else (b.shape[-2], b.shape[-1])
        require(a.shape[-1] == k, f"batch_matmul: inner sizes differ in {a} and {b}")
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return (result(a, (*batch, a.shape[-2], n), self.out),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError

    def macs(self, types: Types) -> int:
        return self.infer(types)[0].elements * types[0].shape[-1]


@dataclass(frozen=True, slots=True)
class MatMul(Op):
    """Exact integer matrix product, with the steps that `fuse` absorbed: bias [N], then relu.

    a: [M, K] or [K], b: [K, N] or [K], bias: [N] (iff `bias`), i8 or i32 -> y: i32 [M, N], [M], [N] or []
    """

    bias: bool = False
    relu: bool = False
    name: ClassVar[str] = "matmul"

    def infer(self, types: Types) -> Types:
        require(len(types) == 2 + self.bias, f"matmul takes {2 + self.bias} operands, got {len(types)}")
        a, b = types[:2]
        for operand in types:
            require(
                operand.dtype in (I8, I32) and operand.quant is None, f"matmul takes plain i8 or i32, got {operand}"
            )
        require(a.rank in (1, 2) and b.rank in (1, 2), f"matmul takes ranks 1 and 2, got {a} and {b}")
        require(a.shape[-1] == b.shape[0], f"matmul: inner sizes differ in {a} and {b}")
        shape = (*a.shape[:-1], *b.shape[1:])
        if self.bias:
            require(types[2].shape == shape[-1:], f"matmul bias must be {list(shape[-1:])}, got {types[2]}")
        return (TensorType(I32, shape),)

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        raise NotImplementedError

    def macs(self, types: Types) -> int:
        return self.infer(types)[0].elements * types[0].shape[-1]
