"""A value in another order of axes, where that costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ir.types import TensorType
from trivet.ops.movement import Reshape, Transpose
from trivet.passes.commute import Perm, commuted, compose, data_operands, inverse, reshaped
from trivet.passes.feature_order import reordered_features
from trivet.passes.patterns import aligned, keeps_order, made_by, read_once

Make = Callable[[Node], Value]
"""Builds the value just before the given node."""

MAX_DEPTH = 40
"""How far up the graph a search goes."""


class Ports(Enum):
    """Which transposes model inputs take."""

    CLOSED = "none"
    CHANNELS_LAST = "all but those to channels first, which sink: the operators behind them want channels last"
    OPEN = "all"


class Lift:
    """Plans transposes of values without a transpose operator; nothing changes until a plan is carried out."""

    def __init__(self, rw: Rewriter, ports: Ports) -> None:
        self.rw = rw
        self.ports = ports

    def plan(self, value: Value, perm: Perm, depth: int = 0) -> Make | None:
        """How to have transpose{perm}(value) for nothing, or None."""
        if perm == tuple(range(len(perm))):
            return lambda anchor: value
        if value.is_constant:
            return self._constant(value, perm)
        transpose = made_by(value, Transpose)
        if transpose is not None and isinstance(transpose.op, Transpose):
            source = transpose.inputs[0]
            cancels = compose(transpose.op.perm, perm) == tuple(range(len(perm)))
            return (lambda anchor: source) if cancels else None
        if keeps_order(value.type.shape, perm) and (value.type.quant is None or value.type.quant.axis is None):
            shape = tuple(value.type.shape[p] for p in perm)
            return lambda anchor: self.rw.insert_before(anchor, Reshape(shape), [value])
        if depth > MAX_DEPTH or not read_once(self.rw.graph, value):
            return None
        return self._input(value, perm) if value.producer is None else self._node(value.producer, perm, depth + 1)

    def operands(self, node: Node, perm: Perm) -> list[Make] | None:
        """Plans for the operands of a node whose data operands are wanted before transpose{perm}; None if one has none.

        Operands of lower rank are seen with leading unit axes.
        """
        plans: list[Make] = []
        data = data_operands(node)
        for index, value in enumerate(node.inputs):
            if index not in data or value.type.rank == 0:
                plans.append(_as_it_is(value))
                continue
            plan = self._aligned(value, inverse(perm))
            if plan is None:
                return None
            plans.append(plan)
        return plans

    def _aligned(self, value: Value, perm: Perm, depth: int = 0) -> Make | None:
        """The plan for a value that broadcasts with leading unit axes."""
        rank = len(perm)
        if value.type.rank == rank:
            return self.plan(value, perm, depth)
        shape = aligned(value.type.shape, rank)
        quant = value.type.quant
        if quant is not None and quant.axis is not None:
            return None
        if value.data is not None:
            data = value.data.reshape(shape)
            wide = self.rw.constant(data, value.type.with_shape(shape), value.name)
            return self.plan(wide, perm, depth)
        if not keeps_order(shape, perm):
            return None
        target = tuple(shape[p] for p in perm)
        return lambda anchor: self.rw.insert_before(anchor, Reshape(target), [value])

    def _constant(self, value: Value, perm: Perm) -> Make:
        def make(anchor: Node) -> Value:
            assert value.data is not None
            quant = value.type.quant
            if quant is not None and quant.axis is not None:
                quant = quant.with_axis(perm.index(quant.axis))
            data = np.ascontiguousarray(value.data.transpose(perm))
            return self.rw.constant(data, TensorType(value.type.dtype, data.shape, quant), value.name)

        return make

    def _input(self, value: Value, perm: Perm) -> Make | None:
        """A model input is declared in the other order; its port keeps the model's."""
        rank = len(perm)
        to_channels_first = rank > 3 and perm == (0, rank - 1, *range(1, rank - 1))
        if self.ports is Ports.CLOSED or (self.ports is Ports.CHANNELS_LAST and to_channels_first):
            return None
        if not any(value is given for given in self.rw.graph.inputs):
            return None

        def make(anchor: Node) -> Value:
            return self.rw.permute_input(value, perm)

        return make

    def _node(self, node: Node, perm: Perm, depth: int) -> Make | None:
        """transpose{perm}(op(x))  -->  op'(transpose(x)), with every operand lifted in turn."""
        if len(node.outputs) != 1:
            return None
        if isinstance(node.op, Reshape):
            return self._reshape(node, perm, depth)
        how = commuted(node, inverse(perm))
        if how is None or how.after != inverse(perm):
            return None
        op, data = how.op, data_operands(node)
        plans: list[Make] = []
        for index, value in enumerate(node.inputs):
            free = index not in data or value.type.rank == 0
            plan = _as_it_is(value) if free else self._aligned(value, perm, depth)
            if plan is None:
                return None
            plans.append(plan)
        name = f"{node.output.name}.t" if node.output.name else ""
        return lambda anchor: self.rw.insert_before(anchor, op, [make(anchor) for make in plans], name, node.loc)

    def _reshape(self, node: Node, perm: Perm, depth: int) -> Make | None:
        x, y = node.inputs[0], node.output
        target = tuple(y.type.shape[p] for p in perm)
        # The reshape backwards, y to x, commutes with the transpose that makes y of the wanted value.
        how = reshaped(y.type.shape, x.type.shape, inverse(perm))
        plan = None if how is None else self.plan(x, inverse(how.after), depth)
        if plan is None:
            plan = reordered_features(self.rw, node, perm)
        if plan is None:
            return None
        make = plan
        name = f"{y.name}.t" if y.name else ""
        return lambda anchor: self.rw.insert_before(anchor, Reshape(target), [make(anchor)], name, node.loc)


def _as_it_is(value: Value) -> Make:
    return lambda anchor: value
