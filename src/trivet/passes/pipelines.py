"""Which passes run, and in which order.

Order matters where one pass needs what another leaves:

- `restate-unsigned` first: everything later knows signed integers only.
- `fold-constants` before every pass that reads values.
"""

from __future__ import annotations

from trivet.passes.canonicalize import Canonicalize
from trivet.passes.clamps import MergeClamps
from trivet.passes.cse import Cse
from trivet.passes.dce import Dce
from trivet.passes.dequantize_constants import DequantizeConstants
from trivet.passes.fold_batch_norm import FoldBatchNorm
from trivet.passes.fold_bias import FoldBias
from trivet.passes.fold_constants import FoldConstants
from trivet.passes.fold_pad import FoldPad
from trivet.passes.fuse_activation import FuseActivation
from trivet.passes.manager import Fixpoint, Pipeline
from trivet.passes.matmul_to_dense import MatMulToDense
from trivet.passes.relabel import Relabel
from trivet.passes.remove_identities import RemoveIdentities
from trivet.passes.restate_unsigned import RestateUnsigned

CLEAN = Fixpoint((FoldConstants(), Canonicalize(), RemoveIdentities(), Cse(), Dce()))
"""Leaves nothing that can be computed now, nothing twice, nothing unused."""


def normalize(level: int = 1) -> Pipeline:
    """From imported to canonical, at every optimization level."""
    return (
        RestateUnsigned(),
        DequantizeConstants(only_f16=True),
        CLEAN,
        MergeClamps(),
        MatMulToDense(),
        FoldBias(),
        FuseActivation(),
        Relabel(),
        DequantizeConstants(),
        CLEAN,
        FoldBatchNorm(),
        FoldPad(),
        FuseActivation(),
        CLEAN,
    )
