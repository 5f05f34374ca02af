"""The order in which a body's operators run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from trivet.errors import InvalidModel
from trivet.frontends.onnx.model import Body, ForeignNode


def execution_order(body: Body, known: Collection[str], path: Path) -> list[ForeignNode]:
    """Operators that the outputs need: depth-first post-order from the outputs, the last operand's producers first.

    Tensors are consumed soon after they are made, and the file's own order does not matter.
    `known` are names that are defined already: inputs, initializers, captures.
    Raises: InvalidModel (a name that nothing defines, or a cycle).
    """
    producers = {name: node for node in body.nodes for name in node.outputs if name and name not in known}
    order: list[ForeignNode] = []
    done: set[int] = set()
    open_nodes: set[int] = set()
    stack: list[tuple[ForeignNode, list[str]]] = []

    def visit(name: str, reader: str) -> None:
        if name in known:
            return
        node = producers.get(name)
        if node is None:
            raise InvalidModel(f"{reader} reads '{name}', which nothing defines", where=path)
        if node.index in open_nodes:
            raise InvalidModel(f"'{name}' depends on itself", where=path)
        if node.index not in done:
            open_nodes.add(node.index)
            stack.append((node, list(node.reads())))

    for port in body.outputs:
        visit(port.name, "the graph's output list")
        while stack:
            node, pending = stack[-1]
            if pending:
                visit(pending.pop(), f"operator {node.index} {node.kind}")
            else:
                stack.pop()
                open_nodes.remove(node.index)
                done.add(node.index)
                order.append(node)
    return order
