"""Plants faults in a copy of the source, one at a time, and runs the test that must notice each.

    python scripts/mutants.py [-j JOBS] [NAME ...]

The faults are in tests/mutants/*.toml, with the test that kills each. First every test named there must pass on the
unchanged copy. A fault is killed when its test fails, or crashes; a test that cannot even be collected proves nothing,
and the fault counts as a survivor. Exits 1 if any survives.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

CHECKOUT = Path(__file__).resolve().parent.parent
COPIED = (
    "src",
    "tests",
    "scripts",
    "examples",
    "docs",
    "hw",
    "pyproject.toml",
    "CMakeLists.txt",
    "README.md",
    "LICENSE",
    "Makefile",
)
PASSED = 0
NO_VERDICT = (2, 3, 4, 5)
"""Exit codes of pytest: all passed; interrupted, internal error, wrong usage, no tests. Others: a failure, a crash."""


@dataclass(frozen=True)
class Mutant:
    """One fault: in `file` the text `old`, which occurs once, becomes `new`; `test` are arguments of pytest."""

    name: str
    file: str
    old: str
    new: str
    test: str

    @property
    def is_c(self) -> bool:
        return self.file.endswith((".c", ".h"))


def read_mutants(directory: Path) -> list[Mutant]:
    """All mutants of the lists in a directory."""
    found = []
    for path in sorted(directory.glob("*.toml")):
        found += [Mutant(**entry) for entry in tomllib.loads(path.read_text())["mutant"]]
    return found


class Tree:
    """A copy of the source that faults are planted in; its C library is built where a fault is in C."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        for name in COPIED:
            source = CHECKOUT / name
            if source.is_dir():
                shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, directory / name)
        self.build()

    def build(self) -> None:
        """The host library, as `make lib` builds it; only what changed is compiled."""
        cmake, build = shutil.which("cmake", path=_path()), self.root / "build" / "host"
        assert cmake is not None, "cmake is not installed"
        steps: list[list[str]] = [
            [cmake, "--build", str(build), "-j2"],
            [cmake, "--install", str(build)],
        ]
        if not build.exists():
            prefix = f"-DCMAKE_INSTALL_PREFIX={self.root / 'src'}"
            steps.insert(0, [cmake, "-S", str(self.root), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", prefix])
        for step in steps:
            subprocess.run(step, check=True, capture_output=True)

    def run(self, tests: str) -> int:
        """The exit code of pytest."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRIVET_HYPOTHESIS": "unshrunk",
            "TRIVET_SHARED": os.environ.get("TRIVET_SHARED", str(CHECKOUT.parent / "shared")),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *shlex.split(tests)]
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True).returncode

    def kills(self, mutant: Mutant) -> bool:
        """Whether the mutant's test notices it. The tree is as before afterwards."""
        path = self.root / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            return False  # a fault that cannot be planted is none
        path.write_text(text.replace(mutant.old, mutant.new))
        try:
            if mutant.is_c:
                self.build()
            return self.run(mutant.test) not in (PASSED, *NO_VERDICT)
        except subprocess.CalledProcessError:
            return False  # a fault that does not compile is none
        finally:
            path.write_text(text)
            if mutant.is_c:
                self.build()


def _path() -> str:
    """Where programs are looked for: beside this Python first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parsed = parser.parse_args(arguments)
    mutants = [m for m in read_mutants(CHECKOUT / "tests" / "mutants") if not parsed.names or m.name in parsed.names]
    if not mutants:
        print("no such mutant", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="trivet-mutants-") as directory:
        return _run(mutants, [Tree(Path(directory) / str(i)) for i in range(min(parsed.jobs, len(mutants)))])


def _run(mutants: Sequence[Mutant], trees: Sequence[Tree]) -> int:
    idle: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        idle.put(tree)

    def passes(test: str) -> bool:
        tree = idle.get()
        try:
            return tree.run(test) == PASSED
        finally:
            idle.put(tree)

    def judge(mutant: Mutant) -> bool:
        tree = idle.get()
        start = time.monotonic()
        try:
            killed = tree.kills(mutant)
        finally:
            idle.put(tree)
        print(f"{'killed  ' if killed else 'SURVIVED'} {time.monotonic() - start:6.1f} s  {mutant.name}", flush=True)
        return killed

    with ThreadPoolExecutor(len(trees)) as pool:
        tests = sorted({mutant.test for mutant in mutants})
        failing = [test for test, good in zip(tests, pool.map(passes, tests), strict=True) if not good]
        for test in failing:
            print(f"fails without any fault: pytest {test}", file=sys.stderr)
        if failing:
            return 1
        verdicts = list(pool.map(judge, mutants))
    survivors = [mutant.name for mutant, killed in zip(mutants, verdicts, strict=True) if not killed]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} killed ({1 - len(survivors) / len(mutants):.0%})")
    for name in survivors:
        print(f"survivor: {name}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
