"""Runs a graph with the operators' own meaning: the oracle that every pass, plan and backend is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trivet.core.interval import Interval
from trivet.errors import InvalidModel
from trivet.ir.graph import Graph, Node, Port, Value
from trivet.ir.op import Array

Observer = Callable[[Value, Array], None]
"""Called with every value and its array, inputs and constants left out."""


def run(
    graph: Graph,
    inputs: Sequence[Array],
    states: Sequence[Array] | None = None,
    observe: Observer | None = None,
) -> tuple[list[Array], list[Array]]:
    """Outputs and next states for `inputs` (storage order) and `states` (None: the initial ones)."""
    current = [state.initial for state in graph.states] if states is None else list(states)
    arrays: dict[int, Array] = {}
    for value, array in zip(graph.inputs, inputs, strict=True):
        check_array(value, array)
        arrays[id(value)] = array
    for state, array in zip(graph.states, current, strict=True):
        arrays[id(state.read)] = array
    for node in graph.nodes:
        for value, array in zip(node.outputs, run_node(node, arrays), strict=True):
            arrays[id(value)] = array
            if observe is not None:
                observe(value, array)
    outputs = [_lookup(arrays, value) for value in graph.outputs]
    return outputs, [_lookup(arrays, state.written) for state in graph.states]


def run_model(
    graph: Graph, inputs: Sequence[Array], states: Sequence[Array] | None = None, observe: Observer | None = None
) -> tuple[list[Array], list[Array]]:
    """Like `run`, with inputs and outputs in the source model's axis order.

    Raises: InvalidModel, where an input holds what its port does not accept.
    """
    for array, port in zip(inputs, graph.input_ports, strict=True):
        check_accepted(port.name, array, port.accepts)
    stored = [to_storage(array, port) for array, port in zip(inputs, graph.input_ports, strict=True)]
    outputs, next_states = run(graph, stored, states, observe)
    return [to_model(array, port) for array, port in zip(outputs, graph.output_ports, strict=True)], next_states


def to_storage(array: Array, port: Port) -> Array:
    """A model-order array in storage order."""
    return array if port.perm is None else np.ascontiguousarray(array.transpose(np.argsort(port.perm)))


def to_model(array: Array, port: Port) -> Array:
    """A storage-order array in the model's order."""
    return array if port.perm is None else np.ascontiguousarray(array.transpose(port.perm))


def check_accepted(name: str, array: Array, accepts: Interval | None) -> None:
    """An input, in the model's axis order, against what its port accepts (None: everything).

    Raises: InvalidModel with the first value outside.
    """
    if accepts is None:
        return
    outside = np.argwhere((array < accepts.lo) | (array > accepts.hi))
    if outside.size:
        index = tuple(int(i) for i in outside[0])
        raise InvalidModel(
            f"input '{name}' holds {array[index]} at {list(index)}, the program accepts [{accepts.lo}, {accepts.hi}]",
            hint="give smaller values, or compile with a wider --i32-range",
        )


def run_node(node: Node, arrays: dict[int, Array]) -> tuple[Array, ...]:
    """The results of one node, checked against its declared types."""
    results = node.op.evaluate(tuple(_lookup(arrays, v) for v in node.inputs), node.input_types)
    for value, array in zip(node.outputs, results, strict=True):
        check_array(value, array)
    return results


def check_array(value: Value, array: Array) -> None:
    """Assert that an array is what a value's type says."""
    expected = value.type
    assert array.shape == expected.shape and array.dtype == expected.dtype.numpy, (
        f"%{value.name} is {expected}, got {np.dtype(array.dtype).name}{list(array.shape)}"
    )


def _lookup(arrays: dict[int, Array], value: Value) -> Array:
    return value.data if value.data is not None else arrays[id(value)]
