"""`trivet bench`: time and memory of a model on this machine, or instructions on emulated ones, layer by layer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trivet import driver
from trivet.artifact import Artifact
from trivet.cli import on_device
from trivet.cli.options import add_budgets, add_model, add_output_style, add_pipeline, note, positive, print_json
from trivet.cli.settings import settings_from
from trivet.core.late import late
from trivet.report import plan_report

if TYPE_CHECKING:
    from trivet.device import network
else:
    network = late("trivet.device.network")


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_budgets(parser)
    add_pipeline(parser)
    parser.add_argument("--repeat", type=positive, default=50, metavar="N", help="runs to measure")
    on_device.add_device(parser, many=True)
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    return _here(arguments) if arguments.on is None else _emulated(arguments)


def _here(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    compiled = driver.build(driver.load(arguments.model, settings), settings)
    report = plan_report(compiled)
    artifact = Artifact(compiled.data)
    inputs = artifact.random_inputs(0)
    high_water = artifact.high_water_bytes(inputs)
    latency = artifact.latency_us(inputs, arguments.repeat)
    layers = artifact.profile(inputs, arguments.repeat)
    if arguments.json:
        rows = [{"name": t.name, "kernel": t.kernel, "us": t.nanoseconds / 1e3} for t in layers]
        measured = {"latency_us": round(latency, 3), "high_water_bytes": high_water, "layers": rows}
        print_json({**report.as_json(), **measured})
        return 0
    total = sum(t.nanoseconds for t in layers) or 1
    for layer in layers:
        print(f"{layer.nanoseconds / 1e3:10.1f} us {layer.nanoseconds / total:6.1%}  {layer.kernel:20} {layer.name}")
    print(f"{latency:10.1f} us per inference (median of {arguments.repeat}), {report.macs / latency / 1e3:.2f} MACs/ns")
    print(f"{high_water:,} of {report.fast_bytes:,} bytes of fast memory touched; {report.summary()}")
    return 0


def _emulated(arguments: argparse.Namespace) -> int:
    """Every machine gets a plan of its own, as it decides kernels and budgets."""
    machines = [on_device.machine_named(name) for name in arguments.on.split(",")]
    for machine in machines:
        on_device.toolchain_of(machine, arguments)
    found = []
    for machine in machines:
        settings = settings_from(argparse.Namespace(**{**vars(arguments), "target": machine.target}))
        compiled = driver.build(driver.load(arguments.model, settings), settings)
        report = plan_report(compiled)
        device = on_device.put_on(network.plan_network(compiled.data), machine, arguments)
        inputs = Artifact(compiled.data).random_inputs(0)
        device.run(inputs)
        found.append({**report.as_json(), **device.costs.as_json()})
        if not arguments.json:
            print("\n".join(on_device.profile(device.costs)))
            note(device.costs.summary(), arguments.quiet)
            print(f"{report.macs / device.costs.instructions:.2f} MACs per instruction; {report.summary()}\n")
    if arguments.json:
        print_json({"machines": found})
    return 0
