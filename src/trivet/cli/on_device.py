"""What `run --on` and `bench --on` share: an artifact on an emulated machine."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.cli.options import UsageError, choose
from trivet.core.late import late
from trivet.ir.op import Array
from trivet.passes.traces import random_array

if TYPE_CHECKING:
    from trivet.device import build, emulated, machines, tools
    from trivet.device import network as networks
else:
    build = late("trivet.device.build")
    emulated = late("trivet.device.emulated")
    machines = late("trivet.device.machines")
    networks = late("trivet.device.network")
    tools = late("trivet.device.tools")


def add_device(parser: argparse.ArgumentParser, many: bool = False) -> None:
    """Which machine, and how to compile for it."""
    group = parser.add_argument_group("emulated machines")
    names = "MACHINE[,MACHINE]" if many else "MACHINE"
    group.add_argument("--on", metavar=names, help="run on a machine that QEMU emulates (mps2-an386, mps3-an547, ...)")
    group.add_argument(
        "--cc",
        choices=("gcc", "clang", "zig"),
        help="cross compiler (default: the first that is here)",
    )
    group.add_argument(
        "--cflags", type=shlex.split, default=[], metavar="FLAGS", help="flags for it, after -O2 (--cflags=-Os)"
    )
    group.add_argument(
        "--strict-alignment", action="store_true", help="trap unaligned accesses, and compile without any"
    )


def machine_named(name: str) -> machines.Machine:
    """Raises: UsageError."""
    found: machines.Machine = machines.BY_NAME[choose("machine", name, machines.BY_NAME)]
    return found


def put_on(network: networks.Network, machine: machines.Machine, arguments: argparse.Namespace) -> emulated.Emulated:
    """The network, built for a machine as the flags say.

    Raises: UsageError where a tool is not installed, CompileError.
    """
    options = build.BuildOptions(tuple(arguments.cflags), arguments.strict_alignment)
    kind = emulated.EmulatedPlan if network.kind == "plan" else emulated.Emulated
    return kind(network, machine, toolchain_of(machine, arguments), options)


def toolchain_of(machine: machines.Machine, arguments: argparse.Namespace) -> tools.Toolchain:
    """Everything that an emulation takes is asked for before anything is built.

    Raises: UsageError with the commands that install what is missing.
    """
    missing = []
    found = None
    try:
        found = tools.toolchain(machine, arguments.cc)
    except tools.ToolMissing as error:
        missing.append(error)
    for find in (tools.host_compiler, lambda: tools.find(machine.emulator)):
        try:
            find()
        except tools.ToolMissing as error:
            missing.append(error)
    if missing or found is None:
        raise UsageError("\n".join(str(error) for error in missing))
    return found


def random_inputs(path: Path, device: emulated.Emulated, seed: int) -> list[Array]:
    """As `trivet run` draws them on this machine."""
    if not driver.is_module(path):
        return Artifact.read(path).random_inputs(seed)
    rng = np.random.default_rng(seed)
    return [random_array(port.type, rng, port.accepts) for port in device.input_ports]


def profile(costs: emulated.Costs) -> list[str]:
    """Layers, and the functions that take the most."""
    total = costs.instructions or 1
    lines = [
        f"{c.instructions:12,} {c.instructions / total:6.1%} {c.calls:6} calls  {c.layer.kernel:20} {c.layer.name}"
        for c in costs.layers
    ]
    if not costs.layers:
        lines.append("(layers cannot be told apart: compile the module with --schedule table)")
    lines.append("functions:")
    for name, count in list(costs.functions.items())[:12]:
        lines.append(f"{count:12,} {count / total:6.1%}  {name}")
    return lines
