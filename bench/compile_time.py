"""How long a compilation takes from a cold start, beside TiGrIS (PyPI: tigris-ml), on the same file and machine.

    python bench/compile_time.py MODEL.tflite [runs]

Run it with the Python of an environment that holds both tools as users install them (`pip install . tigris-ml`; an
editable installation starts more slowly). Each run is a new process that writes a new file; the tools alternate, so
that whatever else the machine does falls on both. A first run of each is not counted: it leaves compiled modules on
disk, as an installation does. Prints the least and the median wall time, the least processor time, and their ratios.
On a machine that does other work the least is the figure to trust.

Where the time of `trivet compile` goes, in instructions (`valgrind --tool=cachegrind`, the vww of MLPerf Tiny: 643
million, TiGrIS takes 1,340): Python and numpy 38 %, Trivet's modules 29 % (about 150, each some 0.2 ms), reading the
model 8 %, passes 14 %, planning 5 %, writing 3 %. The command has numpy put off its docstrings, its types for type
checkers and modules without use (`cli/start.py`: 130 million); OpenBLAS, which starts threads when numpy is imported,
is asked for one.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
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


@dataclass
class Times:
    """Seconds of every counted run of one command."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        least, middle, processor = min(self.wall), median(self.wall), min(self.processor)
        return f"{least * 1e3:8.1f} ms wall (median {middle * 1e3:.1f}) {processor * 1e3:8.1f} ms processor"


def measure(commands: dict[str, list[str]], runs: int) -> dict[str, Times]:
    """`{output}` in a command is a file that does not exist yet."""
    times = {name: Times() for name in commands}
    for run in range(runs + 1):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as directory:
                wall, processor = timed([word.format(output=f"{directory}/out.tgrs") for word in command])
            if run > 0:
                times[name].wall.append(wall)
                times[name].processor.append(processor)
    return times


def ratios(ours: Times, theirs: Times) -> str:
    wall, middle = min(ours.wall) / min(theirs.wall), median(ours.wall) / median(theirs.wall)
    processor = min(ours.processor) / min(theirs.processor)
    return f"{wall:.2f} of its wall time (medians {middle:.2f}), {processor:.2f} in processor time"


def main() -> None:
    model = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    commands = {
        "trivet compile": [tool("trivet"), "compile", model, "-o", "{output}", "-q"],
        "trivet --help": [tool("trivet"), "--help"],
        "import numpy": [sys.executable, "-c", "import numpy"],
    }
    if shutil.which("tigris", path=str(BIN)) or shutil.which("tigris"):
        commands["tigris compile"] = [tool("tigris"), "compile", model, "-o", "{output}", "-m", "256K"]
    else:
        print("TiGrIS is not installed (pip install tigris-ml): no ratio to it")
    found = measure(commands, runs)
    for name, times in found.items():
        print(f"{name:16} {times}")
    if "tigris compile" in found:
        print(f"compile, of TiGrIS:     {ratios(found['trivet compile'], found['tigris compile'])}")
    print(f"--help, of import numpy: {ratios(found['trivet --help'], found['import numpy'])}")


if __name__ == "__main__":
    main()
