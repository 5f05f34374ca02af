"""Boards and cores as data: what a machine can do, and which memories it has. One TOML file each, under `data`."""

from __future__ import annotations

from pathlib import Path

from trivet.targets.reader import Memory, Target, read_file

__all__ = ["ADDED", "Memory", "Target", "find_target", "is_file", "read_target", "target_names"]

_DATA = Path(__file__).parent / "data"

ADDED: dict[str, Path] = {}
"""Files of extensions, by the name of the target."""


def target_names() -> list[str]:
    """Every target that Trivet or an extension brings, in alphabetical order."""
    return sorted([*(path.stem for path in _DATA.glob("*.toml")), *ADDED])


def read_target(name: str) -> Target:
    """The target called `name`, which must be one of `target_names()`."""
    return read_file(ADDED.get(name, _DATA / f"{name}.toml"))


def is_file(name: str) -> bool:
    """True iff a target is named by a file of the user's own: `./myboard.toml`."""
    return name.endswith(".toml")


def find_target(name: str) -> Target | None:
    """The target of a name or of a user's file; None where there is no such name.

    Raises: Problems with all that is wrong in a file.
    """
    if is_file(name):
        return read_file(Path(name))
    return read_target(name) if name in target_names() else None
