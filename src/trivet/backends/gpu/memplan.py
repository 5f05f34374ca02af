"""Where every value lies in global memory: one word an element, addresses by the planner's own allocator."""

from __future__ import annotations

import numpy as np

from trivet.backends.gpu.kernels import RECIPES
from trivet.backends.gpu.recipe import Addresses, Recipe, Words
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node, Value
from trivet.planning.memory.exact import exact
from trivet.planning.memory.problem import Block, Problem
from trivet.planning.plan import Region

_MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Words of global memory from `address` on, in use from kernel `birth` to kernel `death`; -1: before the first."""

    name: str
    address: int
    words: int
    birth: int
    death: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`buffers` in order of birth; `constants` with the buffers they fill; `roots` maps id(value) to a buffer index."""

    buffers: tuple[Buffer, ...]
    constants: tuple[tuple[int, Words], ...]
    roots: dict[int, int]
    tables: dict[int, tuple[int, ...]]

    @property
    def words(self) -> int:
        """What the program needs of memory."""
        return max((b.address + b.words for b in self.buffers), default=0)

    def of(self, value: Value) -> Buffer:
        return self.buffers[self.roots[id(value)]]

    def addresses(self, node: Node, recipe: Recipe) -> Addresses:
        operands = tuple(self.of(value).address for value in recipe.operands)
        tables = tuple(self.buffers[index].address for index in self.tables[id(node)])
        return Addresses(operands, tables, self.of(node.output).address)


def recipes(graph: Graph) -> list[tuple[Node, Recipe]]:
    """The nodes that become kernels; views have nothing to do. All must be legal."""
    found = []
    for node in graph.nodes:
        if node.op.views_input:
            continue
        recipe = RECIPES.select(node)
        assert recipe is not None, f"{node!r} is not legal for the gpu"
        found.append((node, recipe))
    return found


def conservative_words(graph: Graph) -> int:
    """Words without any reuse: if these fit, every plan does."""
    values = [*graph.inputs, *graph.constants(), *(v for node in graph.nodes for v in node.outputs)]
    tables = [table.size for node in graph.nodes if (r := RECIPES.select(node)) is not None for table in r.constants]
    return sum(value.type.elements for value in values) + sum(tables)


def plan_memory(graph: Graph) -> MemoryPlan:
    """Addresses such that no two values in use at the same time overlap. Constants stay for ever."""
    return _Planner(graph).plan()


class _Planner:
    """Collects one block for each input, constant, table and result; views share their operand's."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.recipes = recipes(graph)
        self.end = len(self.recipes)
        self.blocks: list[tuple[str, int, int, int]] = []
        self.roots: dict[int, int] = {}
        self.constants: list[tuple[int, Words]] = []
        self.known: dict[bytes, int] = {}

    def plan(self) -> MemoryPlan:
        for value in self.graph.inputs:
            self.roots[id(value)] = self._block(value.name, value.type.elements, -1, -1)
        for value in (*self.graph.results(), *(v for _, recipe in self.recipes for v in recipe.operands)):
            if value.data is not None:
                self.roots[id(value)] = self._constant(value.name, value.data.astype(np.int64).ravel())
        tables = self._results()
        for value in self.graph.results():
            self._use(value, self.end)
        blocks = tuple(Block(name, size, birth, death) for name, size, birth, death in self.blocks)
        placement = exact(Problem(blocks, (Region(_MEMORY, None, alignment=1),)))
        pairs = zip(self.blocks, placement.spots, strict=True)
        buffers = tuple(Buffer(name, spot.offset, size, birth, death) for (name, size, birth, death), spot in pairs)
        return MemoryPlan(buffers, tuple(self.constants), self.roots, tables)

    def _results(self) -> dict[int, tuple[int, ...]]:
        order = {id(node): index for index, (node, _) in enumerate(self.recipes)}
        tables = {}
        by_node = {id(node): recipe for node, recipe in self.recipes}
        for node in self.graph.nodes:
            if node.op.views_input:
                source = node.inputs[0]
                if source.data is not None:
                    self.roots[id(source)] = self._constant(source.name, source.data.astype(np.int64).ravel())
                self.roots[id(node.output)] = self.roots[id(source)]
                continue
            time, recipe = order[id(node)], by_node[id(node)]
            tables[id(node)] = tuple(self._constant(f"table of {node.output.name}", t) for t in recipe.constants)
            for value in recipe.operands:
                self._use(value, time)
            self.roots[id(node.output)] = self._block(node.output.name, node.output.type.elements, time, time)
        return tables

    def _block(self, name: str, words: int, birth: int, death: int) -> int:
        self.blocks.append((name, words, birth, death))
        return len(self.blocks) - 1

    def _constant(self, name: str, words: Words) -> int:
        """Equal constants lie in one place."""
        key = words.tobytes()
        if key not in self.known:
            self.known[key] = self._block(name, words.size, -1, self.end)
            self.constants.append((self.known[key], words))
        return self.known[key]

    def _use(self, value: Value, time: int) -> None:
        index = self.roots[id(value)]
        name, words, birth, death = self.blocks[index]
        self.blocks[index] = (name, words, birth, max(death, time))


def initial_memory(plan: MemoryPlan, words: int | None = None) -> Words:
    """Memory with all constants in place."""
    memory = np.zeros(plan.words if words is None else words, np.int64)
    for index, data in plan.constants:
        buffer = plan.buffers[index]
        memory[buffer.address : buffer.address + buffer.words] = data
    return memory
