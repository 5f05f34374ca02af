"""Which passes run, and in which order.

Order matters where one pass needs what another leaves:

- `restate-unsigned` first: every later pass knows signed integers only.
- `const-fold` before whatever reads values; it leaves dequantized constants alone until `fold-qdq` has taken the
  integers that it wants, and only then does `dequantize-constants` make floats of the rest.
- The float rewrites run before `fold-qdq`: a pair around conv + add + relu becomes one integer operator only when the
  three are one float operator. They never touch weights behind a dequantize, which are quantized.
- Among them `fold-batch-norm` and `recognize` before `fuse-activation`, which would put a clamp into an add that they
  look for. They run again after `fold-qdq` for what stayed float.
- Transposes cancel before and after `fold-qdq`: before, so that they do not stand between a quantize and its operator;
  after, because tables and integer operators let more of them pass.
- `transposes-into-ports` once no more cancel: before, it would turn inputs to orders in which nothing computes.
- `view-transposes` last: a transpose of unit axes cancels against another one only while it still is a transpose.
"""

from __future__ import annotations

from trivet.passes.broadcast_expands import BroadcastExpands
from trivet.passes.canonicalize import Canonicalize
from trivet.passes.check_canonical import CheckCanonical
from trivet.passes.clamps import MergeClamps
from trivet.passes.const_fold import ConstFold
from trivet.passes.cse import Cse
from trivet.passes.dce import Dce
from trivet.passes.dequantize_constants import DequantizeConstants
from trivet.passes.fold_batch_norm import FoldBatchNorm
from trivet.passes.fold_bias import FoldBias
from trivet.passes.fold_invariant_state import FoldInvariantState
from trivet.passes.fold_pad import FoldPad
from trivet.passes.fold_qdq import FoldQdq
from trivet.passes.fuse_activation import FuseActivation
from trivet.passes.layout import CancelTransposes
from trivet.passes.manager import Fixpoint, Pipeline
from trivet.passes.matmul_to_dense import MatMulToDense
from trivet.passes.recognize import Recognize
from trivet.passes.relabel import Relabel
from trivet.passes.remove_identities import RemoveIdentities
from trivet.passes.restate_unsigned import RestateUnsigned
from trivet.passes.sink_reshapes import SinkReshapes
from trivet.passes.transposes_into_ports import TransposesIntoPorts
from trivet.passes.view_transposes import ViewTransposes
from trivet.passes.widen_constants import WidenConstants

CLEAN = (ConstFold(), Canonicalize(), BroadcastExpands(), RemoveIdentities(), Cse(), Dce())
"""Leaves nothing that can be computed now, nothing twice, nothing unused."""


def normalize(ports: bool = True) -> Pipeline:
    """From imported to canonical, at every optimization level.

    `ports` lets model inputs and outputs be stored in the order in which the network computes; without it transposes
    at the border stay operators.
    """
    movement = Fixpoint((CancelTransposes(ports), SinkReshapes(), *CLEAN))
    absorb = (MergeClamps(), FoldBias(), FoldBatchNorm(), Recognize(), FoldPad(), FuseActivation())
    return (
        FoldInvariantState(),
        RestateUnsigned(),
        WidenConstants(),
        Fixpoint(CLEAN),
        MatMulToDense(),
        movement,
        *absorb,
        FoldQdq(),
        DequantizeConstants(),
        movement,
        *((TransposesIntoPorts(),) if ports else ()),
        Relabel(),
        *absorb,
        ViewTransposes(),
        Fixpoint(CLEAN),
        CheckCanonical(),
    )
