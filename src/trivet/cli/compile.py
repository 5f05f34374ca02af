"""`trivet compile`: one or several models into artifacts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trivet import driver
from trivet.cli.options import (
    UsageError,
    add_budgets,
    add_model,
    add_module,
    add_output_style,
    add_passes,
    note,
    print_json,
)
from trivet.cli.settings import pass_instruments, settings_from
from trivet.core.late import late
from trivet.report import plan_report

if TYPE_CHECKING:
    from trivet.cli import module
    from trivet.ir.text import printer
else:
    module = late("trivet.cli.module")
    printer = late("trivet.ir.text.printer")

SUFFIXES = (".tgrs", ".tir", *driver.ARTIFACTS)


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, many=True)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OUT",
        help=f"the artifact: .tgrs plan, a folder, .zip or .pack C module, .tir IR{_accelerators()}; a directory that "
        "exists when several models are given",
    )
    add_budgets(parser)
    add_module(parser)
    add_passes(parser)
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    if len(arguments.model) == 1 and _is_module(arguments.output):
        return module.compile_module(Path(arguments.model[0]), settings, arguments)
    targets = _outputs([Path(m) for m in arguments.model], arguments.output, _suffix(settings))
    figures = []
    for model, output in targets:
        summary, report = _compile(model, output, settings, arguments)
        figures.append(report)
        if summary and not arguments.json and not arguments.quiet:
            print(f"{output}: {summary}")
    if arguments.json:
        print_json(figures[0] if len(figures) == 1 else figures)
    return 0


def _is_module(output: Path) -> bool:
    return output.suffix in ("", *driver.MODULE_ARCHIVES) or _is_directory(output)


def _accelerators() -> str:
    return "".join(f", {suffix} for {name}" for suffix, name in driver.ARTIFACTS.items())


def _suffix(settings: driver.Settings) -> str:
    """Of the artifacts that are made for the target."""
    return next((s for s, name in driver.ARTIFACTS.items() if name == settings.accelerator), ".tgrs")


def _outputs(models: list[Path], output: Path, suffix: str) -> list[tuple[Path, Path]]:
    is_directory = _is_directory(output)
    if len(models) > 1:
        if not is_directory:
            raise UsageError(f"{len(models)} models need -o to be a directory that exists, {output} is none")
        names = [output / f"{model.stem}{suffix}" for model in models]
        if len(set(names)) != len(names):
            raise UsageError("two of the models have the same name")
        return list(zip(models, names, strict=True))
    if output.suffix not in SUFFIXES:
        raise UsageError(f"-o {output}: the suffix decides what is written; known: {', '.join(SUFFIXES)}")
    if output.suffix not in (suffix, ".tir"):
        machine = driver.ARTIFACTS.get(output.suffix)
        needed = f"needs --target {machine}" if machine is not None else f"is not {suffix}, which the target's are"
        raise UsageError(f"-o {output}: {needed}")
    return [(models[0], output)]


def _is_directory(path: Path) -> bool:
    """Paths that cannot be asked, such as too long names, are none: writing them says why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _compile(
    model: Path, output: Path, settings: driver.Settings, arguments: argparse.Namespace
) -> tuple[str, Mapping[str, object]]:
    """Writes one artifact; a line and figures on what it needs."""
    loaded = driver.load(model, settings)
    for remark in loaded.notes:
        note(f"note: {remark}", arguments.quiet)
    instruments = pass_instruments(arguments, settings, sys.stderr.write)
    if output.suffix == ".tir":
        driver.optimize(loaded.graph, settings, instruments)
        driver.write_file(output, printer.print_graph(loaded.graph).encode())
        return "", {}
    if settings.accelerator is not None:
        emitted = driver.build_for_machine(loaded, settings, instruments)
        for suffix, data in emitted.files.items():
            driver.write_file(output.with_suffix(suffix), data)
        return emitted.summary, emitted.figures
    compiled = driver.build(loaded, settings, instruments)
    driver.write_file(output, compiled.data)
    report = plan_report(compiled)
    return report.summary(), report.as_json()
