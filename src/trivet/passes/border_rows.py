"""Inputs that the caller gives row by row, outputs that it takes row by row."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.errors import Unsupported
from trivet.ir.graph import Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.border import Receive, Send
from trivet.passes.base import Pass


@dataclass(frozen=True, slots=True)
class BorderRows(Pass):
    """op(%input)  -->  op(receive(%input));  return %y  -->  return send(%y), for what has several rows.

    Raises: Unsupported, where nothing that was asked for has.
    """

    inputs: bool = False
    outputs: bool = False
    name: ClassVar[str] = "border-rows"

    def rewrite(self, rw: Rewriter) -> None:
        if self.inputs:
            self._receive(rw)
        if self.outputs:
            self._send(rw)

    def _receive(self, rw: Rewriter) -> None:
        pairs = zip(rw.graph.inputs, rw.graph.input_ports, strict=True)
        found = [(i, v) for i, (v, port) in enumerate(pairs) if has_rows(v) and port.accepts is None]
        if not found:
            raise _no_rows("input", rw.graph.inputs)
        for index, value in found:
            first = next((use.node for node in rw.graph.nodes for use in value.uses if use.node is node), None)
            if first is not None and not any(isinstance(use.node.op, Receive) for use in value.uses):
                rows = rw.insert_before(first, Receive(index), (value,), f"{value.name}_rows")
                _redirect(rw, value, rows)
                rw.count("input")

    def _send(self, rw: Rewriter) -> None:
        graph = rw.graph
        found = [(i, v) for i, v in enumerate(graph.outputs) if has_rows(v) and v.producer is not None]
        if not found:
            raise _no_rows("output", graph.outputs)
        for index, value in found:
            producer = value.producer
            if producer is None or isinstance(producer.op, Send):
                continue
            name = value.name
            rw.rename(value, f"{name}_rows")
            rw.give_out(index, rw.insert_after(producer, Send(index), (value,), name))
            rw.count("output")


def has_rows(value: Value) -> bool:
    """True iff a value is one image of several rows that the plan computes."""
    shape = value.type.shape
    return not value.is_constant and len(shape) == 4 and shape[0] == 1 and shape[1] > 1


def _redirect(rw: Rewriter, value: Value, rows: Value) -> None:
    """Every reader of `value` but the one that makes `rows` reads `rows`."""
    for node in dict.fromkeys(use.node for use in value.uses if use.node is not rows.producer):
        rw.set_operands(node, [rows if operand is value else operand for operand in node.inputs])


def _no_rows(what: str, values: list[Value]) -> Unsupported:
    types = ", ".join(f"%{v.name}: {v.type}" for v in values)
    return Unsupported(f"no {what} is one image of several rows ({types})", hint=f"leave out --{what}-rows")
