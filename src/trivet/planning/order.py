"""Which topological order of the nodes needs the least memory, layer by layer.

The graph is cut at articulation nodes: those that every other node comes before or after. All orders pass through the
same state there, so the parts are independent. A part with few downsets is solved exactly, by dynamic programming over
them (the state after a downset does not depend on the order in which it ran); other parts keep the best of a few
depth-first orders.
"""

from __future__ import annotations

from collections.abc import Sequence

from trivet.analysis.liveness import layer_by_layer
from trivet.analysis.storage import Sharing, StorageMap, share_storage
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Node

MAX_STATES = 20_000
"""Downsets that the exact search visits in one part before it gives up."""


@dataclass(frozen=True, slots=True)
class Order:
    """Nodes in an order with its peak: bytes of tensors in use, reshapes shared, nothing else shared.

    `lower_bound` holds for every order; `proved` says that no order has a lower peak.
    """

    nodes: tuple[Node, ...]
    peak_bytes: int
    lower_bound: int

    @property
    def proved(self) -> bool:
        return self.peak_bytes == self.lower_bound

    def __str__(self) -> str:
        least = "no order needs less" if self.proved else f"no order needs less than {self.lower_bound:,}"
        return f"{self.peak_bytes:,} bytes of tensors at the peak, {least}"


def find_order(graph: Graph, max_states: int = MAX_STATES) -> Order:
    """The order with the lowest peak that was found; the graph's own where none is lower."""
    model = _Model.of(graph)
    start = state = _State(0, model.live_bytes(0), 0)
    order: list[int] = []
    bound = 0
    for part in _parts(model):
        found, part_bound = _best_in_part(model, state, part, max_states)
        state = model.run_all(state, found)
        order += found
        bound = max(bound, part_bound)
    own = list(range(len(graph.nodes)))
    peak, own_peak = state.peak, model.run_all(start, own).peak
    if own_peak <= peak:
        order, peak = own, own_peak
    return Order(tuple(graph.nodes[i] for i in order), peak, min(bound, peak))


@dataclass(frozen=True, slots=True)
class _State:
    """Which nodes have run, the bytes in use after them, and the most that were in use at one time."""

    done: int
    live: int
    peak: int


@dataclass(frozen=True, slots=True)
class _Model:
    """Nodes as bits: what each needs before it, and which items of memory it touches.

    Item k takes sizes[k] bytes from the first node of touchers[k] on (or from the start) to the last (or to the end).
    """

    size: int
    before: tuple[int, ...]
    touches: tuple[tuple[int, ...], ...]
    touchers: tuple[int, ...]
    sizes: tuple[int, ...]
    from_start: tuple[bool, ...]
    to_end: tuple[bool, ...]

    @staticmethod
    def of(graph: Graph) -> _Model:
        nodes = graph.nodes
        shared = share_storage(graph, layer_by_layer(nodes), Sharing(in_place=False, parts=False))
        position = {id(node): i for i, node in enumerate(nodes)}
        touches = tuple(_touched(node, shared) for node in nodes)
        touchers = [0] * len(shared.storages)
        before = []
        for i, node in enumerate(nodes):
            for item in touches[i]:
                touchers[item] |= 1 << i
            producers = {position[id(v.producer)] for v in node.inputs if v.producer is not None}
            before.append(sum(1 << p for p in producers))
        return _Model(
            size=len(nodes),
            before=tuple(before),
            touches=touches,
            touchers=tuple(touchers),
            sizes=tuple(s.held_bytes for s in shared.storages),
            from_start=tuple(s.lifetime.birth < 0 for s in shared.storages),
            to_end=tuple(s.lifetime.death >= len(nodes) for s in shared.storages),
        )

    def is_live(self, item: int, done: int) -> bool:
        """True iff an item holds something when exactly the nodes of `done` have run."""
        touched = done & self.touchers[item]
        return (self.from_start[item] or touched != 0) and (self.to_end[item] or touched != self.touchers[item])

    def live_bytes(self, done: int) -> int:
        return sum(size for item, size in enumerate(self.sizes) if self.is_live(item, done))

    def run(self, state: _State, node: int) -> _State:
        done = state.done | 1 << node
        during = state.live + sum(self.sizes[k] for k in self.touches[node] if not self.is_live(k, state.done))
        freed = sum(self.sizes[k] for k in self.touches[node] if not self.is_live(k, done))
        return _State(done, during - freed, max(state.peak, during))

    def run_all(self, state: _State, order: Sequence[int]) -> _State:
        for node in order:
            state = self.run(state, node)
        return state


def _touched(node: Node, shared: StorageMap) -> tuple[int, ...]:
    values = (*(v for v in node.inputs if not v.is_constant), *node.outputs)
    return tuple(sorted({shared.places[id(v)].storage for v in values}))


def _parts(model: _Model) -> list[list[int]]:
    """Nodes in runs that end at articulation nodes, each in topological order."""
    ancestors = [0] * model.size
    descendants = [0] * model.size
    for i in range(model.size):
        ancestors[i] = model.before[i]
        for p in _bits(model.before[i]):
            ancestors[i] |= ancestors[p]
    for i in reversed(range(model.size)):
        for p in _bits(model.before[i]):
            descendants[p] |= descendants[i] | 1 << i
    everything = (1 << model.size) - 1
    parts, taken = [], 0
    for i in range(model.size):
        if ancestors[i] | descendants[i] | 1 << i == everything:
            upto = ancestors[i] | 1 << i
            parts.append(list(_bits(upto & ~taken)))
            taken |= upto
    if taken != everything:
        parts.append(list(_bits(everything & ~taken)))
    return parts


def _best_in_part(model: _Model, state: _State, part: list[int], max_states: int) -> tuple[list[int], int]:
    """An order of a part that starts in `state`, and a lower bound of its peak."""
    state = _State(state.done, state.live, 0)
    if len(part) == 1:
        return part, model.run_all(state, part).peak
    exact = _by_downsets(model, state, part, max_states)
    if exact is not None:
        return exact, model.run_all(state, exact).peak
    candidates = [part, _depth_first(model, part, False), _depth_first(model, part, True)]
    bound = max(sum(model.sizes[k] for k in model.touches[i]) for i in part)
    return min(candidates, key=lambda order: model.run_all(state, order).peak), bound


def _by_downsets(model: _Model, start: _State, part: list[int], max_states: int) -> list[int] | None:
    """The best order of a part, or None when it has more downsets than `max_states`."""
    layer = {start.done: start}
    came: dict[int, int] = {}
    visited = 0
    for _ in part:
        following: dict[int, _State] = {}
        for state in layer.values():
            for node in part:
                if state.done >> node & 1 or model.before[node] & ~state.done:
                    continue
                after = model.run(state, node)
                if after.done not in following or after.peak < following[after.done].peak:
                    following[after.done] = after
                    came[after.done] = node
        layer = following
        visited += len(layer)
        if visited > max_states:
            return None
    order, done = [], next(iter(layer))
    while done != start.done:
        order.append(came[done])
        done ^= 1 << came[done]
    return order[::-1]


def _depth_first(model: _Model, part: list[int], reverse: bool) -> list[int]:
    """Depth-first post-order from the part's last nodes, operands in their order or reversed."""
    members = set(part)
    order: list[int] = []
    seen: set[int] = set()
    for root in reversed(part) if reverse else part:
        stack = [(root, False)]
        while stack:
            node, is_expanded = stack.pop()
            if is_expanded:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                operands = [p for p in _bits(model.before[node]) if p in members and p not in seen]
                stack += [(p, False) for p in (operands if reverse else reversed(operands))]
    return order


def _bits(mask: int) -> list[int]:
    """Indices of the bits that are set, rising."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
