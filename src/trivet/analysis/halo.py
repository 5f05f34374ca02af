"""What part of an operand a region of a result depends on, through any number of operators: composed axis rules."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.core.access import Blocked, Prefix, Shifted, Sliding, Span, Upsampled
from trivet.ir.graph import Node
from trivet.ir.op import Region


def operand_region(node: Node, operand: int, out: Region) -> Region:
    """What computing the region `out` of a node's result reads of one operand."""
    return tuple(
        rule.reads(
            out[rule.out_axis] if isinstance(rule, Sliding | Upsampled | Shifted | Blocked | Prefix) else Span(0, 1)
        )
        for rule in node.op.access(node.input_types)[operand]
    )


def receptive_region(nodes: Sequence[Node], out: Region) -> Region:
    """What a region of a chain's result depends on of the chain's operand; each node reads the one before it.

    Clipped after every operator, as padding is not data.
    """
    for node, before in zip(reversed(nodes), [*reversed(nodes[:-1]), None], strict=True):
        source = None if before is None else before.outputs[0]
        operand = 0 if source is None else next(i for i, value in enumerate(node.inputs) if value is source)
        out = operand_region(node, operand, out)
    return out
