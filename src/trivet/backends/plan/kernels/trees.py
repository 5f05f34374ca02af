"""Ensembles of decision trees, which are constants."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, U32, Field, Record
from trivet.core import dtype as d
from trivet.ir.graph import Node
from trivet.ops.trees import Aggregate, TreeEnsemble

_AGGREGATES = {Aggregate.SUM: 0, Aggregate.AVERAGE: 1, Aggregate.MIN: 2, Aggregate.MAX: 3}

TREE_ENSEMBLE = CKernel(
    202,
    "tree_ensemble",
    Record(
        "tree_ensemble",
        (
            Field("splits", BLOB, "f32 or f64, one for each node"),
            Field("features", BLOB, "i32 [nodes]: columns of the operand"),
            Field("codes", BLOB, "i8 [nodes]: 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=; 8 more: what is no number gives yes"),
            Field("children", BLOB, "i32 [nodes][2]: for no and yes a later node, or -1 - leaf"),
            Field("roots", BLOB, "i32 [trees], as children"),
            Field("starts", BLOB, "i32 [leaves + 1]: first entry of each leaf"),
            Field("targets", BLOB, "i32 [entries]"),
            Field("weights", BLOB, "f32 or f64 [entries]"),
            Field("columns", U32, "of the operand"),
            Field("target_count", U32, "columns of the result"),
            Field("aggregate", U32, "0 sum, 1 average over the trees, 2 least, 3 largest"),
            Field("is_double", U32, "1: f64, 0: f32"),
        ),
    ),
    by_rows=False,
)
FAMILY = (TREE_ENSEMBLE,)

_BLOBS = ("splits", "features", "codes", "children", "roots", "starts", "targets", "weights")


@KERNELS.kernel(TreeEnsemble)
def tree_ensemble(node: Node) -> Call | None:
    op, (x, *parts) = node.op, node.inputs
    assert isinstance(op, TreeEnsemble)
    if any(part.data is None for part in parts) or parts[0].type.elements == 0 or parts[6].type.elements == 0:
        return None
    params = {name: part.data for name, part in zip(_BLOBS, parts, strict=True)} | {
        "columns": x.type.shape[1],
        "target_count": op.targets,
        "aggregate": _AGGREGATES[op.aggregate],
        "is_double": int(x.type.dtype is d.F64),
    }
    return Call(TREE_ENSEMBLE, (x,), params, images=1)
