"""Damaged plans with a right checksum, opened and run under the address sanitizer: refused, or harmless."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from builds import CHECKOUT, FUZZ, SANITIZERS, built, runtime_sources
from loader_cases import base, cases
from patches import STATUSES

ROUNDS = 5000
PLANS = (
    "layers", "batch", "states", "stream", "rows", "conv", "constant", "movement", "product", "packed", "warm",
    "border", "chunks",
)  # fmt: skip
SOURCES = [*runtime_sources(), FUZZ / "exercise.c"]
FLAGS = ["-O1", "-g", "-ffp-contract=off"]
PLAIN, SANITIZED = tuple(FLAGS), (*FLAGS, *SANITIZERS)
NEVER = {"ERR_ARGUMENT", "ERR_ALIGNMENT", "ERR_CHECKSUM", "ERR_MEMORY", "ERR_UNBOUND", "ERR_STOPPED", "ERR_ROWS"}
"""Statuses that no bytes of a plan can cause when it is opened and bound, and its rows are served, as it has to be."""
RARE = {"ERR_ENDIAN", "ERR_LIMIT"}
"""Statuses that need several fields to be just so: `loader_cases` has them."""


def plan_files(directory: Path) -> list[str]:
    paths = [directory / f"{name}.tgrs" for name in PLANS]
    for path in paths:
        path.write_bytes(base(path.stem))
    return list(map(str, paths))


def run(program: Path, *arguments: str) -> str:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def built_mutator(flags: Sequence[str]) -> Path:
    return built("mutate", [*SOURCES, CHECKOUT / "tests/runtime/mutate.c"], flags)


@pytest.mark.parametrize("flags", [SANITIZED, PLAIN], ids=["sanitized", "plain"])
def test_mutated_plans_are_refused_or_harmless(tmp_path: Path, flags: Sequence[str]) -> None:
    program = built_mutator(flags)
    lines = run(program, str(ROUNDS), *plan_files(tmp_path)).splitlines()
    seen = {STATUSES[int(line.split()[0])] for line in lines}
    assert seen == set(STATUSES) - NEVER - RARE


def test_the_fuzz_target_replays_plans_and_everything_that_the_loader_refuses(tmp_path: Path) -> None:
    sources = [*SOURCES, FUZZ / "fuzz_plan.c", FUZZ / "replay.c"]
    files = plan_files(tmp_path)
    for index, case in enumerate(cases()):
        files.append(str(tmp_path / f"case{index}.tgrs"))
        Path(files[-1]).write_bytes(case.data())
    assert run(built("replay", sources, SANITIZED), *files) == f"{len(files)} files\n"
