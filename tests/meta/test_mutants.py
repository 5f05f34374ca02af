"""The seeded faults can be planted: what each changes is in the source, once, and the test that kills it exists."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LISTS = sorted((CHECKOUT / "tests" / "mutants").glob("*.toml"))


def entries(path: Path) -> list[dict[str, str]]:
    return tomllib.loads(path.read_text())["mutant"]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_fault_can_be_planted(path: Path) -> None:
    stale = [e["name"] for e in entries(path) if (CHECKOUT / e["file"]).read_text().count(e["old"]) != 1]
    assert not stale, "the source has changed: restate these faults in its terms"


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_fault_names_a_test(path: Path) -> None:
    for entry in entries(path):
        named = [word for word in shlex.split(entry["test"]) if word.startswith("tests/")]
        assert named and all((CHECKOUT / name).exists() for name in named), entry["name"]
        assert entry["old"] != entry["new"]


def test_there_are_many() -> None:
    names = [entry["name"] for path in LISTS for entry in entries(path)]
    assert len(names) >= 80 and len(set(names)) == len(names)
