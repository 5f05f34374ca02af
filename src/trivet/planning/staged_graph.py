"""From a choice of stages to a layout: a graph of its own with the copies between the memories in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from trivet.analysis.storage import Sharing
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, State, Value
from trivet.ops.movement import Copy
from trivet.planning.choice import Choice
from trivet.planning.chosen import chosen_layout
from trivet.planning.layout import Layout
from trivet.planning.plan import KernelNeeds
from trivet.planning.spilling import Way
from trivet.planning.stages import ANY, Cut
from trivet.planning.streams import Candidate, StreamModel


@dataclass(frozen=True, slots=True)
class Run:
    """Nodes that run together, by rows or one node at once; `starts`: a stage starts with them."""

    nodes: tuple[Node, ...]
    by_rows: bool
    pixels: int
    starts: bool


@dataclass(slots=True)
class StagedGraph:
    """A copy of a graph with its nodes in the order of the runs, and the values that are in slow memory."""

    graph: Graph
    runs: list[Run] = field(default_factory=list)
    slow: set[int] = field(default_factory=set)


def staged_graph(model: StreamModel, cut: Cut) -> StagedGraph:
    """The model's graph as the ways of a choice run it."""
    return _Copier(model).copy(cut)


def staged_layouts(staged: StagedGraph, needs: KernelNeeds, alignment: int, keep_inputs: bool) -> tuple[Layout, ...]:
    """The layouts that differ in whether parts of tensors are used in place."""
    slow = frozenset(staged.slow)
    model = StreamModel(staged.graph, staged.graph.nodes, needs, alignment, keep_inputs, slow)
    place = {id(node): position for position, node in enumerate(model.working)}
    candidates, starts = list[Candidate](), set[int]()
    for run in staged.runs:
        positions = [place[id(node)] for node in run.nodes if id(node) in place]
        if not positions:
            continue
        if run.starts and candidates:
            starts.add(id(model.working[positions[0]]))
        candidates.append(_candidate(model, positions[0], positions[-1] + 1, run))
    choice = Choice(tuple(candidates), 0)
    layouts = []
    for parts in (True, False):
        sharing = Sharing(parts=parts, keep_inputs=keep_inputs, overwriting=model.overwriting, slow=slow)
        layouts.append(chosen_layout(model, choice, sharing).in_stages(frozenset(starts), slow))
    return tuple(layouts[1:] if layouts[0].shared.idle == layouts[1].shared.idle else layouts)


def _candidate(model: StreamModel, start: int, stop: int, run: Run) -> Candidate:
    if not run.by_rows:
        assert stop == start + 1
        return model.whole(start)
    found = model.stream(start, stop, ANY, run.pixels)
    assert found is not None
    return found


class _Copier:
    """Copies node after node; `place` says where later nodes find a value, `inner` where those of the range do."""

    def __init__(self, model: StreamModel) -> None:
        self.model = model
        self.staged = StagedGraph(Graph(model.graph.name))
        self.place: dict[int, Value] = {}
        self.inner: dict[int, Value] = {}

    def copy(self, cut: Cut) -> StagedGraph:
        graph, new, model = self.model.graph, self.staged.graph, self.model
        for value, port in zip(graph.inputs, graph.input_ports, strict=True):
            self.place[id(value)] = new.add_input(value.name, value.type, port)
            self._set_slow(self.place[id(value)], model.held[self._storage(value)].size_bytes > 0)
        for state in graph.states:
            self.place[id(state.read)] = new.add_state(state.read.name, state.read.type, state.initial)
            self._set_slow(self.place[id(state.read)], not cut.states_fast)
        taken, stops = 0, {id(node): index for index, node in enumerate(model.nodes)}
        for way in cut.ways:
            first, last = (stops[id(model.working[p])] for p in (way.start, way.stop - 1))
            for node in model.nodes[taken:first]:
                self._copy_idle(node)
            self._copy_way(way, model.nodes[first : last + 1])
            taken = last + 1
        for node in model.nodes[taken:]:
            self._copy_idle(node)
        for value, port in zip(graph.outputs, graph.output_ports, strict=True):
            new.add_output(self._find(value), port)
        pairs = zip(new.states, graph.states, strict=True)
        new.states[:] = [State(made.read, self._find(state.written), state.initial) for made, state in pairs]
        return self.staged

    def _storage(self, value: Value) -> int:
        return self.model.shared.places[id(value)].storage

    def _set_slow(self, value: Value, is_slow: bool) -> None:
        if is_slow:
            self.staged.slow.add(id(value))

    def _find(self, value: Value) -> Value:
        if value.data is not None and id(value) not in self.place:
            self.place[id(value)] = Value(value.type, value.name, value.data, defined=value.defined)
        return self.place[id(value)]

    def _append(self, node: Node) -> Node:
        """The node on what later nodes find, or on what the range has of it."""
        inputs = [self.inner.get(id(v)) or self._find(v) for v in node.inputs]
        return self._add(node, inputs)

    def _add(self, node: Node, inputs: Sequence[Value]) -> Node:
        made = self.staged.graph.append(node.op, inputs, [v.name for v in node.outputs], node.loc)
        for value, new in zip(node.outputs, made.outputs, strict=True):
            new.type = value.type
            self.place[id(value)] = new
        return made

    def _copy_idle(self, node: Node) -> Node:
        """A view lies where its operand lies for later nodes."""
        made = self._add(node, [self._find(v) for v in node.inputs])
        for value in made.outputs:
            self._set_slow(value, id(made.inputs[0]) in self.staged.slow)
        return made

    def _move(self, value: Value, name: str) -> Node:
        return self.staged.graph.append(Copy(), (value,), (name,))

    def _copy_way(self, way: Way, nodes: Sequence[Node]) -> None:
        run: list[Node] = []
        starts = self._reads_slow(nodes)
        for node in nodes:
            if id(node) in self.model.shared.idle:
                run.append(self._copy_idle(node))
                continue
            for load in self._loads(way, node):
                if way.by_rows:
                    run.append(load)
                else:
                    self.staged.runs.append(Run((load,), False, 1, starts))
                    starts = False
            made = self._append(node)
            run.append(made)
            for value, new in zip(node.outputs, made.outputs, strict=True):
                run += self._store(way, value, new)
        self.staged.runs.append(Run(tuple(run), way.by_rows, way.pixels, starts))
        self.inner = {}

    def _reads_slow(self, nodes: Sequence[Node]) -> bool:
        """True iff something comes from slow memory that is no input: a stage starts."""
        inputs = {id(v) for v in self.staged.graph.inputs}
        found = (self.place.get(id(v)) for node in nodes for v in node.inputs)
        return any(v is not None and id(v) in self.staged.slow and id(v) not in inputs for v in found)

    def _loads(self, way: Way, node: Node) -> list[Node]:
        """Copies of slow operands that the node is the first of its range to read."""
        copies = []
        for value in node.inputs:
            if value.is_constant or id(value) in self.inner:
                continue
            storage = self._storage(value)
            if storage not in way.rings and storage not in way.loads:
                continue
            copy = self._move(self._find(value), f"{value.name}.loaded")
            self.inner[id(value)] = copy.output
            if storage in way.kept:
                self.place[id(value)] = copy.output
            copies.append(copy)
        return copies

    def _store(self, way: Way, value: Value, made: Value) -> list[Node]:
        """What follows a node whose result goes to slow memory."""
        storage = self._storage(value)
        if storage not in way.slow:
            return []
        if storage not in way.stored:
            self._set_slow(made, True)
            return []
        copy = self._move(made, f"{value.name}.stored")
        self.inner[id(value)], self.place[id(value)] = made, copy.output
        self._set_slow(copy.output, True)
        return [copy]
