"""The C kernels' families: which operators each has kernels for, in order of priority; and the table that they fill."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.table import KernelTable
from trivet.ir.op import Op
from trivet.ops import activation as a
from trivet.ops import (
    bits,
    block,
    border,
    conv,
    dense_rows,
    dynamic,
    filter_bank,
    indexing,
    matmul,
    pool,
    quantize,
    recurrent,
    recurrent_stored,
    reduce,
    resize,
    signal,
    softmax,
    trees,
)
from trivet.ops import elementwise as e
from trivet.ops import mathematics as f
from trivet.ops import movement as m

_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.Div, e.SquaredDifference, e.Maximum, e.Minimum)
_BYTE_FUNCTIONS = (a.Clamp, a.Logistic, a.Tanh, a.HardSwish, f.Abs, a.LeakyRelu, a.Elu, a.Gelu, f.Exp, f.Rsqrt)
_FUNCTIONS = (
    *_BYTE_FUNCTIONS, a.HardSigmoid, a.PRelu, a.Softplus, f.Log, f.Sqrt, f.Neg, f.Reciprocal, f.Erf, f.Floor, f.Ceil,
    f.Round, f.Sin, f.Cos, f.Atan,
)  # fmt: skip
_REDUCTIONS = (reduce.Mean, reduce.Sum, reduce.ReduceMax, reduce.ReduceMin, reduce.ReduceProd)

FAMILIES: Mapping[str, Sequence[type[Op]]] = {
    "border": (border.Receive, border.Send),
    "block": (block.Block,),
    "copy": (m.Copy,),
    "lookup": (a.Lookup, *_BYTE_FUNCTIONS),
    "conv_mve": (conv.Conv2D, matmul.Dense),
    "dense_dsp": (matmul.Dense,),
    "conv_dsp": (conv.Conv2D, matmul.Dense),
    "conv": (conv.Conv2D, matmul.Dense),
    "dense_rows": (dense_rows.DenseToRows, dense_rows.DenseOfRows),
    "depthwise_mve": (conv.DepthwiseConv2D,),
    "depthwise_dsp": (conv.DepthwiseConv2D,),
    "depthwise": (conv.DepthwiseConv2D,),
    "conv_transpose": (conv.ConvTranspose2D,),
    "reduce": (*_REDUCTIONS, pool.AveragePool2D),
    "pool": (pool.MaxPool2D, pool.AveragePool2D),
    "softmax": (softmax.Softmax, softmax.LogSoftmax),
    "quantize": (quantize.Quantize, quantize.Dequantize, quantize.Requantize),
    "arithmetic": (*_ARITHMETIC, e.Pow),
    "exact": (matmul.MatMul, a.Relu),
    "batch_matmul": (matmul.BatchMatMul,),
    "choice": (e.Equal, e.NotEqual, e.Less, e.LessEqual, e.Greater, e.GreaterEqual, e.Where, e.Cast),
    "fold": (*_REDUCTIONS, reduce.ArgMax, reduce.ArgMin),
    "functions": _FUNCTIONS,
    "wide": (*_ARITHMETIC, a.LeakyRelu),
    "concat": (m.Concat,),
    "movement": (m.Slice, m.Pad, m.Transpose, m.Expand, m.Tile, m.SpaceToDepth, m.DepthToSpace),
    "gather": (m.Gather,),
    "take": (resize.ResizeNearest,),
    "products_i16": (
        conv.Conv2D,
        conv.DepthwiseConv2D,
        conv.ConvTranspose2D,
        matmul.Dense,
        pool.MaxPool2D,
        pool.AveragePool2D,
    ),
    "indexing": (indexing.Scatter, indexing.TopK, bits.Bitwise, conv.Conv2D, conv.ConvTranspose2D),
    "bilinear": (resize.ResizeBilinear,),
    "recurrent_stored": (
        recurrent_stored.QuantizedLstm,
        recurrent_stored.Svdf,
    ),
    "recurrent": (
        recurrent.Lstm,
        recurrent.Gru,
        recurrent.Rnn,
    ),
    "trees": (trees.TreeEnsemble,),
    "dynamic": (dynamic.DynamicQuantize, dynamic.IntegerConv2D),
    "signal": (signal.SignalWindow, signal.FftAutoScale, signal.Rfft, signal.SpectrumEnergy),
    "filter_bank": (
        filter_bank.FilterBank,
        filter_bank.FilterBankSquareRoot,
        filter_bank.SpectralSubtraction,
        filter_bank.Pcan,
        filter_bank.FilterBankLog,
    ),
}
"""A family is a module of this package, with its kernels as `FAMILY`. It is imported when one of its operators is met:
what is missing here is never found."""

REQUIRES: Mapping[str, frozenset[str]] = {
    "conv_mve": frozenset({"mve"}),
    "dense_dsp": frozenset({"dsp"}),
    "conv_dsp": frozenset({"dsp"}),
    "depthwise_mve": frozenset({"mve"}),
    "depthwise_dsp": frozenset({"dsp"}),
}
"""Features of the target (`features` of its file) that every kernel of a family requires."""


def _module(family: str) -> str:
    return f"{__package__}.{family}"


KERNELS: KernelTable[Call] = KernelTable(
    "plan",
    {_module(family): ops for family, ops in FAMILIES.items()},
    {_module(family): features for family, features in REQUIRES.items()},
)


@cache
def kernels_by_family() -> dict[str, tuple[CKernel, ...]]:
    """Every kernel of the runtime; ids are unique and stable."""
    return {family: importlib.import_module(_module(family)).FAMILY for family in FAMILIES}


def all_kernels() -> list[CKernel]:
    """Every kernel of the runtime, in the order of their families."""
    return [kernel for kernels in kernels_by_family().values() for kernel in kernels]
