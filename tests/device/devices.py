"""What tests on emulated machines share: the tools, the networks, a program for a model."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from networks import shared_directory
from trivet import driver
from trivet.device import tools
from trivet.device.build import BuildOptions
from trivet.device.emulated import EmulatedPlan
from trivet.device.machines import BY_NAME, Machine
from trivet.device.network import plan_network

CHECKOUT = Path(__file__).resolve().parents[2]
DIGITS = CHECKOUT / "examples" / "models" / "digits_int8.tflite"
MLPERF_TINY = ("tiny__kws_ref_model", "tiny__vww_96_int8", "tiny__pretrainedResnet_quant", "tiny__ad01_int8")
M4, M55 = "mps2-an386", "mps3-an547"


def toolchain(machine: Machine, compiler: str = "gcc") -> tools.Toolchain:
    """Skips the test where a tool is absent."""
    try:
        tools.find(machine.emulator)
        return tools.toolchain(machine, compiler)
    except tools.ToolMissing as error:
        pytest.skip(str(error))


def model_path(name: str) -> Path:
    """A model of the shared networks, or the project's own; skips the test where it is absent."""
    if name == "digits":
        return DIGITS
    root = shared_directory()
    path = None if root is None else root / "models" / "networks" / "tflite" / f"{name}.tflite"
    if path is None or not path.is_file():
        pytest.skip(f"{name} is absent: set TRIVET_SHARED to the directory of real networks")
    return path


@cache
def compiled_for(name: str, machine: str, fast_bytes: int | None = None) -> driver.Compiled:
    """The plan of a model, with the kernels of the machine."""
    settings = driver.Settings(target=BY_NAME[machine].target, fast_bytes=fast_bytes)
    return driver.build(driver.load(model_path(name), settings), settings)


def on_machine(data: bytes, machine: str, options: BuildOptions | None = None, compiler: str = "gcc") -> EmulatedPlan:
    """A plan, built for a machine."""
    board = BY_NAME[machine]
    return EmulatedPlan(plan_network(data), board, toolchain(board, compiler), options)


__all__ = ["CHECKOUT", "DIGITS", "M4", "M55", "MLPERF_TINY", "compiled_for", "on_machine", "toolchain"]
