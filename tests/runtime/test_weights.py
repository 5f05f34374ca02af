"""Constants in place, copied to memory, and in compressed blocks: the same results, and hostile blocks are harmless."""

from __future__ import annotations

import ctypes
from functools import cache

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patches import STATUSES, Patch, Runtime, patched, section

from networks import CHECKOUT
from trivet import driver
from trivet.artifact import Artifact
from trivet.backends.plan import format as f
from trivet.backends.plan.host import library as host_library
from trivet.planning.options import Objective
from trivet.proof.soundness import violations

DIGITS = CHECKOUT / "examples" / "models" / "digits_int8.tflite"
GUARD = 0xA5


@cache
def compiled(fast_bytes: int | None = None, compress: bool = False, warm: bool = False) -> bytes:
    settings = driver.Settings(fast_bytes=fast_bytes, compress=compress, warm_weights=warm)
    return driver.build(driver.load(DIGITS, settings), settings).data


def streams(data: bytes) -> list[dict[str, int]]:
    offset, count = section(data, "streams")
    return [dict(f.STREAM.unpack(data, offset + i * f.STREAM.size_bytes)) for i in range(count)]


@pytest.mark.parametrize(("fast_bytes", "warm"), [(None, False), (2800, False), (2330, False), (None, True)])
def test_results_do_not_depend_on_where_weights_are(fast_bytes: int | None, warm: bool) -> None:
    plain, other = Artifact(compiled(fast_bytes)), Artifact(compiled(fast_bytes, not warm, warm))
    inputs = plain.random_inputs(1)
    for _ in range(2):
        assert all(np.array_equal(a, b) for a, b in zip(plain.run(inputs), other.run(inputs), strict=True))
    assert violations(other.data) == []
    assert other.high_water_bytes(inputs) == other.arena_bytes <= (fast_bytes or 1 << 20)


def test_the_reserved_prefix_is_the_largest_block_that_is_used() -> None:
    data = compiled(compress=True)
    reserved = f.HEADER.unpack(data)["reserved_bytes"]
    decoded = max(row["decoded_bytes"] for row in streams(data))
    assert 0 < decoded <= reserved < decoded + f.ALIGNMENT
    assert Artifact(data).arena_bytes == Artifact(compiled()).arena_bytes + reserved
    assert len(data) < len(compiled())


def test_a_tight_budget_leaves_large_blocks_in_place() -> None:
    largest = [max(row["decoded_bytes"] for row in streams(compiled(m, True))) for m in (None, 4096, 2800)]
    assert largest[0] >= largest[1] >= largest[2]
    settings = driver.Settings(objective=Objective.MEMORY)
    least = Artifact(driver.build(driver.load(DIGITS, settings), settings).data).arena_bytes
    assert Artifact(compiled(least, True)).arena_bytes <= least


def test_a_copy_of_the_constants_is_a_memory_of_its_own() -> None:
    plan = Artifact(compiled(warm=True)).plan
    assert [region.name for region in plan.regions][-1] == "weights"
    assert plan.regions[-1].size_bytes == plan.section_bytes["constants"]


def first_packed(data: bytes) -> int:
    return next(i for i, row in enumerate(streams(data)) if row["decoded_bytes"])


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        (lambda s: ("streams", s, "decoded_bytes", lambda old: old - 1), "ERR_BLOCK"),
        (lambda s: ("streams", s, "decoded_bytes", 1 << 24), "ERR_STREAM"),
        (lambda s: ("streams", s, "block", lambda old: old + 1), "ERR_BLOCK"),
        (lambda s: ("streams", s, "block_bytes", lambda old: old - 1), "ERR_BLOCK"),
        (lambda s: ("streams", s, "block_bytes", 1 << 24), "ERR_STREAM"),
        (lambda s: ("streams", s, "decoded_bytes", 0), "ERR_STREAM"),
        (lambda s: ("header", 0, "reserved_bytes", 0), "ERR_STREAM"),
        (lambda s: ("header", 0, "reserved_bytes", 1 << 24), "ERR_REGION"),
        (lambda s: ("header", 0, "reserved_bytes", lambda old: old + 64), "ERR_TENSOR"),
        (lambda s: ("header", 0, "warm_region", 0), "ERR_REGION"),
        (lambda s: ("header", 0, "warm_region", 1), "ERR_REGION"),
    ],
)
def test_the_loader_refuses_blocks_that_do_not_fit(patch, status: str, library: ctypes.CDLL) -> None:
    data = compiled(compress=True)
    changed: Patch = patch(first_packed(data))
    found = Runtime(library).status(patched(data, changed))
    assert found == status or (status == "ERR_BLOCK" and found == "ERR_PARAMS")


def test_a_copy_needs_a_memory_that_holds_it(library: ctypes.CDLL) -> None:
    data = compiled(warm=True)
    assert Runtime(library).status(data) == "OK"
    assert Runtime(library).status(patched(data, ("regions", 1, "size_bytes", lambda old: old - 16))) == "ERR_REGION"


def decoded(block: bytes, size: int) -> tuple[str, bytes]:
    """The decoder's status and result; bytes around the result must stay as they are."""
    memory = np.full(size + 64, GUARD, np.uint8)
    source = np.frombuffer(block + b"\0", np.uint8)
    places = (ctypes.c_void_p(source.ctypes.data), len(block), ctypes.c_void_p(memory.ctypes.data + 32), size)
    status = STATUSES[host_library().trivet_lz4_decode(*places)]
    assert (memory[:32] == GUARD).all() and (memory[32 + size :] == GUARD).all()
    return status, memory[32 : 32 + size].tobytes()


@given(st.binary(max_size=600) | st.lists(st.sampled_from([b"ab", b"\0" * 40, b"xyz"]), max_size=200).map(b"".join))
def test_blocks_of_the_reference_compressor_are_decoded(data: bytes) -> None:
    block = lz4.block.compress(data, store_size=False)
    assert decoded(block, len(data)) == ("OK", data)
    if data:
        assert decoded(block, len(data) - 1)[0] == "ERR_BLOCK"
    assert decoded(block, len(data) + 1)[0] == "ERR_BLOCK"
    assert decoded(block[:-1], len(data))[0] == "ERR_BLOCK" or not data


@given(st.binary(max_size=80), st.integers(0, 300))
def test_no_block_writes_outside_of_its_place(block: bytes, size: int) -> None:
    status, result = decoded(block, size)
    assert status in ("OK", "ERR_BLOCK")
    if status == "OK" and block:
        assert lz4.block.decompress(block, uncompressed_size=size) == result
