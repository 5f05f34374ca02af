"""How many bytes are in use at each step of a layer-by-layer execution, for a given order and sharing."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.analysis.storage import StorageMap
from trivet.core.record import dataclass
from trivet.ir.graph import Node


@dataclass(frozen=True, slots=True)
class Moment:
    """One step: the node, the bytes in use while it runs, and the storages that they belong to."""

    node: Node
    live_bytes: int
    storages: tuple[int, ...]


def timeline(nodes: Sequence[Node], shared: StorageMap) -> list[Moment]:
    """One moment for every node that runs, `shared` being made from the same order, layer by layer.

    An operator's operands and results are in use together.
    """
    moments = []
    for step, node in enumerate(nodes):
        if id(node) in shared.idle:
            continue
        live = tuple(i for i, storage in enumerate(shared.storages) if storage.lifetime.covers(step))
        moments.append(Moment(node, sum(shared.storages[i].size_bytes for i in live), live))
    return moments


def peak(moments: Sequence[Moment]) -> int:
    """The most bytes in use at one step, without regard to alignment, scratch and fragmentation."""
    return max((moment.live_bytes for moment in moments), default=0)
