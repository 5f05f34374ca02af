"""What the machine refuses, and how it says so."""

from __future__ import annotations

from trivet.errors import Unsupported
from trivet.ir.graph import Node


def refuse_unless(claim: bool, node: Node, reason: str, hint: str | None = None) -> None:
    """Raises: Unsupported unless `claim` holds."""
    if not claim:
        raise Unsupported(f"{node.op.name}: {reason}", where=node.loc or f"%{node.outputs[0].name}", hint=hint)
