"""`trivet compile` with a folder or an archive as its output: a C module."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trivet import driver, exporting
from trivet.backends.module.options import Memory, ScheduleStyle, Style
from trivet.cli.options import UsageError, note, print_json
from trivet.cli.settings import pass_instruments


def compile_module(model: Path, settings: driver.Settings, arguments: argparse.Namespace) -> int:
    """Writes the module of one model, and says what it needs."""
    if settings.accelerator is not None:
        raise UsageError(f"-o {arguments.output}: a C module is not made for {settings.accelerator}")
    instruments = pass_instruments(arguments, settings, sys.stderr.write)
    request = module_request(arguments)
    report, notes = exporting.compile_module(model, arguments.output, settings, request, instruments)
    for remark in notes:
        note(f"note: {remark}", arguments.quiet)
    if arguments.json:
        print_json(report.as_json())
    elif not arguments.quiet:
        print(f"{arguments.output}: {report.summary()}")
    return 0


def module_request(arguments: argparse.Namespace) -> exporting.ModuleRequest:
    """What the flags say of a module."""
    return exporting.ModuleRequest(
        prefix=arguments.prefix,
        style=Style(arguments.style),
        schedule=ScheduleStyle(arguments.schedule),
        memory=Memory(arguments.memory),
        export=arguments.export or ("cmsis-pack" if arguments.output.suffix == ".pack" else "cmake"),
        samples=exporting.SAMPLES if arguments.with_test else 0,
        overwrite=arguments.force,
    )
