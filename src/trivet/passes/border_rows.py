"""Inputs that the caller gives row by row, outputs that it takes row by row."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.dtype import I8
from trivet.core.record import dataclass
from trivet.errors import Unsupported
from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.border import Receive, Send
from trivet.ops.matmul import Dense
from trivet.ops.movement import Reshape
from trivet.passes.base import Pass

CHUNKS = (8, 4)
"""Features of a vector's chunk: the first that divides it. Firings take several where there is memory for them."""


@dataclass(frozen=True, slots=True)
class BorderRows(Pass):
    """op(%input)  -->  op(receive(%input));  return %y  -->  return send(%y), for what has several rows.

    A vector that a dense layer takes or gives goes in chunks, as rows of a map:
    dense(%input)  -->  dense(reshape(receive{chunks}(%input))).
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
        found = [(i, v) for i, (v, port) in enumerate(pairs) if _comes_by_rows(v) and port.accepts is None]
        if not found:
            raise _no_rows("input", rw.graph.inputs)
        for index, value in found:
            first = next((use.node for node in rw.graph.nodes for use in value.uses if use.node is node), None)
            if first is not None and not any(isinstance(use.node.op, Receive) for use in value.uses):
                chunks = chunks_taken(value)
                rows = rw.insert_before(first, Receive(index, chunks), (value,), f"{value.name}_rows")
                receive = rows.producer
                assert receive is not None
                if chunks:
                    rows = rw.insert_after(receive, Reshape(value.type.shape), (rows,), f"{value.name}_flat")
                _redirect(rw, value, rows, receive)
                rw.count("input")

    def _send(self, rw: Rewriter) -> None:
        graph = rw.graph
        found = [(i, v) for i, v in enumerate(graph.outputs) if _goes_by_rows(v)]
        if not found:
            raise _no_rows("output", graph.outputs)
        for index, value in found:
            producer = value.producer
            if producer is None or isinstance(producer.op, Send):
                continue
            name, chunks, rows = value.name, chunks_given(value), value
            rw.rename(value, f"{name}_rows")
            if chunks:
                shape = (1, chunks, 1, value.type.elements // chunks)
                rows = rw.insert_after(producer, Reshape(shape), (value,), f"{name}_chunks")
            assert rows.producer is not None
            rw.give_out(index, rw.insert_after(rows.producer, Send(index, chunks), (rows,), name))
            rw.count("output")


def has_rows(value: Value) -> bool:
    """True iff a value is one image of several rows that the plan computes."""
    shape = value.type.shape
    return not value.is_constant and len(shape) == 4 and shape[0] == 1 and shape[1] > 1


def _comes_by_rows(value: Value) -> bool:
    is_received = any(isinstance(use.node.op, Receive) for use in value.uses)
    return is_received or has_rows(value) or chunks_taken(value) > 0


def _goes_by_rows(output: Value) -> bool:
    is_sent = output.producer is not None and isinstance(output.producer.op, Send)
    return is_sent or (has_rows(output) and output.producer is not None) or chunks_given(output) > 0


def chunks_taken(value: Value) -> int:
    """How many chunks an input goes in that dense layers alone read; 0: it goes in none."""
    is_taken = bool(value.uses) and all(use.index == 0 and _is_dense(use.node) for use in value.uses)
    return _chunks(value) if is_taken else 0


def chunks_given(value: Value) -> int:
    """How many chunks an output goes in that a dense layer makes and nobody reads; 0: it goes in none."""
    is_given = value.producer is not None and not value.uses and _is_dense(value.producer)
    return _chunks(value) if is_given else 0


def _chunks(value: Value) -> int:
    features = value.type.elements
    is_vector = value.type.rank == 2 and value.type.shape[0] == 1 and value.type.dtype is I8
    size = next((size for size in CHUNKS if features % size == 0 and features > size), 0)
    return features // size if is_vector and size else 0


def _is_dense(node: Node) -> bool:
    return isinstance(node.op, Dense) and all(value.is_constant for value in node.inputs[1:])


def _redirect(rw: Rewriter, value: Value, rows: Value, receive: Node) -> None:
    """Every reader of `value` but the one that receives it reads `rows`."""
    for node in dict.fromkeys(use.node for use in value.uses if use.node is not receive):
        rw.set_operands(node, [rows if operand is value else operand for operand in node.inputs])


def _no_rows(what: str, values: list[Value]) -> Unsupported:
    types = ", ".join(f"%{v.name}: {v.type}" for v in values)
    return Unsupported(
        f"no {what} is one image of several rows, or a vector of a dense layer with a multiple of {CHUNKS[-1]} "
        f"features ({types})",
        hint=f"leave out --{what}-rows",
    )
