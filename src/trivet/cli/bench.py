"""`trivet bench`: time and memory of a model on this machine, layer by layer."""

from __future__ import annotations

import argparse

from trivet import driver
from trivet.artifact import Artifact
from trivet.cli.options import add_budgets, add_model, add_output_style, add_pipeline, positive, print_json
from trivet.cli.settings import settings_from
from trivet.report import plan_report


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_budgets(parser)
    add_pipeline(parser)
    parser.add_argument("--repeat", type=positive, default=50, metavar="N", help="runs to measure")
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
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
