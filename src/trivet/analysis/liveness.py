"""When each value is in use, for a given order of the nodes.

Time is counted in runs: nodes of one run execute interleaved, so what one of them touches is in use during the whole
run. Layer by layer, every node is a run of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value

Runs = Sequence[Sequence[Node]]


def layer_by_layer(nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
    """Every node a run of its own."""
    return [(node,) for node in nodes]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Runs `birth` to `death`, both included: from the run that produces a value to the last that reads it.

    What exists before the first run has birth -1; what must survive the last of n runs has death n.
    """

    birth: int
    death: int

    def covers(self, run: int) -> bool:
        return self.birth <= run <= self.death

    def __or__(self, other: Lifetime) -> Lifetime:
        """The shortest lifetime that contains both."""
        return Lifetime(min(self.birth, other.birth), max(self.death, other.death))


def activations(graph: Graph) -> Iterable[Value]:
    """Every value that needs memory at run time: inputs, states, results of nodes."""
    yield from graph.inputs
    yield from (state.read for state in graph.states)
    for node in graph.nodes:
        yield from node.outputs


def lifetimes(graph: Graph, runs: Runs) -> dict[int, Lifetime]:
    """The lifetime of every activation by id(value), when the runs, which hold all nodes, follow each other."""
    position = {id(node): index for index, run in enumerate(runs) for node in run}
    kept = {id(value) for value in graph.results()}
    found = {}
    for value in activations(graph):
        birth = -1 if value.producer is None else position[id(value.producer)]
        reads = [position[id(use.node)] for use in value.uses]
        found[id(value)] = Lifetime(birth, len(runs) if id(value) in kept else max(reads, default=birth))
    return found
