"""From parsed flags to the driver's settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trivet.cli.options import UsageError, choose
from trivet.core.late import late
from trivet.core.numerics import Numerics
from trivet.driver import ACCELERATORS, BACKENDS, Settings, pass_names, passes_by_name
from trivet.errors import InvalidModel
from trivet.extending import load_extensions
from trivet.ir.op import Array
from trivet.passes.manager import Instrument
from trivet.planning.options import Allocator, Objective
from trivet.planning.plan import Region

if TYPE_CHECKING:
    from trivet import targets
    from trivet.passes import instruments, verify_each
    from trivet.planning import memories
else:
    targets = late("trivet.targets")
    instruments = late("trivet.passes.instruments")
    verify_each = late("trivet.passes.verify_each")
    memories = late("trivet.planning.memories")


ANY = "*"
"""Every pass."""


def settings_from(arguments: argparse.Namespace) -> Settings:
    """Everything that the flags of a command say; flags that the command lacks keep their defaults.

    Raises: UsageError for an unknown pass or target.
    """
    given = vars(arguments)
    name = given.get("target")
    target = None if name is None else machine_of(name)
    numerics = given.get("numerics")
    machine = given.get("machine")
    several = _memories(given)
    settings = Settings(
        input_shapes=dict(given.get("input_shape", [])),
        bindings={_bound_name(name, path): read_array(Path(path)) for name, path in given.get("bind", [])},
        subgraph=given.get("subgraph", 0),
        format=given.get("format"),
        numerics=Numerics(numerics) if numerics else None,
        level=given.get("level", 1),
        passes=given.get("passes"),
        fast_bytes=None if several is not None else _budget(given, "fast", target),
        memories=several,
        slow_bytes=given.get("slow"),
        flash_bytes=_budget(given, "flash", target),
        objective=Objective(given.get("optimize", "speed")),
        allocator=Allocator(given.get("allocator", "exact")),
        preserve_input=given.get("preserve_input", False),
        warm_weights=not given.get("xip", True),
        compress=given.get("compress") is not None,
        input_rows=given.get("input_rows", False),
        output_rows=given.get("output_rows", False),
        max_overhead=given.get("max_overhead", 1.0),
        target=name,
        i32=given.get("i32_range"),
        model_layout=given.get("io_layout") == "model",
        machine=Path(machine) if machine is not None else None,
        isa=given.get("isa"),
        portable_kernels=given.get("kernels") == "portable",
    )
    return _with_passes(settings, given)


def _with_passes(settings: Settings, given: dict[str, Any]) -> Settings:
    """Which passes run, and their options: `*` of the file, names of the file, `*` of the flags, names of the flags.

    Raises: UsageError for a pass that there is not.
    """
    table: Mapping[str, Mapping[str, Any]] = given.get("pass_table", {})
    switched = [(name, entry["enabled"]) for name, entry in _general_first(table) if entry["enabled"] is not None]
    flags = {name: False for name in given.get("disable", [])} | {name: True for name in given.get("enable", [])}
    switched += _general_first(flags)
    options = [(name, *pair) for name, entry in table.items() for pair in entry["options"].items()]
    options += given.get("pass_option", [])
    if not switched and not options:
        return settings
    named = [name for name, *_ in (*switched, *options) if name != ANY]
    names = pass_names(settings)
    for name in named:
        choose("pass", name, names)
    runs = dict.fromkeys(names, True)
    for name, enabled in switched:
        runs.update(dict.fromkeys(passes_by_name(settings), enabled) if name == ANY else {name: enabled})
    chosen: dict[str, dict[str, str]] = {}
    for name, key, value in options:
        chosen.setdefault(name, {})[key] = value
    return replace(settings, disabled=frozenset(n for n, on in runs.items() if not on), pass_options=chosen)


def _general_first(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(table.items(), key=lambda item: item[0] != ANY)


def machine_of(name: str) -> targets.Target | None:
    """The board or core of a target, None for an accelerator and for a bare backend.

    Raises: UsageError where there is no such target, Problems for a user's file that describes none.
    """
    if name in BACKENDS or name.partition(":")[0] in ACCELERATORS:
        return None
    load_extensions()
    found = targets.find_target(name)
    if found is None:
        choose("target", name, [*BACKENDS, *targets.target_names()])
    return found


def _memories(given: dict[str, Any]) -> memories.Memories | None:
    """Several fast memories, where the flags give some.

    Raises: UsageError.
    """
    regions, pins = given.get("region", []), given.get("pin", [])
    if pins and not regions:
        raise UsageError("--pin needs memories to choose from: give them with --region NAME=SIZE")
    if regions and given.get("fast") is not None:
        raise UsageError("-m is one fast memory, --region one of several: give either")
    if not regions:
        return None
    made = tuple(Region(name, size_bytes, alignment) for name, size_bytes, alignment in regions)
    return memories.Memories(made, tuple(memories.Pin(what, region) for what, region in pins))


def _budget(given: dict[str, Any], kind: str, target: targets.Target | None) -> int | None:
    """Bytes of a kind of memory: of the flag, else of the target."""
    stated: int | None = given.get(kind)
    return stated if stated is not None or target is None else target.budget(kind)


def pass_instruments(
    arguments: argparse.Namespace, settings: Settings, write: Callable[[str], object]
) -> list[Instrument]:
    """The instruments that the flags ask for."""

    def emit(text: str) -> None:
        write(text)

    names = pass_names(settings) if arguments.print_before or arguments.print_after else []
    before = [choose("pass", name, names) for name in arguments.print_before]
    after = [choose("pass", name, names) for name in arguments.print_after]
    found: list[Instrument] = []
    if arguments.verify_each:
        found.append(verify_each.VerifyEach(arguments.seed, arguments.i32_range))
    if arguments.print_after_all or arguments.print_changed:
        found.append(instruments.Dump(emit, before, None, only_changed=arguments.print_changed))
    elif before or after:
        found.append(instruments.Dump(emit, before, after))
    if arguments.print_ranges:
        found.append(instruments.PrintRanges(emit, arguments.i32_range))
    if arguments.time_passes:
        found.append(instruments.Timings(emit))
    if arguments.stats:
        found.append(instruments.Stats(emit))
    return found


def read_array(path: Path) -> Array:
    """A `.npy` file.

    Raises: InvalidModel.
    """
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidModel(f"cannot read an array: {error}", where=path, hint="give a .npy file") from None
    if not isinstance(array, np.ndarray):
        raise InvalidModel("holds several arrays", where=path, hint="give a .npy file, not an .npz archive")
    return array


def _bound_name(name: str | None, path: str) -> str:
    if name is None:
        raise UsageError(f"--bind {path} names no input: write --bind NAME={path}")
    return name
