"""From a choice of streams, which prices ranges of the order, to a layout, which says what shares memory."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.analysis.storage import Sharing, StorageMap, share_storage
from trivet.ir.graph import Node
from trivet.planning.blocks import Fusion
from trivet.planning.choice import Choice
from trivet.planning.layout import Layout, RowStream
from trivet.planning.plan import Overlap
from trivet.planning.rows import stream_tasks
from trivet.planning.streams import Candidate, StreamModel

UNLIMITED = 1 << 40
"""Bytes that no plan needs."""


def chosen_layout(model: StreamModel, choice: Choice, sharing: Sharing) -> Layout:
    """The layout in which every candidate is a run; candidates by rows execute as they were priced."""
    runs, streamed = _runs(model, choice)
    shared = share_storage(model.graph, runs, sharing)
    streams = {index: _row_stream(index, runs[index], candidate, shared) for index, candidate in streamed.items()}
    return Layout(model.graph, runs, shared, streams)


def with_blocks(model: StreamModel, choice: Choice) -> tuple[StreamModel, Choice]:
    """The model of the graph in which the groups of the choice are blocks, and the choice there."""
    groups = [group for candidate in choice.candidates for group in candidate.groups]
    if not groups:
        return model, choice
    graph = Fusion(model.graph, groups, model.needs).fused(model.nodes)
    fused = StreamModel(
        graph, graph.nodes, model.needs, model.alignment, model.keep_inputs, overwrite=bool(model.overwriting)
    )
    candidates, start = [], 0
    for candidate in choice.candidates:
        stop = start + candidate.stop - candidate.start - sum(len(group.nodes) - 1 for group in candidate.groups)
        found = fused.stream(start, stop, UNLIMITED, candidate.pixels) if candidate.by_rows else fused.whole(start)
        assert found is not None and found.size_bytes == candidate.size_bytes, "blocks cost what was priced"
        candidates.append(found)
        start = stop
    return fused, Choice(tuple(candidates), choice.size_bytes)


def _runs(model: StreamModel, choice: Choice) -> tuple[list[Sequence[Node]], dict[int, Candidate]]:
    """Nodes of each candidate, with views where they stand; views between candidates are runs of their own."""
    place = {id(node): index for index, node in enumerate(model.nodes)}
    runs: list[Sequence[Node]] = []
    streamed: dict[int, Candidate] = {}
    taken = 0
    for candidate in choice.candidates:
        first, last = (place[id(model.working[p])] for p in (candidate.start, candidate.stop - 1))
        runs += [(node,) for node in model.nodes[taken:first]]
        if candidate.by_rows:
            streamed[len(runs)] = candidate
        runs.append(model.nodes[first : last + 1])
        taken = last + 1
    runs += [(node,) for node in model.nodes[taken:]]
    return runs, streamed


def _row_stream(index: int, run: Sequence[Node], candidate: Candidate, shared: StorageMap) -> RowStream:
    tasks = stream_tasks(run, shared)
    heights = {task.storage: task.height for task in tasks}
    depths = {shared.places[name].storage: depth for name, depth in candidate.depths.items()}
    overlaps = tuple(
        Overlap(shared.places[lower].storage, shared.places[upper].storage, distance)
        for (lower, upper), distance in candidate.distances.items()
        if _may_overlap(index, shared, lower, upper)
    )
    rows = tuple(candidate.rows[id(task.node)] for task in tasks)
    return RowStream(tasks, rows, {s: depth for s, depth in depths.items() if depth < heights[s]}, overlaps)


def _may_overlap(index: int, shared: StorageMap, lower: int, upper: int) -> bool:
    """True iff sharing has left a priced overlap as it was.

    Both values must fill their storages, the lower one's must not exist before the run, the upper one's not after it.
    """
    out, dying = (shared.storages[shared.places[name].storage] for name in (lower, upper))
    is_passing_on = out.lifetime.birth == index == dying.lifetime.death
    return is_passing_on and out is not dying and _fills(shared, lower) and _fills(shared, upper)


def _fills(shared: StorageMap, name: int) -> bool:
    """True iff a value takes all of its storage."""
    storage = shared.storages[shared.places[name].storage]
    return any(id(value) == name and value.type.size_bytes == storage.size_bytes for value in storage.values)
