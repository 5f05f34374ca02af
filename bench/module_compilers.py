"""Modules of every network under three compilers with their warnings as errors: gcc, clang -Weverything, g++ as C++17.

    python bench/module_compilers.py [--schedule static|table] MODEL_OR_FOLDER ...

Prints a line for each network: ok, the first complaint, or why it does not compile to a module. The exit code is the
number of networks with complaints. The flags are those of the tests, with the reasons for what clang leaves out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "backends"))

from module_builds import CPP, EVERYTHING, STRICT

from trivet.backends.module.options import ScheduleStyle
from trivet.driver import Settings
from trivet.errors import CompileError
from trivet.exporting import ModuleRequest, compile_module

SUFFIXES = (".tflite", ".onnx", ".tir", ".tiny")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--schedule", choices=[s.value for s in ScheduleStyle], default=ScheduleStyle.STATIC.value)
    parser.add_argument("--clang", default="clang-14")
    arguments = parser.parse_args()
    compilers = {"gcc": ["gcc", *STRICT], "clang": [arguments.clang, *EVERYTHING], "g++": ["g++", *CPP]}
    wrong = 0
    for model in found(arguments.models):
        with tempfile.TemporaryDirectory() as folder:
            said = verdict(model, Path(folder) / "net", ScheduleStyle(arguments.schedule), compilers)
        wrong += said.startswith("COMPLAINT")
        print(f"{model.name:70} {said}", flush=True)
    return wrong


def found(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES) if path.is_dir() else [path]


def verdict(model: Path, output: Path, schedule: ScheduleStyle, compilers: dict[str, list[str]]) -> str:
    try:
        compile_module(model, output, Settings(), ModuleRequest(prefix="net", schedule=schedule))
    except CompileError as error:
        return f"no module: {str(error).splitlines()[0][:80]}"
    sources = [str(path) for path in sorted((output / "src").glob("*.c"))]
    include = [f"-I{output / 'include'}", f"-I{output / 'src'}"]
    for name, command in compilers.items():
        done = subprocess.run(
            [*command, "-fsyntax-only", *include, *sources], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            line = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            return f"COMPLAINT of {name}: {line.rpartition('/')[2]}"
    return "ok"


if __name__ == "__main__":
    sys.exit(min(main(), 125))
