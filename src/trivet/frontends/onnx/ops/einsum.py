"""Einsum, two operands at a time: transposes, one matrix product for each batch index, transposes."""

from __future__ import annotations

import math
import string

import numpy as np

from trivet.frontends.onnx.context import Context, Converters
from trivet.ir.graph import Value
from trivet.ops.matmul import BatchMatMul
from trivet.ops.reduce import Sum

ONNX = Converters()


@ONNX("Einsum")
def einsum(ctx: Context) -> Value:
    """`equation` names the axes of every operand and, behind the arrow, of the result."""
    operands = [ctx.operand(index) for index in range(len(ctx))]
    names, result = _parsed(ctx, operands)
    known = [operand.data for operand in operands if operand.data is not None]
    if len(known) == len(operands):
        return ctx.constant(np.einsum(f"{','.join(names)}->{result}", *known), operands[0].type.dtype)
    sizes: dict[str, int] = {}
    for name, operand in zip(names, operands, strict=True):
        if len(set(name)) != len(name):
            ctx.refuse(f"the diagonal '{name}'", hint="take it with GatherND before")
        for letter, size in zip(name, operand.type.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                ctx.refuse(f"axis '{letter}' of {sizes[letter]} and {size} elements", hint="expand operands before it")
    value, name = operands[0], names[0]
    for index in range(1, len(operands)):
        kept = set(result).union(*names[index + 1 :])
        value, name = _contracted(ctx, (value, name), (operands[index], names[index]), kept, sizes)
    value, name = _summed(ctx, value, name, set(result))
    return ctx.transpose(value, [name.index(letter) for letter in result])


def _parsed(ctx: Context, operands: list[Value]) -> tuple[list[str], str]:
    """The letters of every operand and of the result; what an ellipsis stands for gets letters of its own."""
    left, arrow, result = ctx.attr_text("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        ctx.invalid(f"an equation of {len(terms)} operands for {len(operands)}")
    free = [letter for letter in string.ascii_letters if letter not in left]
    names, longest = [], ""
    for term, operand in zip(terms, operands, strict=True):
        hidden = operand.type.rank - len(term.replace("...", ""))
        if hidden < 0 or (hidden > 0 and "..." not in term) or hidden > len(free):
            ctx.invalid(f"the term '{term}' does not suit {operand.type}")
        letters = "".join(free[-hidden:]) if hidden else ""
        longest = max(longest, letters, key=len)
        names.append(term.replace("...", letters))
    if not arrow:
        every = "".join(names)
        once = sorted(letter for letter in set(every) if every.count(letter) == 1 and letter not in longest)
        return names, longest + "".join(once)
    return names, result.replace("...", longest)


def _summed(ctx: Context, value: Value, name: str, kept: set[str]) -> tuple[Value, str]:
    """Without the axes that nothing else needs."""
    axes = tuple(i for i, letter in enumerate(name) if letter not in kept)
    if not axes:
        return value, name
    return ctx.emit(Sum(axes), value), "".join(letter for letter in name if letter in kept)


def _contracted(
    ctx: Context, one: tuple[Value, str], two: tuple[Value, str], kept: set[str], sizes: dict[str, int]
) -> tuple[Value, str]:
    """The product of two operands, summed over shared axes that nothing else needs."""
    a, left = _summed(ctx, *one, kept | set(two[1]))
    b, right = _summed(ctx, *two, kept | set(left))
    batch = [letter for letter in left if letter in right and letter in kept]
    inner = [letter for letter in left if letter in right and letter not in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    a = _matrix(ctx, a, left, (batch, rows, inner), sizes)
    b = _matrix(ctx, b, right, (batch, inner, columns), sizes)
    name = [*batch, *rows, *columns]
    return ctx.reshape(ctx.emit(BatchMatMul(), a, b), [sizes[letter] for letter in name]), "".join(name)


def _matrix(
    ctx: Context, x: Value, name: str, groups: tuple[list[str], list[str], list[str]], sizes: dict[str, int]
) -> Value:
    """x with its axes in three groups, each as one axis."""
    moved = ctx.transpose(x, [name.index(letter) for group in groups for letter in group])
    return ctx.reshape(moved, [math.prod(sizes[letter] for letter in group) for group in groups])
