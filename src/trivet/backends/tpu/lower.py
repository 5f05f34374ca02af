"""From a legal graph to a program: every node's layers, in the graph's order."""

from __future__ import annotations

from trivet.backends.tpu.ir import ELEMENTS, Program
from trivet.backends.tpu.lowering.builder import LOWERINGS, Builder, Lower
from trivet.backends.tpu.machine import Machine
from trivet.errors import CompileError, Problems, Unsupported
from trivet.ir.graph import Graph, Node, Value


def lower(graph: Graph, machine: Machine) -> Program:
    """The program of a graph that `check` accepts: windows of N rows, nothing reordered, every buffer its own bytes.

    Raises: Problems naming every operator that the machine does not run.
    """
    emits = check(graph)
    builder = Builder(machine, graph.name)
    for value in graph.inputs:
        builder.define(value)
    states = [(state, builder.define_state(state)) for state in graph.states]
    for emit in emits:
        emit(builder)
    for value in graph.outputs:
        builder.detach_from_states(value)
    for state, buffer in states:
        builder.keep_state(state, buffer)
    program = builder.finish(graph)
    return program.with_layers(program.layers)


def check(graph: Graph) -> list[Lower]:
    """The lowering of every node.

    Raises: Problems naming every operator, input and state that the machine does not run.
    """
    problems: list[CompileError] = []
    emits: list[Lower] = []
    reads = {id(state.read) for state in graph.states}
    for state in graph.states:
        if id(state.written) in reads and state.written is not state.read:
            problems.append(Unsupported(f"%{state.read.name} takes over another state, %{state.written.name}"))
    states = [state.read for state in graph.states]
    for value in (*graph.inputs, *states, *(v for v in graph.outputs if v.is_constant)):
        if value.type.dtype.name not in ELEMENTS:
            problems.append(_wrong_element(value))
    for node in graph.nodes:
        try:
            emits.append(lowering_of(node))
        except CompileError as error:
            problems.append(error)
    if problems:
        raise Problems(f"{graph.name} on the TPU", problems)
    return emits


def _wrong_element(value: Value) -> CompileError:
    names = ", ".join(ELEMENTS)
    return Unsupported(f"{value.said} is {value.type}: the activation memory holds {names}", where=value.loc)


def lowering_of(node: Node) -> Lower:
    """Raises: Unsupported."""
    emit = LOWERINGS.select(node)
    if emit is None:
        reason = LOWERINGS.refusal(type(node.op)) or "neither the array nor the vector unit nor the scalar unit runs it"
        raise Unsupported(f"{node.op.name}: {reason}", where=node.loc or f"%{node.outputs[0].name}")
    return emit
