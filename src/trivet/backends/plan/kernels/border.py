"""Rows that the caller gives and takes: the kernels that call it."""

from __future__ import annotations

from trivet.backends.ckernels import Call, CKernel
from trivet.backends.plan import format as f
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.records import U32, Field, Record
from trivet.ir.graph import Node
from trivet.ops.border import Receive, Send

_PORT = Record("border", (Field("port", U32, "index of the input or output"),))
RECEIVE = CKernel(f.RECEIVE_KERNEL, "receive", _PORT)
SEND = CKernel(f.SEND_KERNEL, "send", _PORT)
FAMILY = (RECEIVE, SEND)


@KERNELS.kernel(Receive)
def receive(node: Node) -> Call | None:
    op = node.op
    return Call(RECEIVE, (), {"port": op.port}, images=1) if isinstance(op, Receive) and _is_one(node) else None


@KERNELS.kernel(Send)
def send(node: Node) -> Call | None:
    op = node.op
    if not isinstance(op, Send) or not _is_one(node):
        return None
    return Call(SEND, node.inputs, {"port": op.port}, images=1, results=False, accumulates=op.chunks > 0)


def _is_one(node: Node) -> bool:
    return node.output.type.shape[0] == 1
