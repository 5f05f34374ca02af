"""Reads the file of a target, strictly: what it does not know, it refuses, with what it may have meant."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from trivet.core.record import dataclass
from trivet.errors import InvalidTarget, Problems

CPUS = (
    "native", "cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85", "rv32imc",
    "rv32imac", "rv32imafc", "xtensa-lx7",
)  # fmt: skip
FEATURES = ("dsp", "fpu", "mve")
BACKENDS = ("plan", "module")
KINDS = ("fast", "slow", "flash")


@dataclass(frozen=True, slots=True)
class Memory:
    """`kind` is fast, slow or flash; `source` says where the figures are from (datasheet, or an address)."""

    name: str
    kind: str
    size_bytes: int
    address: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to compile for. A core has no memories: its budgets come from the user."""

    name: str
    summary: str
    cpu: str
    features: tuple[str, ...]
    backends: tuple[str, ...]
    memories: tuple[Memory, ...]
    path: Path
    clock_hz: int | None = None
    clock_source: str = ""

    def budget(self, kind: str) -> int | None:
        """Bytes of the largest memory of a kind, None where the target states none."""
        return max((m.size_bytes for m in self.memories if m.kind == kind), default=None)


TARGET_KEYS: Mapping[str, type] = {
    "summary": str, "cpu": str, "features": list, "backends": list, "clock_hz": int, "clock_source": str,
    "memory": list,
}  # fmt: skip
MEMORY_KEYS: Mapping[str, type] = {"name": str, "kind": str, "bytes": int, "address": int, "source": str}


def read_file(path: Path) -> Target:
    """The target in a file; its name is the file's.

    Raises: Problems with everything that is wrong in it, InvalidTarget where it is no TOML at all.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidTarget(f"cannot read it: {error.strerror or error}", where=path) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidTarget(f"is no TOML: {error}", where=path) from None
    problems = [InvalidTarget(text) for text in _problems(data)]
    if problems:
        raise Problems(f"{path} describes no target", problems)
    cpu = data["cpu"]
    return Target(
        name=path.stem,
        summary=data.get("summary", path.stem),
        cpu=cpu,
        features=tuple(data.get("features", ())),
        backends=tuple(data.get("backends", BACKENDS)),
        memories=tuple(
            Memory(m["name"], m["kind"], m["bytes"], m.get("address"), m.get("source", ""))
            for m in data.get("memory", ())
        ),
        path=path,
        clock_hz=data.get("clock_hz"),
        clock_source=data.get("clock_source", ""),
    )


def _problems(data: Mapping[str, object]) -> list[str]:
    found = _misfits("", data, TARGET_KEYS, required=("cpu",))
    if isinstance(data.get("cpu"), str):
        found += _unknown("cpu", [data["cpu"]], CPUS)
    for key, known in (("features", FEATURES), ("backends", BACKENDS)):
        if isinstance(values := data.get(key), list):
            found += _unknown(key, values, known)
    found += _not_positive("", data, "clock_hz")
    memories = data.get("memory")
    names: set[object] = set()
    for index, memory in enumerate(memories if isinstance(memories, list) else ()):
        where = f"memory {index + 1}"
        if not isinstance(memory, dict):
            found.append(f"{where}: is no table, write [[memory]]")
            continue
        found += _memory_problems(f"{where}: ", memory)
        if (name := memory.get("name")) in names:
            found.append(f"{where}: there is a memory '{name}' already")
        names.add(name)
    return found


def _memory_problems(where: str, memory: Mapping[str, object]) -> list[str]:
    found = _misfits(where, memory, MEMORY_KEYS, required=("name", "kind", "bytes"))
    if isinstance(memory.get("kind"), str):
        found += _unknown(f"{where}kind", [memory["kind"]], KINDS)
    if isinstance(address := memory.get("address"), int) and address < 0:
        found.append(f"{where}address is {address}, it must not be negative")
    return found + _not_positive(where, memory, "bytes")


def _misfits(where: str, table: Mapping[str, object], keys: Mapping[str, type], required: Iterable[str]) -> list[str]:
    """Keys that are unknown, missing or of another type."""
    found = []
    for key, value in table.items():
        if key not in keys:
            found.append(f"{where}unknown key '{key}'{_meant(key, keys)}")
        elif not isinstance(value, keys[key]) or isinstance(value, bool):
            found.append(f"{where}{key} is {value!r}, it must be {_NOUNS[keys[key]]}")
    return found + [f"{where}{key} is missing" for key in required if key not in table]


_NOUNS: Mapping[type, str] = {str: "a string", int: "an integer", list: "a list"}


def _unknown(key: str, values: Iterable[object], known: Iterable[str]) -> list[str]:
    names = list(known)
    return [f"{key} '{value}' is not known{_meant(str(value), names)}" for value in values if value not in names]


def _not_positive(where: str, table: Mapping[str, object], key: str) -> list[str]:
    value = table.get(key)
    return [f"{where}{key} is {value}, it must be positive"] if isinstance(value, int) and value <= 0 else []


def _meant(given: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(given, names, 1)
    return f", did you mean '{close[0]}'?" if close else f"; known: {', '.join(names)}"
