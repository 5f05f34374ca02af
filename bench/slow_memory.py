"""Traffic and bytes with a fast and a slow memory, beside TiGrIS (PyPI: tigris-ml) in the same run.

    python bench/slow_memory.py [--networks DIRECTORY] [MODEL...]

For every network: the smallest fast memory that TiGrIS compiles (powers of two and steps of 128 bytes below them), 256
bytes more, and larger budgets. Trivet's plan is run: its outputs must be those of the untiled plan, the measured
high-water marks of both memories the planned bytes. Traffic is what one run reads from slow memory and writes to it,
every time counted; TiGrIS's is its own report. MobileNetV2-0.35-224 comes from scripts/mobilenet_v2.py, int8 for
Trivet and the same network as ONNX QDQ for TiGrIS, whose inputs are int8 then as well.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from trivet import driver
from trivet.artifact import Artifact
from trivet.errors import DoesNotFit
from trivet.planning.options import Objective
from trivet.planning.traffic import traffic

NETWORKS = (
    "tiny__kws_ref_model",
    "tiny__pretrainedResnet_quant",
    "tiny__vww_96_int8",
    "tiny__ad01_int8",
    "tiny__str_ww_ref_model",
)
SLOW = 16 << 20
LARGER = (4096, 8192, 16384, 32768, 65536)


def tigris(model: Path, fast: int) -> tuple[int, int] | None:
    """Bytes of both memories and of traffic that TiGrIS reports; None where it does not compile the model."""
    tool = shutil.which("tigris", path=str(Path(sys.executable).parent)) or shutil.which("tigris")
    assert tool is not None, "pip install tigris-ml"
    command = [tool, "analyze", str(model), "-m", f"{fast}+{SLOW}", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, check=False, text=True).stdout or "{}")
    if not report or report["slow"].get("traffic") is None:
        return None
    moved = report["slow"]["traffic"]
    total = report["fast"]["scheduled_peak_bytes"] + report["slow"]["peak_bytes"]
    return total, moved["read"] + moved["written"]


def smallest(model: Path) -> int | None:
    """The smallest fast memory, in steps of 128 bytes, that TiGrIS compiles a model for."""
    fast = 512
    while fast <= 1 << 20 and tigris(model, fast) is None:
        fast *= 2
    if fast > 1 << 20:
        return None
    low, high = fast // 256, fast // 128
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if tigris(model, 128 * middle) is not None else (middle + 1, high)
    return 128 * high


def ours(model: Path, fast: int) -> tuple[int, int, int, float] | None:
    """Bytes of both memories, of traffic, stages, and seconds of planning; the plan has been run and found right."""
    settings = driver.Settings(fast_bytes=fast, slow_bytes=SLOW)
    try:
        start = time.perf_counter()
        compiled = driver.build(driver.load(model, settings), settings)
        seconds = time.perf_counter() - start
    except DoesNotFit:
        return None
    artifact = Artifact(compiled.data)
    inputs = artifact.random_inputs(0)
    plan = compiled.plan
    assert artifact.high_water(inputs) == [plan.region_bytes(region.name) for region in plan.regions]
    whole = driver.Settings(objective=Objective.SPEED)
    untiled = Artifact(driver.build(driver.load(model, whole), whole).data)
    for actual, wanted in zip(artifact.run(inputs), untiled.run(inputs), strict=True):
        np.testing.assert_array_equal(actual, wanted)
    total = sum(plan.region_bytes(region.name) for region in plan.regions)
    assert total <= untiled.arena_bytes, f"{total} bytes, layer by layer {untiled.arena_bytes}"
    return total, traffic(plan).total_bytes, len(plan.stages), seconds


def mobilenet_v2(directory: Path) -> tuple[Path, Path]:
    """The network in both forms; TiGrIS wants a flatten that reads what is quantized."""
    ours, theirs = directory / "mobilenet_v2_224.tir", directory / "mobilenet_v2_224.onnx"
    script = Path(__file__).resolve().parents[1] / "scripts" / "mobilenet_v2.py"
    for path in (ours, theirs):
        subprocess.run([sys.executable, script, path, "--resolution", "224"], check=True)
    model = onnx.load(theirs)
    nodes = list(model.graph.node)
    flatten = next(index for index, node in enumerate(nodes) if node.op_type == "Flatten")
    quantize = next(node for node in nodes if nodes[flatten].output[0] in node.input)
    scale = quantize.input[1:3]
    pair = [
        helper.make_node("QuantizeLinear", [nodes[flatten].input[0], *scale], ["pooled_q"]),
        helper.make_node("DequantizeLinear", ["pooled_q", *scale], ["pooled"]),
    ]
    nodes[flatten].input[0] = "pooled"
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:flatten], *pair, *nodes[flatten:]])
    onnx.save(model, theirs)
    return ours, theirs


def compare(model: Path, peers: Path) -> None:
    floor = smallest(peers)
    budgets = [] if floor is None else [floor, floor + 256]
    for fast in (*budgets, *(size for size in LARGER if size > (floor or 0))):
        made, peer = ours(model, fast), tigris(peers, fast)
        mine = "no plan" if made is None else f"{made[0]:9,} {made[1]:10,} {made[2]:3} stages {made[3]:5.2f} s"
        theirs = "does not compile" if peer is None else f"{peer[0]:9,} {peer[1]:10,}"
        ratio = "" if made is None or peer is None else f"sum {made[0] / peer[0]:.2f}  traffic {made[1] / peer[1]:.2f}"
        print(f"{model.stem:36} {fast:7,}  {mine:44}  {theirs:22}  {ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--networks", type=Path, default=Path("../shared/models/networks/tflite"))
    arguments = parser.parse_args()
    print(f"{'network':36} {'fast':>7}  Trivet: sum, traffic{'':26} TiGrIS: sum, traffic    Trivet / TiGrIS")
    for model in arguments.models or [arguments.networks / f"{name}.tflite" for name in NETWORKS]:
        compare(model, model)
    if not arguments.models:
        with tempfile.TemporaryDirectory() as directory:
            compare(*mobilenet_v2(Path(directory)))


if __name__ == "__main__":
    main()
