"""`trivet inspect`: what a model or an artifact holds."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from trivet import driver
from trivet.backends.plan.reader import PlanInfo, PortInfo, read_file
from trivet.cli.options import add_model, add_output_style, note, print_json
from trivet.cli.settings import settings_from
from trivet.ir.graph import Graph, Port
from trivet.ir.text.printer import print_op, print_type


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.model)
    if path.suffix == ".tgrs":
        plan = read_file(path)
        if arguments.json:
            print_json(_plan_json(plan))
        else:
            _print_plan(plan, arguments.verbose)
        return 0
    loaded = driver.load(path, settings_from(arguments))
    for remark in loaded.notes:
        note(f"note: {remark}", arguments.quiet)
    if arguments.json:
        print_json(_graph_json(loaded.graph))
    else:
        _print_graph(loaded.graph)
    return 0


def _print_graph(graph: Graph) -> None:
    for kind, ports in (("input", graph.input_ports), ("output", graph.output_ports)):
        for port in ports:
            print(f"{kind} {port.name}: {print_type(port.type)}{_order(port.perm)}")
    for state in graph.states:
        print(f"state {state.read.name}: {print_type(state.read.type)}")
    counts = Counter(node.op.name for node in graph.nodes)
    print(f"{len(graph.nodes)} operators: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    weights = sum(value.type.size_bytes for value in graph.constants())
    print(f"constants: {weights:,} bytes")
    for node in graph.nodes:
        results = ", ".join(f"{v.name}: {v.type}" for v in node.outputs)
        print(f"  {results} = {print_op(node.op)}")


def _graph_json(graph: Graph) -> dict[str, object]:
    def port(p: Port) -> dict[str, object]:
        return {"name": p.name, "dtype": p.type.dtype.name, "shape": list(p.type.shape)}

    return {
        "inputs": [port(p) for p in graph.input_ports],
        "outputs": [port(p) for p in graph.output_ports],
        "states": [s.read.name for s in graph.states],
        "operators": dict(Counter(node.op.name for node in graph.nodes)),
        "constant_bytes": sum(value.type.size_bytes for value in graph.constants()),
    }


def _print_plan(plan: PlanInfo, verbose: bool) -> None:
    sections = ", ".join(f"{name} {size:,}" for name, size in plan.section_bytes.items() if size)
    print(f"plan of {plan.size_bytes:,} bytes: {sections}")
    for region in plan.regions:
        print(f"region {region.name}: {region.size_bytes:,} bytes, aligned to {region.alignment}")
    for kind, ports in (("input", plan.inputs), ("output", plan.outputs)):
        for port in ports:
            quant = f"{{scale={port.scale:g}, zero={port.zero_point}}}" if port.scale else ""
            shape = list(port.tensor.shape)
            accepts = f" in [{port.accepts.lo}, {port.accepts.hi}]" if port.accepts is not None else ""
            print(f"{kind} {port.name}: {port.tensor.dtype.name}{shape}{quant}{_order(port.perm)}{accepts}")
    print(f"{len(plan.steps)} steps in {len(plan.streams)} streams, {len(plan.stages)} stages")
    for number, stream in enumerate(plan.streams):
        for index in stream:
            step = plan.steps[index]
            how = "whole" if step.firings <= 1 else f"{step.firings} x {step.rows} rows"
            print(f"  stream {number:3d}  {step.kernel:24} {how:14} {step.name}")
    if verbose:
        for tensor in plan.tensors:
            ring = f", ring of {tensor.depth} rows" if tensor.depth < tensor.height else ""
            place = f"{tensor.offset:8d} .. {tensor.offset + tensor.size_bytes:8d}"
            print(f"  {place}  {tensor.dtype.name}{list(tensor.shape)} {tensor.name}{ring}")


def _plan_json(plan: PlanInfo) -> dict[str, object]:
    def port(p: PortInfo) -> dict[str, object]:
        accepts = None if p.accepts is None else [p.accepts.lo, p.accepts.hi]
        shape = list(p.tensor.shape)
        return {"name": p.name, "dtype": p.tensor.dtype.name, "shape": shape, "perm": p.perm, "accepts": accepts}

    return {
        "size_bytes": plan.size_bytes,
        "section_bytes": dict(plan.section_bytes),
        "regions": [asdict(region) for region in plan.regions],
        "inputs": [port(p) for p in plan.inputs],
        "outputs": [port(p) for p in plan.outputs],
        "steps": [
            {"name": s.name, "kernel": s.kernel, "firings": s.firings, "rows": s.rows, "scratch_bytes": s.scratch_bytes}
            for s in plan.steps
        ],
        "streams": [list(stream) for stream in plan.streams],
        "stages": [list(stage) for stage in plan.stages],
    }


def _order(perm: tuple[int, ...] | None) -> str:
    return "" if perm is None else f" (model axes are storage axes {list(perm)})"
