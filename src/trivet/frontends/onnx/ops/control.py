"""Control flow whose course is known at compile time."""

from __future__ import annotations

import numpy as np

from trivet.frontends.onnx.context import Context, Converters
from trivet.ir.graph import Value

ONNX = Converters()


@ONNX("If")
def if_(ctx: Context) -> tuple[Value, ...]:
    """The branch that the condition chooses, in place; the condition must be known."""
    condition = np.ravel(ctx.known(0, "the condition"))
    if condition.size != 1:
        ctx.invalid(f"the condition has {condition.size} elements")
    branch = ctx.attr_body("then_branch" if condition[0] else "else_branch")
    if branch.inputs:
        ctx.invalid("a branch takes no inputs")
    return tuple(ctx.inline(branch))
