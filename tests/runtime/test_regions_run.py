"""Plans over several memories on the C runtime: each memory is used up to its last claimed byte, and no further."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from networks import CHECKOUT
from trivet import driver
from trivet.artifact import Artifact
from trivet.backends.plan.host import HostModel
from trivet.planning.memories import Memories, Pin
from trivet.planning.plan import Region

DIGITS = CHECKOUT / "examples" / "models" / "digits_int8.tflite"


def compiled(path: Path, settings: driver.Settings) -> bytes:
    return driver.build(driver.load(path, settings), settings).data


def test_memories_are_used_to_the_last_byte_and_give_the_same_results() -> None:
    regions = (Region("dtcm", 1800, 4), Region("sram", 4096, 4))
    memories = Memories(regions, (Pin("@output", "sram"),))
    whole, apart = (compiled(DIGITS, driver.Settings(memories=m)) for m in (None, memories))
    inputs = Artifact(whole).random_inputs(3)
    model = HostModel(apart)
    claimed = [region.size_bytes for region in model.plan.regions]
    assert all(size <= (region.size_bytes or 0) for size, region in zip(claimed, regions, strict=True))
    stored = [np.ascontiguousarray(array) for array in inputs]
    assert model.high_waters(stored) == claimed
    assert all(
        np.array_equal(a, b) for a, b in zip(Artifact(apart).run(inputs), Artifact(whole).run(inputs), strict=True)
    )
