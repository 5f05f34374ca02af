"""`trivet run`: an artifact on this machine, its outputs, its measures, and what they are worth."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.backends.target import RunOptions
from trivet.checking import Runs, ShowsLayers, Verdict, check
from trivet.cli import on_device
from trivet.cli.options import (
    UsageError,
    add_output_style,
    add_reading,
    choose,
    named_file,
    natural,
    note,
    positive,
    print_json,
)
from trivet.cli.settings import machine_of, read_array, settings_from
from trivet.core.late import late
from trivet.errors import DoesNotFit, Unsupported
from trivet.ir.op import Array
from trivet.simulated import Simulated

if TYPE_CHECKING:
    from trivet.device import emulated
else:
    emulated = late("trivet.device.emulated")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "artifact", type=Path, metavar="ARTIFACT", help=f"one of {', '.join(('.tgrs', *driver.ARTIFACTS))}"
    )
    group = parser.add_argument_group("inputs and outputs")
    group.add_argument(
        "-i",
        "--input",
        action="append",
        type=named_file,
        default=[],
        metavar="[NAME=]x.npy",
        help="an input, in the order of the model's inputs or by name",
    )
    group.add_argument(
        "--random", type=natural, default=0, metavar="SEED", help="draw the inputs that -i does not give"
    )
    group.add_argument("-o", "--output", type=Path, metavar="DIR", help="write output_0.npy, output_1.npy, ...")
    group.add_argument("--dump-layers", type=Path, metavar="DIR", help="write every layer's result as .npy")
    parser.add_argument(
        "--check", type=Path, metavar="MODEL", help="compare with the oracle and the reference runtimes"
    )
    parser.add_argument("--profile", action="store_true", help="time every layer")
    parser.add_argument("--repeat", type=positive, default=1, metavar="N", help="runs to take the median latency of")
    group = parser.add_argument_group("simulators of accelerators")
    group.add_argument("--trace", type=Path, metavar="FILE.json", help="write a Chrome trace (Perfetto reads it)")
    group.add_argument("--check-races", action="store_true", help="look for data races between threads")
    parser.add_argument("--target", metavar="NAME", help="board that a plan must fit: its fast memory and its flash")
    on_device.add_device(parser)
    add_reading(parser)
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.on is not None:
        return _emulate(arguments)
    if driver.accelerator_of(arguments.artifact) is not None or driver.is_module(arguments.artifact):
        return _simulate(arguments)
    artifact = Artifact.read(arguments.artifact)
    _check_memories(artifact, arguments)
    inputs = _inputs(artifact, arguments.input, arguments.random)
    high_water = artifact.high_water(inputs)
    artifact.reset()
    outputs = artifact.run(inputs)
    verdicts = _verdicts(artifact, arguments, inputs, outputs)
    if arguments.dump_layers is not None:
        _dump_layers(artifact, inputs, arguments.dump_layers)
    measures = _measures(artifact, inputs, high_water, arguments)
    summary = (
        f"arena {measures['arena_bytes']:,} bytes, high-water mark {measures['high_water_bytes']:,}, "
        f"{_others(artifact, high_water)}{measures['latency_us']} us per inference"
    )
    return _tell(artifact, outputs, measures, summary, verdicts, arguments)


def _simulate(arguments: argparse.Namespace) -> int:
    """An accelerator's artifact, on its simulator."""
    for flag in ("dump_layers", "profile", "target"):
        if getattr(arguments, flag):
            raise UsageError(f"--{flag.replace('_', '-')} is for plans, {arguments.artifact} is none")
    artifact = Simulated(arguments.artifact, RunOptions(arguments.trace, arguments.check_races))
    inputs = _inputs(artifact, arguments.input, arguments.random)
    outputs = artifact.run(inputs)
    summary, figures = artifact.summary(), artifact.figures()
    return _tell(artifact, outputs, figures, summary, _verdicts(artifact, arguments, inputs, outputs), arguments)


def _emulate(arguments: argparse.Namespace) -> int:
    """A plan or a module, on an emulated machine."""
    if driver.accelerator_of(arguments.artifact) is not None:
        raise UsageError(f"--on is for plans and C modules, {arguments.artifact} is none")
    for flag in ("trace", "check_races", "target"):
        if getattr(arguments, flag):
            raise UsageError(f"--{flag.replace('_', '-')} does not go with --on")
    if arguments.dump_layers is not None and driver.is_module(arguments.artifact):
        raise UsageError(f"--dump-layers is for plans, {arguments.artifact} is none")
    machine = on_device.machine_named(arguments.on)
    on_device.toolchain_of(machine, arguments)
    device = on_device.put_on(emulated.network_of(arguments.artifact), machine, arguments)
    inputs = _given(device, on_device.random_inputs(arguments.artifact, device, arguments.random), arguments.input)
    outputs = device.run(inputs)
    verdicts = _verdicts(device, arguments, inputs, outputs)
    if arguments.dump_layers is not None and isinstance(device, ShowsLayers):
        _dump_layers(device, inputs, arguments.dump_layers)
    code = _tell(device, outputs, device.costs.as_json(), device.costs.summary(), verdicts, arguments)
    if arguments.profile and not arguments.json:
        print("\n".join(on_device.profile(device.costs)))
    return code


def _check_memories(artifact: Artifact, arguments: argparse.Namespace) -> None:
    """Raises: DoesNotFit where the plan is too large for the board of --target."""
    board = None if arguments.target is None else machine_of(arguments.target)
    if board is None:
        return
    for kind, size in (("fast", artifact.arena_bytes), ("flash", arguments.artifact.stat().st_size)):
        budget = board.budget(kind)
        if budget is not None and size > budget:
            raise DoesNotFit(
                f"needs {size:,} bytes of {kind} memory, {size - budget:,} more than {board.name} has",
                where=arguments.artifact,
                hint=f"compile with --target {arguments.target}",
            )


def _verdicts(
    artifact: Runs, arguments: argparse.Namespace, inputs: Sequence[Array], outputs: Sequence[Array]
) -> list[Verdict]:
    if arguments.check is None:
        return []
    return check(artifact, arguments.check, settings_from(arguments), inputs, outputs)


def _tell(
    artifact: Runs,
    outputs: Sequence[Array],
    measures: Mapping[str, object],
    summary: str,
    verdicts: Sequence[Verdict],
    arguments: argparse.Namespace,
) -> int:
    """Writes and prints what came out; the exit code says whether it is right."""
    if arguments.output is not None:
        _write_arrays(arguments.output, {f"output_{i}": a for i, a in enumerate(outputs)})
    if arguments.json:
        print_json({**measures, "check": [_verdict_json(v) for v in verdicts], "outputs": _shapes(outputs)})
    else:
        _print(artifact, outputs, measures, summary, verdicts, arguments.quiet)
    return 1 if any(v.failed for v in verdicts) else 0


def _inputs(artifact: Artifact | Simulated, given: Sequence[tuple[str | None, str]], seed: int) -> list[Array]:
    """Inputs from files, by position or by name; the rest is drawn."""
    return _given(artifact, artifact.random_inputs(seed), given)


def _given(artifact: Runs, inputs: list[Array], given: Sequence[tuple[str | None, str]]) -> list[Array]:
    """Inputs, some of them from files, by position or by name.

    Raises: UsageError for too many or unknown ones, CompileError for a bad file.
    """
    names = [port.name for port in artifact.input_ports]
    position = 0
    for name, path in given:
        if name is None:
            index, position = position, position + 1
        else:
            index = names.index(choose("input", name, names))
        if index >= len(inputs):
            raise UsageError(f"the artifact has {len(inputs)} inputs ({', '.join(names)}), -i {path} is one too many")
        inputs[index] = read_array(Path(path))
    return inputs


def _measures(
    artifact: Artifact, inputs: Sequence[Array], high_water: Sequence[int], arguments: argparse.Namespace
) -> dict[str, object]:
    measures: dict[str, object] = {
        "arena_bytes": artifact.arena_bytes,
        "high_water_bytes": high_water[0],
        "memories": [
            {"name": region.name, "bytes": region.size_bytes, "high_water_bytes": touched}
            for region, touched in zip(artifact.plan.regions, high_water, strict=True)
        ],
        "latency_us": round(artifact.latency_us(inputs, arguments.repeat), 3),
    }
    if arguments.profile:
        layers = artifact.profile(inputs, max(5, arguments.repeat))
        measures["layers"] = [{"name": t.name, "kernel": t.kernel, "us": t.nanoseconds / 1e3} for t in layers]
    return measures


def _others(artifact: Artifact, high_water: Sequence[int]) -> str:
    """Memories beside the arena."""
    pairs = zip(artifact.plan.regions[1:], high_water[1:], strict=True)
    return "".join(f"{r.name} memory {r.size_bytes:,} bytes, high-water mark {touched:,}, " for r, touched in pairs)


def _write_arrays(directory: Path, arrays: dict[str, Array]) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            np.save(directory / f"{name}.npy", array)
    except OSError as error:
        raise Unsupported(f"cannot write: {error.strerror or error}", where=directory) from None


def _dump_layers(artifact: ShowsLayers, inputs: Sequence[Array], directory: Path) -> None:
    layers: dict[str, Array] = {}

    def observe(name: str, array: Array) -> None:
        layers[f"{len(layers):03d}_" + "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[-100:]] = array

    if isinstance(artifact, Artifact):
        artifact.reset()
    artifact.run_layers(inputs, observe)
    _write_arrays(directory, layers)


def _shapes(outputs: Sequence[Array]) -> list[dict[str, object]]:
    return [{"dtype": str(a.dtype), "shape": list(a.shape)} for a in outputs]


def _verdict_json(verdict: Verdict) -> dict[str, object]:
    return {
        "authority": verdict.authority,
        "binding": verdict.binding,
        "failed": verdict.failed,
        "remark": verdict.remark,
        "differing": [c.differing for c in verdict.outputs],
        "elements": [c.elements for c in verdict.outputs],
        "largest": [c.largest for c in verdict.outputs],
    }


def _print(
    artifact: Runs,
    outputs: Sequence[Array],
    measures: Mapping[str, object],
    summary: str,
    verdicts: Sequence[Verdict],
    quiet: bool,
) -> None:
    for port, array in zip(artifact.output_ports, outputs, strict=True):
        head = " ".join(str(v) for v in array.ravel()[:10])
        print(f"{port.name}: {array.dtype}{list(array.shape)}: {head}{' ...' if array.size > 10 else ''}")
    layers = measures.get("layers")
    if isinstance(layers, list) and isinstance(artifact, Artifact):
        for layer in layers:
            print(f"{layer['us']:10.1f} us  {layer['kernel']:20} {layer['name']}")
    note(summary, quiet)
    for verdict in verdicts:
        print(("FAIL  " if verdict.failed else "ok    " if verdict.outputs else "      ") + str(verdict))
