"""How long a compilation takes from a cold start, beside TiGrIS (PyPI: tigris-ml), on the same file and machine.

    python bench/compile_time.py MODEL.tflite [runs]

Each run is a new process; the two tools alternate, so that whatever else the machine does falls on both. A first run of
each is not counted: it leaves compiled modules on disk, as an installation does. Prints medians of wall time and of
processor time, and their ratios.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

BIN = Path(sys.executable).parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def tool(name: str) -> str:
    return shutil.which(name, path=str(BIN)) or shutil.which(name) or name


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds of wall time and of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(commands: dict[str, list[str]], runs: int) -> dict[str, tuple[float, float]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for command in commands.values():
        timed(command)
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(timed(command))
    return {name: (median(w for w, _ in t), median(c for _, c in t)) for name, t in times.items()}


def main() -> None:
    model = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    with tempfile.TemporaryDirectory() as directory:
        commands = {
            "trivet compile": [tool("trivet"), "compile", model, "-o", f"{directory}/a.tgrs", "-q"],
            "trivet --help": [tool("trivet"), "--help"],
            "import numpy": [sys.executable, "-c", "import numpy"],
        }
        if shutil.which("tigris", path=str(BIN)) or shutil.which("tigris"):
            commands["tigris compile"] = [tool("tigris"), "compile", model, "-o", f"{directory}/b.tgrs", "-m", "256K"]
        else:
            print("TiGrIS is not installed (pip install tigris-ml): no ratio to it")
        found = measure(commands, runs)
    for name, (wall, cpu) in found.items():
        print(f"{name:16} {wall * 1e3:8.1f} ms wall {cpu * 1e3:8.1f} ms processor")
    if "tigris compile" in found:
        ours, theirs = found["trivet compile"], found["tigris compile"]
        print(
            f"compile: {ours[0] / theirs[0]:.2f} of TiGrIS's wall time, {ours[1] / theirs[1]:.2f} of its processor time"
        )
    help_, numpy_ = found["trivet --help"], found["import numpy"]
    print(f"--help:  {help_[0] / numpy_[0]:.2f} of `import numpy`, {help_[1] / numpy_[1]:.2f} in processor time")


if __name__ == "__main__":
    main()
