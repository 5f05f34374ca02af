"""The smallest fast memory that a network runs in, beside TiGrIS (PyPI: tigris-ml) with one memory.

    python bench/memory.py MODEL...

Columns: layer by layer; streamed row by row with the input resident; with the input given by rows; that with at most a
tenth of the multiply-accumulates more, for rows that are computed again; and with the output taken by rows too. Vectors
of dense layers go in chunks instead of rows.

Trivet's figure counts input, output, scratch and counters, and the plan is run: the measured high-water mark must be
the planned bytes, and the outputs must be the oracle's. TiGrIS splits a network over a fast and a slow memory; its
figure is the smallest sum of both (`-m FAST+SLOW`) that it compiles, over powers of two for the fast one. It leaves
scratch and tables out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from trivet import driver
from trivet.artifact import Artifact
from trivet.checking import check
from trivet.errors import Unsupported
from trivet.planning.options import Objective

SMALLEST = driver.Settings(objective=Objective.MEMORY)
WAYS = {
    "layer by layer": driver.Settings(),
    "streamed": SMALLEST,
    "by rows": replace(SMALLEST, input_rows=True),
    "at 1.1x": replace(SMALLEST, input_rows=True, max_overhead=1.1),
    "both by rows": replace(SMALLEST, input_rows=True, output_rows=True),
}


def ours(model: Path, settings: driver.Settings) -> int | None:
    """Bytes of a plan that has been run and found right; None where what is asked to go by rows has none."""
    try:
        artifact = Artifact(driver.build(driver.load(model, settings), settings).data)
    except Unsupported:
        return None
    inputs = artifact.random_inputs(0)
    measured = artifact.high_water_bytes(inputs)
    artifact.reset()
    verdicts = check(artifact, model, settings, inputs, artifact.run(inputs))
    assert not any(v.failed for v in verdicts), [str(v) for v in verdicts]
    assert measured <= artifact.arena_bytes
    return artifact.arena_bytes


def tigris(model: Path, upper: int) -> int | None:
    """The smallest sum of fast and slow memory with which TiGrIS compiles the model."""
    tool = shutil.which("tigris", path=str(Path(sys.executable).parent)) or shutil.which("tigris")
    if tool is None:
        return None

    def compiles(fast: int, slow: int) -> bool:
        with tempfile.TemporaryDirectory() as directory:
            command = [tool, "compile", str(model), "-m", f"{fast}+{slow}", "-o", f"{directory}/x.tgrs"]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0

    best: int | None = None
    fast = 1024
    while fast < 2 * upper:
        low, high = 0, (2 * upper if best is None else best) - fast
        if high > 0 and compiles(fast, high):
            while high - low > max(256, upper // 100):
                middle = (low + high) // 2
                low, high = (low, middle) if compiles(fast, middle) else (middle, high)
            best = fast + high
        fast *= 2
    return best


def main() -> None:
    heads = "".join(f"{way:>15}" for way in WAYS)
    print(f"{'network':40}{heads}{'TiGrIS':>10}  streamed / TiGrIS")
    for name in sys.argv[1:]:
        model = Path(name)
        found = [ours(model, settings) for settings in WAYS.values()]
        whole, small = found[0], found[1]
        assert whole is not None and small is not None
        peer = tigris(model, whole) if model.suffix in (".tflite", ".onnx") else None
        ratio = "not measured" if peer is None else f"{small / peer:.2f}"
        columns = "".join(f"{size:15,}" if size is not None else f"{'-':>15}" for size in found)
        print(f"{model.stem:40}{columns}{peer or 0:10,}  {ratio}", flush=True)


if __name__ == "__main__":
    main()
