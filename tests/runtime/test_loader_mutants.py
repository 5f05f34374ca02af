"""Every check of the loader is tested: without it, some plan of `loader_cases` gets another status.

Builds the loader some hundred times, so it runs where TRIVET_DEEP=1 is set.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from builds import RUNTIME, built, runtime_sources
from loader_cases import cases
from loader_mutants import mutants

ELSEWHERE = {
    "model == NULL": "test_api",
    "plan == NULL": "test_api",
    "(uintptr_t)plan % TRIVET_ALIGNMENT != 0": "test_loader: a misaligned plan",
    "plan_bytes < sizeof(trivet_header_record)": "test_api",
    "edge->source >= position": "only the address sanitizer sees it: test_mutations replays the case",
}
"""Checks that other tests cover."""

CHILD = """
import ctypes, pickle, sys
sys.path[:0] = sys.argv[3:]
from patches import Runtime
runtime = Runtime(ctypes.CDLL(sys.argv[1]))
with open(sys.argv[2], "rb") as file:
    print(sum(runtime.status(data) != status for status, data in pickle.load(file)))
"""


@pytest.mark.skipif(os.environ.get("TRIVET_DEEP") != "1", reason="slow: set TRIVET_DEEP=1")
@pytest.mark.parametrize("name", ["plan_reader.c", "step_reader.c"])
def test_no_check_of_the_loader_can_be_left_out(tmp_path: Path, name: str) -> None:
    plans = tmp_path / "plans"
    plans.write_bytes(pickle.dumps([(case.status, case.data()) for case in cases()]))
    others = [source for source in runtime_sources() if source.name != name]
    survivors = []
    for title, source in mutants((RUNTIME / "src" / name).read_text()):
        mutant = tmp_path / name
        mutant.write_text(source)
        # A check that is gone may leave unused variables behind.
        library = built("libmutant.so", [mutant, *others], ["-O0", "-fPIC", "-w", "-Wno-error"], ["-shared"])
        is_elsewhere = title.split(": ", 1)[1] in ELSEWHERE
        if not is_elsewhere and not is_noticed(library, plans):
            survivors.append(title)
        library.unlink()
    assert not survivors


def is_noticed(library: Path, plans: Path) -> bool:
    """True iff some plan gets another status, or the process dies or hangs."""
    command = [sys.executable, "-c", CHILD, str(library), str(plans), *sys.path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0 or int(done.stdout) > 0
