"""The road from a file to an artifact and its outputs: the only module that knows every frontend, pass and backend."""

from __future__ import annotations

import contextlib
import importlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from trivet.backends.plan import weights
from trivet.backends.plan.kernels.table import REQUIRES
from trivet.backends.plan.legalize import LegalizePlan
from trivet.backends.plan.selection import Selection
from trivet.backends.plan.weights import Weights
from trivet.backends.plan.writer import write as write_plan
from trivet.backends.table import NO_FEATURES
from trivet.core.interval import Interval
from trivet.core.late import late
from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.errors import DoesNotFit, InvalidModel, Unsupported
from trivet.extending import load_extensions
from trivet.frontends.options import Loaded, LoadOptions, text_of
from trivet.ir.graph import Graph
from trivet.ir.op import Array
from trivet.ops import OP_BY_NAME
from trivet.passes.base import Pass
from trivet.passes.catalog import all_passes, parse_pipeline, whole_pipeline
from trivet.passes.manager import Instrument, PassManager, Pipeline
from trivet.planning.options import Allocator, Objective, PlanOptions
from trivet.planning.plan import ExecutionPlan
from trivet.planning.planner import plan as make_plan

if TYPE_CHECKING:
    from trivet import targets
    from trivet.backends import target as machines
    from trivet.backends.module import host as modules
    from trivet.backends.plan import room
    from trivet.backends.target import Backend, Emitted, Machine, Runnable, RunOptions
    from trivet.ir.text import parser
    from trivet.passes import bisect as bisecting
    from trivet.passes import border_rows, stages
    from trivet.passes import options as pass_options
    from trivet.planning import regions, validate
    from trivet.planning.memories import Memories
    from trivet.targets import Target
else:
    targets = late("trivet.targets")
    machines = late("trivet.backends.target")
    room = late("trivet.backends.plan.room")
    validate = late("trivet.planning.validate")
    modules = late("trivet.backends.module.host")
    parser = late("trivet.ir.text.parser")
    bisecting = late("trivet.passes.bisect")
    stages = late("trivet.passes.stages")
    pass_options = late("trivet.passes.options")
    border_rows = late("trivet.passes.border_rows")
    regions = late("trivet.planning.regions")

Load = Callable[[Path, LoadOptions], Loaded]

FRONTENDS = {
    ".onnx": "trivet.frontends.onnx.convert",
    ".tflite": "trivet.frontends.tflite.convert",
    ".tiny": "trivet.frontends.tiny.convert",
}
"""Where each model format is read; the module is imported when such a file is met, and has `load(path, options)`."""

FORMATS = (*(suffix[1:] for suffix in FRONTENDS), "tir")
"""What a model's file may be."""


ACCELERATORS: dict[str, str] = {"tpu": "trivet.backends.tpu.target", "gpu": "trivet.backends.gpu.target"}
"""Machines other than the C runtime; the module is imported when one is asked for, and has a `BACKEND`."""

MODULE_ARCHIVES = (".zip", ".pack")
"""C modules that are no folders."""

ARTIFACTS: dict[str, str] = {".json": "tpu", ".tgpu": "gpu", ".tgpu.json": "gpu"}
"""Which accelerator runs the artifacts of a suffix; the longest that ends a file's name decides. The first suffix of
an accelerator is that of what `compile` is asked to write."""

BACKENDS = ("plan", *ACCELERATORS)
"""What a graph can be legalized for, beside boards and cores."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a compilation does. Sizes are bytes; None means no limit.

    `passes` replaces the pipeline (`a,b,fixpoint(c,d)`); `disabled` names passes to leave out.
    `pass_options` are values of their options as text, by pass and option; `*` stands for every pass that has it.
    `format` is that of the model's file, where its suffix does not say it: one of `FORMATS`.
    `model_layout` keeps inputs and outputs in the model's own axis order inside the plan, at the cost of transposes.
    `target` is a board, a core, a file that describes one, or one of `BACKENDS`, the latter with an argument if it
    takes one: `tpu:16`; `machine` is a file that describes it, and `isa` names its instruction set. `memories` are
    several fast ones instead of `fast_bytes`. `warm_weights` copies the constants into memory when a plan is bound,
    `compress` packs them into blocks that are decoded when they are needed. `portable_kernels` leaves out kernels for
    features of the target.
    """

    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bindings: Mapping[str, Array] = field(default_factory=dict)
    subgraph: int = 0
    format: str | None = None
    numerics: Numerics | None = None
    level: int = 1
    passes: str | None = None
    disabled: frozenset[str] = frozenset()
    pass_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    fast_bytes: int | None = None
    memories: Memories | None = None
    slow_bytes: int | None = None
    flash_bytes: int | None = None
    preserve_input: bool = False
    input_rows: bool = False
    output_rows: bool = False
    max_overhead: float = 1.0
    objective: Objective = Objective.SPEED
    allocator: Allocator = Allocator.EXACT
    i32: Interval | None = None
    model_layout: bool = False
    warm_weights: bool = False
    compress: bool = False
    target: str | None = None
    machine: Path | None = None
    isa: str | None = None
    portable_kernels: bool = False

    @property
    def accelerator(self) -> str | None:
        """Which of `ACCELERATORS` the target is, if any."""
        name = None if self.target is None else self.target.partition(":")[0]
        return name if name in ACCELERATORS else None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A legal graph, its plan, and the plan as a `.tgrs` file; `notes` say what was decided for the user.

    `selection` knows the kernel of each step, and which were rejected.
    """

    graph: Graph
    plan: ExecutionPlan
    data: bytes
    notes: tuple[str, ...] = ()
    weights: Weights = Weights()
    selection: Selection = field(default_factory=Selection)


def load(path: str | Path, settings: Settings | None = None) -> Loaded:
    """The model in a file as a graph; the suffix says which frontend reads it.

    Raises: CompileError with all problems of the file.
    """
    load_extensions()
    settings = settings or Settings()
    file = Path(path)
    suffix = file.suffix if settings.format is None else f".{settings.format}"
    if suffix == ".tir":
        return Loaded(parser.parse_graph(_read_text(file), OP_BY_NAME, str(file)))
    if suffix not in FRONTENDS:
        known = ", ".join(f".{name}" for name in FORMATS)
        raise InvalidModel(f"'{suffix}' is no model format", where=file, hint=f"give one of {known}, or --format")
    frontend = cast(Load, importlib.import_module(FRONTENDS[suffix]).load)
    options = LoadOptions(settings.input_shapes, settings.numerics, settings.subgraph, settings.bindings)
    return frontend(file, options)


def optimize(
    graph: Graph, settings: Settings, instruments: Sequence[Instrument] = (), legalize: Sequence[Pass] = ()
) -> PassManager:
    """Run the graph pipeline in place, `legalize` at its end; the manager tells what ran.

    Raises: PassVerifyError, CompileError.
    """
    manager = PassManager(instruments, settings.disabled, arguments=_arguments(settings))
    manager.run(graph, pipeline_for(graph, settings, legalize))
    return manager


def bisect(path: str | Path, settings: Settings, legalize: Sequence[Pass] = (), seed: int = 0) -> bisecting.Bisection:
    """Which pass run breaks the program in a file, if one does.

    Raises: CompileError with all problems of the file.
    """
    pipeline = pipeline_for(load(path, settings).graph, settings, legalize)
    verify = partial(bisecting.VerifyWhole, seed, settings.i32)
    return bisecting.Bisector(lambda: load(path, settings).graph, pipeline, settings.disabled, verify).run()


def pipeline_for(graph: Graph, settings: Settings, legalize: Sequence[Pass] = ()) -> Pipeline:
    """What the settings ask for: their own `passes`, or those of their level and then `legalize`.

    Raises: UnknownPass.
    """
    if settings.passes is not None:
        pipeline = parse_pipeline(settings.passes, passes_by_name(settings))
    else:
        pipeline = (*whole_pipeline(graph, settings.level, settings.i32, not settings.model_layout), *legalize)
    return pass_options.configured(pipeline, settings.pass_options) if settings.pass_options else pipeline


def build(loaded: Loaded, settings: Settings, instruments: Sequence[Instrument] = ()) -> Compiled:
    """From an imported graph to a plan file, in memory. The graph is changed in place.

    Raises: CompileError (Problems for unsupported operators, DoesNotFit for budgets), PassVerifyError.
    """
    selection = legal_graph(loaded.graph, settings, instruments)
    compiled = write(loaded, fitting_plan(loaded.graph, selection, settings), selection, settings)
    check_flash(compiled, settings.flash_bytes)
    return compiled


def legal_graph(graph: Graph, settings: Settings, instruments: Sequence[Instrument] = ()) -> Selection:
    """Bring an imported graph, in place, to operators that have kernels: the kernels.

    Raises: Problems for operators without, PassVerifyError.
    """
    legalize = LegalizePlan(Selection(kernel_features(settings)))
    optimize(graph, settings, instruments, (*border_passes(settings), legalize))
    legalize.selection.check(graph)
    return legalize.selection


def write(loaded: Loaded, plan: ExecutionPlan, selection: Selection, settings: Settings) -> Compiled:
    """The plan of a legal graph as a file."""
    if selection.features:
        plan, selection = room.with_room(plan, selection, _room_limit(plan, settings))
        assert not validate.violations(plan), "work space is placed where memory is free"
    placed = place_weights(plan, selection, settings)
    return Compiled(loaded.graph, plan, write_plan(plan, selection, weights=placed), loaded.notes, placed, selection)


def _room_limit(plan: ExecutionPlan, settings: Settings) -> int | None:
    """How far the first memory may grow for work space: to the budget for speed, not at all for memory."""
    first = plan.memories[0] if plan.memories else None
    if first is None or settings.objective is Objective.MEMORY or settings.compress:
        return 0
    return first.size_bytes


def fitting_plan(graph: Graph, selection: Selection, settings: Settings) -> ExecutionPlan:
    """The plan of a legal graph within the settings' memories.

    Raises: DoesNotFit, Problems for memories that make no sense.
    """
    options = plan_options(settings, settings.objective)
    if settings.memories is not None:
        return regions.plan_in_regions(graph, settings.memories, settings.slow_bytes, selection, options)
    return make_plan(graph, settings.fast_bytes, settings.slow_bytes, selection, options)


def kernel_features(settings: Settings) -> frozenset[str]:
    """What kernels may require: the features of the target, none without one or with portable kernels only.

    Raises: Unsupported for a target that there is not.
    """
    target = None if settings.portable_kernels else board(settings)
    return NO_FEATURES if target is None else frozenset(target.features)


def board(settings: Settings) -> Target | None:
    """The board or core of the settings: None without one, for an accelerator, and for a bare backend.

    Raises: Unsupported for a target that there is not, CompileError for a user's file that describes none.
    """
    name = settings.target
    if name is None or name in BACKENDS or settings.accelerator is not None:
        return None
    load_extensions()
    target = targets.find_target(name)
    if target is None:
        known = ", ".join([*BACKENDS, *targets.target_names()])
        raise Unsupported(f"there is no target '{name}'", hint=f"choose one of {known}, or a FILE.toml")
    return target


def border_passes(settings: Settings) -> tuple[Pass, ...]:
    """What lets inputs or outputs go by rows, where the settings ask for it."""
    if not settings.input_rows and not settings.output_rows:
        return ()
    return (border_rows.BorderRows(settings.input_rows, settings.output_rows),)


def place_weights(plan: ExecutionPlan, selection: Selection, settings: Settings) -> Weights:
    """Where the plan's constants are read. Blocks take what the budget leaves, so that they never make it too small."""
    if not settings.compress:
        return Weights(is_warm=settings.warm_weights)
    first = plan.memories[0]
    limit = None if first.size_bytes is None else first.size_bytes - plan.region_bytes(first.name)
    return weights.pack_weights(plan, selection, limit)


def plan_options(settings: Settings, objective: Objective) -> PlanOptions:
    """What the planner is asked for."""
    slow_blocks = any(features <= kernel_features(settings) for features in REQUIRES.values())
    return PlanOptions(
        objective,
        settings.allocator,
        settings.preserve_input,
        max_overhead=settings.max_overhead,
        slow_blocks=slow_blocks,
    )


def check_flash(compiled: Compiled, flash_bytes: int | None) -> None:
    """Raises: DoesNotFit where the plan is larger than the flash."""
    graph, plan_bytes = compiled.graph, len(compiled.data)
    if flash_bytes is None or plan_bytes <= flash_bytes:
        return
    weights = sum(value.type.size_bytes for value in graph.constants())
    raise DoesNotFit(
        f"the plan has {plan_bytes:,} bytes, {plan_bytes - flash_bytes:,} more than the {flash_bytes:,} of flash",
        where=graph.name,
        hint=f"{weights:,} bytes of it are weights",
    )


def backend(name: str) -> Backend:
    """One of `ACCELERATORS`."""
    return cast("Backend", importlib.import_module(ACCELERATORS[name]).BACKEND)


def machine(settings: Settings) -> Machine:
    """The accelerator that the settings describe.

    Raises: CompileError where there is no such machine.
    """
    assert settings.accelerator is not None and settings.target is not None
    argument = settings.target.partition(":")[2] or None
    options = machines.MachineOptions(argument, settings.machine, settings.isa, settings.level)
    return backend(settings.accelerator).configure(options)


def emit(graph: Graph, machine: Machine, settings: Settings, instruments: Sequence[Instrument] = ()) -> Emitted:
    """The artifact of a graph that is legal for an accelerator.

    Raises: CompileError, PassVerifyError.
    """
    arguments = f"-O{settings.level} {_arguments(settings)}"
    return machine.emit(graph, stages.StageManager(graph, arguments, instruments, settings.disabled))


def _arguments(settings: Settings) -> str:
    """What tells `trivet opt` which passes and stages there are: the machine, and the layout of inputs and outputs."""
    given = [("--target", settings.target if settings.accelerator is not None else None)]
    given += [("--isa", settings.isa), ("--machine", None if settings.machine is None else str(settings.machine))]
    given += [("--io-layout", "model" if settings.model_layout else None)]
    for name, options in settings.pass_options.items():
        given += [("--pass-option", f"{name}.{key}={value}") for key, value in options.items()]
    return " ".join(f"{flag} {shlex.quote(value)}" for flag, value in given if value is not None)


def build_for_machine(loaded: Loaded, settings: Settings, instruments: Sequence[Instrument] = ()) -> Emitted:
    """From an imported graph to an accelerator's artifact. The graph is changed in place.

    Raises: CompileError (Problems for operators that the machine does not run), PassVerifyError.
    """
    configured = machine(settings)
    optimize(loaded.graph, settings, instruments, configured.legalize())
    return emit(loaded.graph, configured, settings, instruments)


def is_module(path: Path) -> bool:
    """True iff a path is that of a C module: a folder or an archive."""
    return path.suffix in MODULE_ARCHIVES or path.is_dir()


def accelerator_of(path: Path) -> str | None:
    """Which of `ACCELERATORS` runs the artifact, None where it is none of theirs."""
    suffixes = [suffix for suffix in ARTIFACTS if path.name.endswith(suffix)]
    return ARTIFACTS[max(suffixes, key=len)] if suffixes else None


def read_artifact(path: Path, options: RunOptions) -> Runnable:
    """An accelerator's artifact, which `accelerator_of` knows, or a C module, ready to run.

    Raises: InvalidModel.
    """
    if is_module(path):
        return modules.HostModule(path)
    name = accelerator_of(path)
    assert name is not None, f"{path} is no accelerator's"
    return backend(name).read(path, options)


def legalization(settings: Settings) -> tuple[Pass, ...]:
    """The passes that make a graph legal for the settings' target, none without one."""
    if settings.target is None:
        return ()
    if settings.accelerator is not None:
        return machine(settings).legalize()
    return (LegalizePlan(Selection(kernel_features(settings))),)


def passes_by_name(settings: Settings | None = None) -> dict[str, Pass]:
    """Every pass of the pipelines and of the backends, configured as the settings say."""
    load_extensions()
    settings = settings or Settings()
    legal = (
        machine(settings).legalize()
        if settings.accelerator is not None
        else (border_rows.BorderRows(True), LegalizePlan())
    )
    return {**all_passes(settings.i32, not settings.model_layout), **{pass_.name: pass_ for pass_ in legal}}


def pass_names(settings: Settings | None = None) -> list[str]:
    """The names of all passes, and of the stages of the settings' accelerator."""
    accelerator = None if settings is None else settings.accelerator
    return [*passes_by_name(settings), *(backend(accelerator).stages if accelerator is not None else ())]


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises: Unsupported if the place cannot be written.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Unsupported(f"cannot write: {error.strerror or error}", where=path, hint="choose another -o") from None


def _read_text(file: Path) -> str:
    try:
        return text_of(file)
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=file) from None
    except UnicodeDecodeError:
        raise InvalidModel("is not UTF-8 text", where=file) from None
