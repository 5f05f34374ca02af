"""Many plans in one start of an emulator: one program, into which they are read one after the other."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trivet.artifact import model_port
from trivet.backends.module.amalgamate import INTERFACE
from trivet.backends.plan.reader import PlanInfo, read
from trivet.core.record import dataclass
from trivet.device.build import BuildOptions, build
from trivet.device.emulate import emulate
from trivet.device.machines import Machine
from trivet.device.network import (
    Network,
    NetworkMemory,
    description,
    kernel_table,
    owned,
    runtime_sources,
)
from trivet.device.tools import Toolchain
from trivet.interp import to_model, to_storage
from trivet.ir.op import Array


@dataclass(frozen=True, slots=True)
class Case:
    """A plan of one memory, and inputs for it in the model's own shapes."""

    data: bytes
    inputs: Sequence[Array]


@dataclass(frozen=True, slots=True)
class Result:
    """What a case gave, in the model's own shapes, and the instructions that the run took."""

    outputs: Sequence[Array]
    instructions: int


def run_cases(
    cases: Sequence[Case], machine: Machine, toolchain: Toolchain, options: BuildOptions | None = None
) -> list[Result]:
    """The results of all cases, in their order.

    Raises: ToolMissing, CompileError where a case is refused or traps.
    """
    plans = [read(case.data) for case in cases]
    with tempfile.TemporaryDirectory(prefix="trivet-device-") as directory:
        built = build(machine, _network(cases, plans), toolchain, options or BuildOptions(), Path(directory))
        emulation = emulate(machine, built, _stored(cases, plans))
    results, at = [], 0
    for plan, instructions in zip(plans, emulation.phases["run"], strict=True):
        outputs = []
        for info in plan.outputs:
            data = emulation.outputs[at : at + info.tensor.size_bytes]
            at += len(data)
            array = np.frombuffer(data, info.tensor.dtype.numpy).reshape(info.tensor.shape)
            outputs.append(to_model(array, model_port(info)))
        results.append(Result(outputs, instructions))
    return results


def _stored(cases: Sequence[Case], plans: Sequence[PlanInfo]) -> bytes:
    parts = [struct.pack("<I", len(cases))]
    for case, plan in zip(cases, plans, strict=True):
        parts += [struct.pack("<I", len(case.data)), case.data]
        ports = [model_port(port) for port in plan.inputs]
        parts += [to_storage(array, port).tobytes() for array, port in zip(case.inputs, ports, strict=True)]
    return b"".join(parts)


def _network(cases: Sequence[Case], plans: Sequence[PlanInfo]) -> Network:
    """The runtime with every kernel that a case needs, an arena and room for a plan."""
    assert all(len(plan.regions) == 1 and not plan.has_rows for plan in plans), "cases have one memory, and no rows"
    kernels = sorted({step.kernel for plan in plans for step in plan.steps})
    arena = max(plan.regions[0].size_bytes for plan in plans)
    memories = [NetworkMemory("arena", arena), NetworkMemory("plan", max(len(case.data) for case in cases))]
    own = "".join(owned(index, memory.size_bytes) for index, memory in enumerate(memories))
    files = {"device_network.c": description((), (), len(memories), 0) + own, "kernel_table.c": kernel_table(kernels)}
    return Network(
        kind="cases",
        files={name: text.encode() for name, text in files.items()},
        sources=runtime_sources(tuple(kernels)),
        include=(INTERFACE,),
        defines=(),
        inputs=(),
        outputs=(),
        memories=memories,
        layers=(),
        constant_bytes=0,
        main="device_cases.c",
    )
