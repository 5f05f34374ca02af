"""What the machine refuses, and how it says so."""

from __future__ import annotations

from collections.abc import Iterable

from trivet.errors import Unsupported
from trivet.ir.graph import Node


def refuse_unless(claim: bool, node: Node, reason: str, hint: str | None = None) -> None:
    """Raises: Unsupported unless `claim` holds."""
    if not claim:
        raise Unsupported(f"{node.op.name}: {reason}", where=node.loc or f"%{node.outputs[0].name}", hint=hint)


def check_shifts(node: Node, shifts: Iterable[int]) -> None:
    """Raises: Unsupported where a multiplier is 2^31 or more: the epilogue shifts by at most 31 bits."""
    largest = max(shifts, default=0)
    refuse_unless(largest <= 31, node, f"its scales ask for a shift by {largest} bits: the epilogue shifts by up to 31")
