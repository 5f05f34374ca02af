"""`trivet compile`: one or several models into artifacts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trivet import driver
from trivet.cli.options import UsageError, add_budgets, add_model, add_output_style, add_passes, note, print_json
from trivet.cli.settings import pass_instruments, settings_from
from trivet.ir.text.printer import print_graph
from trivet.report import PlanReport, plan_report

SUFFIXES = (".tgrs", ".tir")


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, many=True)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OUT",
        help="the artifact: .tgrs plan or .tir IR; a directory when several models are given",
    )
    add_budgets(parser)
    add_passes(parser)
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    targets = _outputs([Path(m) for m in arguments.model], arguments.output)
    reports = []
    for model, output in targets:
        report = _compile(model, output, arguments)
        reports.append(report)
        if report is not None and not arguments.json and not arguments.quiet:
            print(f"{output}: {report.summary()}")
    if arguments.json:
        objects = [r.as_json() for r in reports if r is not None]
        print_json(objects[0] if len(objects) == 1 else objects)
    return 0


def _outputs(models: list[Path], output: Path) -> list[tuple[Path, Path]]:
    is_directory = _is_directory(output)
    if len(models) > 1 or is_directory:
        if not is_directory:
            raise UsageError(f"{len(models)} models need -o to be a directory that exists, {output} is none")
        names = [output / f"{model.stem}.tgrs" for model in models]
        if len(set(names)) != len(names):
            raise UsageError("two of the models have the same name")
        return list(zip(models, names, strict=True))
    if output.suffix not in SUFFIXES:
        raise UsageError(f"-o {output}: the suffix decides what is written; known: {', '.join(SUFFIXES)}")
    return [(models[0], output)]


def _is_directory(path: Path) -> bool:
    """Paths that cannot be asked, such as too long names, are none: writing them says why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _compile(model: Path, output: Path, arguments: argparse.Namespace) -> PlanReport | None:
    settings = settings_from(arguments)
    loaded = driver.load(model, settings)
    for remark in loaded.notes:
        note(f"note: {remark}", arguments.quiet)
    instruments = pass_instruments(arguments, sys.stderr.write)
    if output.suffix == ".tir":
        driver.optimize(loaded.graph, settings, instruments)
        driver.write_file(output, print_graph(loaded.graph).encode())
        return None
    compiled = driver.build(loaded, settings, instruments)
    driver.write_file(output, compiled.data)
    return plan_report(compiled)
