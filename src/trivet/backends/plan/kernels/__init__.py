"""The plan backend's kernels, one file a family: parameter records, and the choice of a kernel for a node."""

from __future__ import annotations

from collections.abc import Mapping

from trivet.backends.ckernels import CKernel
from trivet.backends.plan.kernels import (
    arithmetic,
    batch_matmul,
    bilinear,
    choice,
    concat,
    conv,
    conv_transpose,
    copy,
    depthwise,
    exact,
    fold,
    functions,
    gather,
    lookup,
    movement,
    pool,
    quantize,
    reduce,
    softmax,
    take,
    wide,
)
from trivet.backends.plan.kernels.table import KERNELS

FAMILIES: Mapping[str, tuple[CKernel, ...]] = {
    "copy": copy.FAMILY,
    "lookup": lookup.FAMILY,
    "conv": conv.FAMILY,
    "depthwise": depthwise.FAMILY,
    "conv_transpose": conv_transpose.FAMILY,
    "pool": pool.FAMILY,
    "softmax": softmax.FAMILY,
    "quantize": quantize.FAMILY,
    "arithmetic": arithmetic.FAMILY,
    "exact": exact.FAMILY,
    "reduce": reduce.FAMILY,
    "batch_matmul": batch_matmul.FAMILY,
    "choice": choice.FAMILY,
    "fold": fold.FAMILY,
    "wide": wide.FAMILY,
    "concat": concat.FAMILY,
    "movement": movement.FAMILY,
    "functions": functions.FAMILY,
    "gather": gather.FAMILY,
    "take": take.FAMILY,
    "bilinear": bilinear.FAMILY,
}
"""Every kernel of the runtime; ids are unique and stable."""

__all__ = ["FAMILIES", "KERNELS"]
