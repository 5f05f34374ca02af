"""Boards and cores as data: what a machine can do, and which memories it has. One TOML file each, under `data`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from trivet.core.record import dataclass

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Memory:
    """`kind` is fast, slow or flash."""

    name: str
    kind: str
    size_bytes: int


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

    def budget(self, kind: str) -> int | None:
        """Bytes of the largest memory of a kind, None where the target states none."""
        return max((m.size_bytes for m in self.memories if m.kind == kind), default=None)


def target_names() -> list[str]:
    """Every target, in alphabetical order."""
    return sorted(path.stem for path in _DATA.glob("*.toml"))


def read_target(name: str) -> Target:
    """The target called `name`, which must be one of `target_names()`."""
    path = _DATA / f"{name}.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    memories = tuple(Memory(m["name"], m["kind"], m["bytes"]) for m in data.get("memory", []))
    return Target(name, data["summary"], data["cpu"], tuple(data["features"]), tuple(data["backends"]), memories, path)
