"""Functions of one int8 value: a table of 256 results, filled by the operator's own meaning when the plan is made."""

from __future__ import annotations

import numpy as np

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import BLOB, Field, Record
from trivet.core.dtype import I8
from trivet.ir.graph import Node
from trivet.ops import activation as a
from trivet.ops import mathematics as m

LOOKUP_S8 = CKernel(
    1, "lookup_s8", Record("lookup", (Field("table", BLOB, "i8 [256]: the result of each stored value, from -128 on"),))
)
FAMILY = (LOOKUP_S8,)

_ALL_VALUES = np.arange(-128, 128).astype(np.int8)


@KERNELS.kernel(a.Lookup)
def lookup(node: Node) -> Call | None:
    x, table = node.inputs
    return None if table.data is None else Call(LOOKUP_S8, (x,), {"table": table.data})


@KERNELS.kernel(a.Clamp, a.Logistic, a.Tanh, a.HardSwish, m.Abs, a.LeakyRelu, a.Elu, a.Gelu, m.Exp, m.Rsqrt)
def tabulated(node: Node) -> Call | None:
    """Any function of one stored int8 value to an int8."""
    if len(node.inputs) != 1:
        return None
    (x,) = node.inputs
    if x.type.dtype is not I8 or node.output.type.dtype is not I8:
        return None
    (table,) = node.op.evaluate((_ALL_VALUES,), (x.type.with_shape((256,)),))
    return Call(LOOKUP_S8, (x,), {"table": table})
