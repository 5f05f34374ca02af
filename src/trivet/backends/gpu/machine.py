"""The machine as data: sizes, and the parameters of the cycle model. One TOML file each."""

from __future__ import annotations

import tomllib
from pathlib import Path

from trivet.backends.gpu.isa import REGISTERS, Kind
from trivet.core.record import dataclass
from trivet.errors import InvalidModel

DATA = Path(__file__).parent / "data"

SIZES = {
    "mem_words": 1 << 28,
    "max_threads": 1 << 20,
    "shared_words": 1 << 24,
    "registers": 256,
    "cycle_limit": 1 << 40,
}
"""The sizes of a machine, and how large they may be at most."""


@dataclass(frozen=True, slots=True)
class CycleModel:
    """What instructions cost: `cycles` for one row of `lanes` threads; `divergence` each time threads part."""

    lanes: int
    cores: int
    divergence: int
    cycles: tuple[int, ...]
    """In the order of `Kind`."""

    def cost(self, kind: Kind) -> int:
        return self.cycles[_ORDER[kind]]

    def rows(self, block: int) -> int:
        """Rows of lanes that a block fills."""
        return -(-block // self.lanes)


_ORDER = {kind: index for index, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Machine:
    """Sizes in words and threads; `cycle_limit` counts instructions of the longest thread of a launch."""

    name: str
    mem_words: int
    max_threads: int
    shared_words: int
    registers: int
    cycle_limit: int
    model: CycleModel


def read_machine(path: Path | None = None) -> Machine:
    """The machine of a file, by default the one that Trivet brings.

    Raises: InvalidModel naming what is missing or no positive integer.
    """
    file = path or DATA / "tiny.toml"
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=file) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidModel(f"is no TOML: {error}", where=file) from None
    memory, threads, shared, registers, limit = (_positive(file, data, key, most) for key, most in SIZES.items())
    if registers < REGISTERS:
        raise InvalidModel(f"registers must be at least {REGISTERS}, got {registers}", where=file)
    model = _table(file, data, "model")
    cycles = _table(file, model, "cycles")
    costs = tuple(_positive(file, cycles, kind.value) for kind in Kind)
    lanes, cores, divergence = (_positive(file, model, key) for key in ("lanes", "cores", "divergence"))
    model_of = CycleModel(lanes, cores, divergence, costs)
    return Machine(file.stem, memory, threads, shared, registers, limit, model_of)


def _table(file: Path, data: dict[str, object], key: str) -> dict[str, object]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise InvalidModel(f"has no table [{key}]", where=file, hint="the tables are [model] and [model.cycles]")
    return value


def _positive(file: Path, data: dict[str, object], key: str, most: int = 1 << 16) -> int:
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise InvalidModel(f"{key} must be an integer from 1 to {most}, got {value!r}", where=file)
    return value
