"""Ensembles of trees as ONNX lists their nodes, in the order that the operator wants: children behind parents."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from trivet.core.dtype import I8, I32, DType
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.frontends.onnx.context import Context
from trivet.ir.graph import Value
from trivet.ops.trees import MISSING_IS_TRUE

Child = tuple[bool, int]
"""Whether it is a leaf, and its number in the file."""


@dataclass(slots=True)
class Branch:
    """A node that asks something."""

    feature: int
    split: float
    comparison: int
    no: Child
    yes: Child
    missing_is_true: bool = False


@dataclass(slots=True)
class Forest:
    """Branches and leaves by their numbers in the file, and the roots; a leaf is a list of (target, weight)."""

    roots: list[Child] = field(default_factory=list)
    branches: dict[int, Branch] = field(default_factory=dict)
    leaves: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    def operands(self, ctx: Context, dtype: DType) -> tuple[Value, ...]:
        """What TreeEnsemble takes after its first operand.

        Raises: InvalidModel.
        """
        order = self._order()
        place = {number: index for index, number in enumerate(order)}
        leaf = {number: index for index, number in enumerate(self.leaves)}

        def index(child: Child) -> int:
            is_leaf, number = child
            return -1 - leaf[number] if is_leaf else place[number]

        branches = [self.branches[number] for number in order]
        codes = [b.comparison + MISSING_IS_TRUE * b.missing_is_true for b in branches]
        entries = [entry for listed in self.leaves.values() for entry in listed]
        starts = np.cumsum([0, *(len(listed) for listed in self.leaves.values())])
        children = np.array([(index(b.no), index(b.yes)) for b in branches], np.int32).reshape(-1, 2)
        return (
            ctx.constant([b.split for b in branches], dtype),
            ctx.constant([b.feature for b in branches], I32),
            ctx.constant(codes, I8),
            ctx.constant(children, I32),
            ctx.constant([index(root) for root in self.roots], I32),
            ctx.constant(starts, I32),
            ctx.constant([target for target, _ in entries], I32),
            ctx.constant([weight for _, weight in entries], dtype),
        )

    def _order(self) -> list[int]:
        """Every branch that a root leads to, parents first.

        Raises: InvalidModel (a child that does not exist, or that two parents have).
        """
        order: list[int] = []
        seen: set[int] = set()
        waiting = list(reversed(self.roots))
        while waiting:
            is_leaf, number = waiting.pop()
            if number not in (self.leaves if is_leaf else self.branches):
                raise InvalidModel(f"a tree leads to {'leaf' if is_leaf else 'node'} {number}, which does not exist")
            if is_leaf:
                continue
            if number in seen:
                raise InvalidModel(f"two ways lead to node {number} of a tree")
            seen.add(number)
            order.append(number)
            waiting += (self.branches[number].yes, self.branches[number].no)
        return order
