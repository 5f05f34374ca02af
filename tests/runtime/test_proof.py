"""The proof of a plan file: it accepts what the planner makes, and every damage that matters is found."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from patches import STATUSES, Patch, patched, record_of, section

from networks import CHECKOUT
from sketches import architectures
from sketches.graphs import int8_graph
from sketches.layers import Sketch
from trivet import driver
from trivet.backends.plan import format as f
from trivet.backends.plan.host import HostModel, aligned
from trivet.core.native import open_library
from trivet.errors import InvalidModel
from trivet.frontends.options import Loaded
from trivet.planning.options import Objective
from trivet.proof.soundness import violations

SKETCHES: dict[str, Callable[[], Sketch]] = {
    "mobilenet": lambda: architectures.mobilenet_v2(32, classes=10),
    "unet": lambda: architectures.unet(16, 4),
    "se": lambda: architectures.se_net(24),
    "dense": lambda: architectures.dense_blocks(8, 4, 2),
    "inception": lambda: architectures.inception(16),
    "audio": lambda: architectures.audio(200),
}


@cache
def compiled(name: str, objective: Objective = Objective.MEMORY) -> bytes:
    settings = driver.Settings(objective=objective)
    if name == "digits":
        loaded = driver.load(CHECKOUT / "examples" / "models" / "digits_int8.tflite", settings)
    else:
        loaded = Loaded(int8_graph(SKETCHES[name]()))
    return driver.build(loaded, settings).data


def records(data: bytes, name: str) -> list[dict[str, object]]:
    offset, count = section(data, name)
    record = record_of(name)
    return [dict(record.unpack(data, offset + i * record.size_bytes)) for i in range(count)]


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("name", [*SKETCHES, "digits"])
def test_plans_of_the_planner_are_sound(name: str, objective: Objective) -> None:
    assert violations(compiled(name, objective)) == []


def everywhere(data: bytes, index: int, field: str, value: int) -> list[Patch]:
    """The change of a place, in all records of tensors that lie there."""
    rows = records(data, "tensors")
    place = (rows[index]["region"], rows[index]["offset"], rows[index]["depth"])
    same = [i for i, row in enumerate(rows) if (row["region"], row["offset"], row["depth"]) == place]
    return [("tensors", i, field, value) for i in same]


def rings(data: bytes) -> list[int]:
    """Tensors that keep fewer rows than they have."""
    dims = [row["size"] for row in records(data, "dims")]
    found = []
    for index, row in enumerate(records(data, "tensors")):
        shape = dims[row["dims"] : row["dims"] + row["rank"]]
        if len(shape) == 4 and row["depth"] < shape[1]:
            found.append(index)
    return found


@pytest.mark.parametrize("name", ["digits", "mobilenet", "audio"])
def test_a_ring_with_a_row_less_is_found(name: str) -> None:
    """The planner's rings are as deep as needed and no deeper."""
    data = compiled(name)
    found = rings(data)
    assert found
    for index in found:
        depth = records(data, "tensors")[index]["depth"]
        if depth > 1:
            assert violations(patched(data, *everywhere(data, index, "depth", depth - 1))) != []


@pytest.mark.parametrize("name", ["mobilenet", "dense", "unet"])
def test_operands_that_lie_in_one_place_are_found(name: str) -> None:
    data = compiled(name, Objective.SPEED)
    operands, tensors = [row["tensor"] for row in records(data, "operands")], records(data, "tensors")
    pairs = [operands[row["operands"] : row["operands"] + 2] for row in records(data, "steps") if row["inputs"] == 2]
    apart = [(a, b) for a, b in pairs if tensors[a]["offset"] != tensors[b]["offset"]]
    assert apart
    for a, b in apart:
        assert violations(patched(data, *everywhere(data, a, "offset", tensors[b]["offset"]))) != []


def streamed(data: bytes) -> tuple[int, int, int]:
    """A stream of several steps: its number, its first step, how many it has."""
    rows = records(data, "streams")
    number = next(i for i, row in enumerate(rows) if row["counters"] != f.NONE)
    return number, rows[number]["first_step"], rows[number]["step_count"]


def window(data: bytes) -> int:
    """An edge within a stream that reads several rows."""
    rows = enumerate(records(data, "edges"))
    return next(e for e, row in rows if row["source"] != f.NO_SOURCE and row["taps"] > 1)


def operand_offset(data: bytes, step: int) -> int:
    """Where the first operand of a step lies."""
    tensor = records(data, "operands")[records(data, "steps")[step]["operands"]]["tensor"]
    return records(data, "tensors")[tensor]["offset"]


def with_work_space(data: bytes) -> int:
    return next(i for i, row in enumerate(records(data, "steps")) if row["scratch_offset"] != f.NONE and row["inputs"])


DAMAGE: dict[str, Callable[[bytes], Patch]] = {
    "the claimed memory is larger than what is used": lambda d: ("regions", 0, "size_bytes", lambda old: old + 16),
    "the claimed memory is smaller": lambda d: ("regions", 0, "size_bytes", lambda old: old - 1),
    "counters lie over an operand": lambda d: (
        "streams", streamed(d)[0], "counters", operand_offset(d, streamed(d)[1])
    ),
    "work space lies over an operand": lambda d: (
        "steps", with_work_space(d), "scratch_offset", operand_offset(d, with_work_space(d))
    ),
    "rows are read before they are made": lambda d: ("edges", window(d), "source", f.NO_SOURCE),
    "rows are read that are kept no more": lambda d: ("edges", window(d), "before", lambda old: old + 8),
    "the last rows are not made": lambda d: ("steps", streamed(d)[1], "firings", lambda old: old - 1),
    "a stream waits for itself": lambda d: ("edges", window(d), "source", streamed(d)[2] - 1),
}  # fmt: skip
"""One change of a plan that streams."""


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(what: str) -> None:
    data = compiled("mobilenet")
    assert violations(patched(data, DAMAGE[what](data))) != []


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(InvalidModel, match=r"no \.tgrs plan"):
        violations(b"TGRX" + bytes(200))


class OneByteMore:
    """A runtime whose runs write one byte behind what the plan claims."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.model: HostModel | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.library, name)

    def trivet_run(self, pointer: ctypes.c_void_p) -> int:
        assert self.model is not None
        self.model.memories[0][self.model.arena_bytes] = np.uint8(0x77)
        return int(self.library.trivet_run(pointer))


@pytest.mark.parametrize("name", ["digits", "mobilenet", "audio"])
def test_the_high_water_mark_is_measured_and_shows_one_byte_too_many(name: str, library: ctypes.CDLL) -> None:
    data = compiled(name)
    honest, careless = HostModel(data, library), OneByteMore(library)
    model = HostModel(data, careless)  # type: ignore[arg-type]
    careless.model = model
    tensor = honest.plan.inputs[0].tensor
    image = [np.random.default_rng(0).integers(-128, 128, tensor.shape).astype(np.int8)]
    assert honest.high_water_bytes(image) == honest.arena_bytes
    assert model.high_water_bytes(image) == model.arena_bytes + 1


def proved_in_c(data: bytes) -> str:
    """What the debug build of the runtime says of a plan: the status of opening, binding, proving."""
    runtime = open_library()
    plan = aligned(len(data), 16)
    plan[: len(data)] = np.frombuffer(data, np.uint8)
    model = aligned(runtime.trivet_host_model_bytes(), 16)
    pointer = ctypes.c_void_p(model.ctypes.data)
    opened = runtime.trivet_open(pointer, ctypes.c_void_p(plan.ctypes.data), ctypes.c_size_t(len(data)))
    if opened:
        return STATUSES[opened]
    sizes = [runtime.trivet_region_bytes(pointer, r) for r in range(runtime.trivet_region_count(pointer))]
    memories = [aligned(size, 64) for size in sizes]
    places = (ctypes.c_size_t * (2 * len(memories)))(*[n for m in memories for n in (m.ctypes.data, m.size)])
    bound = runtime.trivet_bind(pointer, places, len(memories))
    marks = [np.zeros(2 * max(size, 1), np.uint32) for size in sizes]
    pointers = (ctypes.c_void_p * len(marks))(*[array.ctypes.data for array in marks])
    return STATUSES[bound or runtime.trivet_prove(pointer, pointers)]


@pytest.mark.parametrize("name", [*SKETCHES, "digits"])
def test_the_proof_in_c_accepts_plans_of_the_planner(name: str) -> None:
    assert {proved_in_c(compiled(name, objective)) for objective in Objective} == {"OK"}


def test_both_proofs_judge_alike_where_operands_are_moved() -> None:
    """Every place of a tensor that a step reads, moved to every other place that there is."""
    data = compiled("audio", Objective.SPEED)
    steps, operands = records(data, "steps"), [row["tensor"] for row in records(data, "operands")]
    tensors = records(data, "tensors")
    refused = []
    for step in steps[1:]:
        read = operands[step["operands"]]
        for target in {row["offset"] for row in tensors} - {tensors[read]["offset"]}:
            changed = patched(data, *everywhere(data, read, "offset", target))
            said, found = proved_in_c(changed), violations(changed)
            if said in ("OK", "ERR_ORDER") and not any("claims" in text for text in found):
                assert (said == "OK") == (found == []), f"{said}, {found}"
            refused.append(said)
    assert "ERR_ORDER" in refused


@pytest.mark.parametrize("name", ["digits", "audio"])
def test_the_proof_in_c_finds_shallow_rings(name: str) -> None:
    data = compiled(name)
    for index in rings(data):
        depth = records(data, "tensors")[index]["depth"]
        if depth > 1:
            assert proved_in_c(patched(data, *everywhere(data, index, "depth", depth - 1))) != "OK"
