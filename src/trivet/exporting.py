"""From a model file to a C module on disk, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from trivet import driver, interp
from trivet.backends.module.export import Request, archive, module_files
from trivet.backends.module.harness import Sample
from trivet.backends.module.names import check_prefix, default_prefix
from trivet.backends.module.options import Memory, ModuleOptions, ScheduleStyle, Style
from trivet.core.record import dataclass
from trivet.errors import Unsupported
from trivet.extending import load_extensions
from trivet.ir.graph import Value
from trivet.ir.op import Array
from trivet.passes.manager import Instrument
from trivet.passes.traces import model_inputs
from trivet.planning.plan import Step
from trivet.report import PlanReport, plan_report

SAMPLES = 3
"""Runs that a test program compares."""


@dataclass(frozen=True, slots=True)
class ModuleRequest:
    """What the user says of a module. `prefix` None: from the model's file name; `samples` runs are compared in a test.

    `overwrite` replaces what is at the output; else that is an error.
    """

    prefix: str | None = None
    style: Style = Style.CODE
    schedule: ScheduleStyle = ScheduleStyle.STATIC
    memory: Memory = Memory.STATIC
    export: str = "cmake"
    samples: int = 0
    overwrite: bool = False

    def options(self, model: Path) -> ModuleOptions:
        """Raises: Unsupported for a prefix that C does not take."""
        prefix = default_prefix(model.stem) if self.prefix is None else check_prefix(self.prefix)
        return ModuleOptions(prefix, self.style, self.schedule, self.memory, self.export)


def compile_module(
    model: Path,
    output: Path,
    settings: driver.Settings,
    request: ModuleRequest,
    instruments: Sequence[Instrument] = (),
) -> tuple[PlanReport, tuple[str, ...]]:
    """Writes a folder, or an archive if `output` ends in .zip or .pack; what it needs, and notes for the user.

    Raises: CompileError where the model cannot be compiled or the output cannot be written.
    """
    options = request.options(model)
    if settings.compress and options.style is Style.CODE:
        raise Unsupported(
            "a module whose schedule is code does not decode constants",
            where=output,
            hint="use --style plan, or leave out --compress; --no-xip copies them to memory",
        )
    check_output(output, request.overwrite)
    loaded = driver.load(model, settings)
    compiled = driver.build(loaded, settings, instruments)
    made = module_files(
        Request(
            plan=compiled.plan,
            selection=compiled.selection,
            data=compiled.data,
            name=model.stem,
            options=options,
            model_sha256={model.name: hashlib.sha256(model.read_bytes()).hexdigest()},
            configuration=configuration(settings, options),
            samples=samples(compiled, settings, options, request.samples),
        )
    )
    write_module(output, made, request.overwrite)
    return plan_report(compiled), loaded.notes


def configuration(settings: driver.Settings, options: ModuleOptions) -> dict[str, object]:
    """What decides the bytes of a module, as JSON-ready values; nothing of where or when."""
    found: dict[str, object] = {
        "level": settings.level,
        "passes": settings.passes,
        "disabled": sorted(settings.disabled),
        "pass_options": {name: dict(sorted(o.items())) for name, o in sorted(settings.pass_options.items())},
        "numerics": None if settings.numerics is None else settings.numerics.value,
        "fast_bytes": settings.fast_bytes,
        "slow_bytes": settings.slow_bytes,
        "flash_bytes": settings.flash_bytes,
        "objective": settings.objective.value,
        "allocator": settings.allocator.value,
        "preserve_input": settings.preserve_input,
        "target": None if settings.target is None else Path(settings.target).name,
        "portable_kernels": settings.portable_kernels,
        "extensions": [str(extension) for extension in load_extensions()],
        "subgraph": settings.subgraph,
        "input_shapes": {name: list(shape) for name, shape in sorted(settings.input_shapes.items())},
        "bindings": sorted(settings.bindings),
    }
    chosen = {
        "prefix": options.prefix,
        "style": options.style.value,
        "schedule": options.schedule.value,
        "memory": options.memory.value,
        "export": options.export,
    }
    return found | chosen


def samples(compiled: driver.Compiled, settings: driver.Settings, options: ModuleOptions, count: int) -> list[Sample]:
    """Seeded inputs of runs that follow each other from the initial states, with the oracle's outputs.

    Where the module calls back around layers, with the first result of each as well, if it is no float.
    """
    graph = compiled.graph
    states = [state.initial for state in graph.states]
    found = []
    for seed in range(count):
        arrays = model_inputs(graph, seed, settings.i32)[0][0]
        inputs = [interp.to_storage(array, port) for array, port in zip(arrays, graph.input_ports, strict=True)]
        layers = _layer_results(compiled, inputs, states) if options.has_callback else []
        outputs, states = interp.run(graph, inputs, states)
        found.append(Sample(inputs, outputs, layers=layers))
    return found


def _layer_results(compiled: driver.Compiled, inputs: Sequence[Array], states: Sequence[Array]) -> list[Array | None]:
    """The first result of every step, None for floats."""
    values: dict[str, Array] = {}

    def keep(value: Value, array: Array) -> None:
        if array.dtype.kind != "f":
            values[value.name] = array

    interp.run(compiled.plan.graph, inputs, states, keep)
    return [values.get(_result_name(step)) for step in compiled.plan.steps()]


def _result_name(step: Step) -> str:
    """The first result of a step that makes it row by row; nothing for one that adds up its operand's rows."""
    outputs = step.node.outputs
    return "" if step.accumulates or not outputs else outputs[0].name


def check_output(output: Path, overwrite: bool) -> None:
    """Raises: Unsupported where something is in the way; a folder that is no module is never replaced."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not overwrite:
        raise Unsupported("is there already", where=output, hint="--force replaces it")
    if output.is_dir() and not (output / "build-record.json").is_file():
        raise Unsupported("is a folder, and no C module", where=output, hint="choose another -o")


def write_module(output: Path, files: Mapping[str, bytes], overwrite: bool) -> None:
    """A folder, or an archive; what was there is replaced at the very end, if that is allowed.

    Raises: Unsupported.
    """
    check_output(output, overwrite)
    if output.suffix in driver.MODULE_ARCHIVES:
        driver.write_file(output, archive(files))
        return
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    except OSError as error:
        raise _unwritable(output, error) from None
    try:
        temporary.chmod(0o755)
        for path, data in files.items():
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).write_bytes(data)
        _replace(temporary, output)
    except OSError as error:
        raise _unwritable(output, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(made: Path, output: Path) -> None:
    """Moves a finished folder to its place; what was there comes back if that fails."""
    if not output.exists():
        made.rename(output)
        return
    old = made.with_name(made.name + "-old")
    output.rename(old)
    try:
        made.rename(output)
    except OSError:
        old.rename(output)
        raise
    if old.is_dir():
        shutil.rmtree(old, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            old.unlink()


def _unwritable(output: Path, error: OSError) -> Unsupported:
    return Unsupported(f"cannot write: {error.strerror or error}", where=output, hint="choose another -o")
