"""Where the kernels of a plan read their constants: in place (flash), in a copy in memory, or decoded from LZ4 blocks.

A block holds the constants of one stream. It is decoded to the start of the arena before the stream runs, so as many
bytes are reserved there as the largest block that is used decodes to. Constants that do not get smaller stay in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trivet.backends.plan import format as f
from trivet.backends.plan.pool import ConstantPool, pack_params
from trivet.backends.plan.selection import Selection
from trivet.backends.records import align
from trivet.core.late import late
from trivet.core.record import dataclass
from trivet.planning.plan import ExecutionPlan

if TYPE_CHECKING:
    from lz4 import block as lz4
else:
    lz4 = late("lz4.block")

WARM = "weights"
"""The name of the region that holds a copy of the constants."""


@dataclass(frozen=True, slots=True)
class Weights:
    """`packed_streams`: numbers of streams, counted over all stages, whose constants are a block."""

    packed_streams: frozenset[int] = frozenset()
    reserved_bytes: int = 0
    is_warm: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The constants of a stream: their size, and that of the block."""

    stream: int
    decoded_bytes: int
    block_bytes: int


def packed(data: bytes) -> bytes:
    """An LZ4 block."""
    return bytes(lz4.compress(data, mode="high_compression", compression=12, store_size=False))


def pack_weights(plan: ExecutionPlan, selection: Selection, limit: int | None) -> Weights:
    """Every block that saves bytes and decodes to at most `limit` of them."""
    blocks = [b for b in _blocks(plan, selection) if b.block_bytes + f.ALIGNMENT <= b.decoded_bytes]
    alignment = max(f.ALIGNMENT, plan.memories[0].alignment)
    fitting = [b for b in blocks if limit is None or align(b.decoded_bytes, alignment) <= limit]
    reserved = align(max((b.decoded_bytes for b in fitting), default=0), alignment)
    return Weights(frozenset(b.stream for b in fitting), reserved)


def _blocks(plan: ExecutionPlan, selection: Selection) -> Iterator[Block]:
    streams = (stream for stage in plan.stages for stream in stage.streams)
    for number, stream in enumerate(streams):
        pool = ConstantPool()
        for step in stream.steps:
            pack_params(selection.call(step.node), pool)
        data = pool.bytes()
        if data:
            yield Block(number, len(data), len(packed(data)))
