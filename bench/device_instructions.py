"""Executed instructions of the MLPerf Tiny networks on Cortex-M4 and M55, beside TensorFlow Lite Micro with CMSIS-NN.

    python bench/device_instructions.py [NETWORK ...]

Each network is made as a plan and as a C module, with every cross compiler that is installed, and runs once under QEMU.
The figures to compare with were counted in the same way, with the same emulator (QEMU 7.2), of TensorFlow Lite Micro
with CMSIS-NN built with GCC 12.2 at -O2; `goal` is the ratio that this project set itself. `flash` is code and its
constants beyond weights and tables, of the module; theirs is all text without the model. `load` is what checking a plan
takes, once; `init` is the module's.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.backends.module.options import ScheduleStyle
from trivet.device import tools
from trivet.device.emulated import Costs, Emulated
from trivet.device.machines import BY_NAME, Machine
from trivet.device.network import Network, module_network, plan_network
from trivet.exporting import ModuleRequest, compile_module

MODELS = (
    Path(os.environ.get("TRIVET_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "models/networks/tflite"
)


@dataclass(frozen=True)
class Peer:
    """Instructions of TensorFlow Lite Micro with CMSIS-NN by machine, and its text on the M4."""

    file: str
    instructions: dict[str, int]
    text_bytes: int
    goals: dict[str, float]


PEERS = {
    "kws": Peer(
        "tiny__kws_ref_model", {"mps2-an386": 7_698_332, "mps3-an547": 1_786_489}, 85_060,
        {"mps2-an386": 0.45, "mps3-an547": 0.52},
    ),
    "vww": Peer(
        "tiny__vww_96_int8", {"mps2-an386": 24_101_940, "mps3-an547": 6_434_228}, 85_060,
        {"mps2-an386": 0.42, "mps3-an547": 0.42},
    ),
    "resnet8": Peer(
        "tiny__pretrainedResnet_quant", {"mps2-an386": 29_863_002, "mps3-an547": 4_811_115}, 80_048,
        {"mps2-an386": 0.43, "mps3-an547": 0.58},
    ),
    "ad01": Peer(
        "tiny__ad01_int8", {"mps2-an386": 582_964, "mps3-an547": 285_511}, 32_820,
        {"mps2-an386": 0.62, "mps3-an547": 0.22},
    ),
}  # fmt: skip


def main() -> None:
    names = sys.argv[1:] or list(PEERS)
    print(
        f"{'network':8} {'machine':11} {'compiler':8} {'plan':>12} {'module':>12} {'TFLM+CMSIS':>12} {'ratio':>6} "
        f"{'goal':>5} {'flash':>7} {'theirs':>7} {'stack':>6} {'load':>10} {'init':>5}"
    )
    for name in names:
        path = MODELS / f"{PEERS[name].file}.tflite"
        if not path.is_file():
            print(f"{name:8} {path} is absent")
            continue
        for machine in ("mps2-an386", "mps3-an547"):
            for compiler in ("gcc", "zig"):
                print(row(name, path, BY_NAME[machine], compiler), flush=True)


def row(name: str, path: Path, machine: Machine, compiler: str) -> str:
    head = f"{name:8} {machine.name:11} {compiler:8}"
    try:
        chosen = tools.toolchain(machine, compiler)
    except tools.ToolMissing as error:
        return f"{head} {error}"
    settings = driver.Settings(target=machine.target)
    data = driver.build(driver.load(path, settings), settings).data
    plan = measured(plan_network(data), machine, chosen, data)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / name
        request = ModuleRequest(prefix="net", schedule=ScheduleStyle.STATIC)
        compile_module(path, folder, settings, request)
        module = measured(module_network(folder), machine, chosen, data)
    peer = PEERS[name]
    theirs = peer.instructions[machine.name]
    best = min(plan.instructions, module.instructions)
    return (
        f"{head} {plan.instructions:12,} {module.instructions:12,} {theirs:12,} {best / theirs:6.2f} "
        f"{peer.goals[machine.name]:5.2f} {module.code_bytes:7,} {peer.text_bytes:7,} {plan.stack_bytes:6,} "
        f"{plan.load:10,} {module.init:5,}"
    )


def measured(network: Network, machine: Machine, toolchain: tools.Toolchain, data: bytes) -> Costs:
    """What one run on random inputs takes; the outputs must be those of this machine's kernels."""
    host = Artifact(data)
    inputs = host.random_inputs(0)
    device = Emulated(network, machine, toolchain)
    outputs = device.run(inputs)
    assert all(np.array_equal(a, b) for a, b in zip(outputs, host.run(inputs), strict=True)), network.kind
    return device.costs


if __name__ == "__main__":
    main()
