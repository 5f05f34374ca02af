"""`trivet opt`: the graph pipeline alone; the final IR on stdout, everything else on stderr."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trivet import driver
from trivet.cli.options import add_machine, add_model, add_passes, add_verbosity, note
from trivet.cli.settings import pass_instruments, settings_from
from trivet.ir.text.printer import print_graph


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_passes(parser)
    parser.add_argument("--passes", metavar="A,B,fixpoint(C,D)", help="run exactly these passes")
    add_machine(parser.add_argument_group("target"), "also compile for this backend, board or core")
    parser.add_argument("--bisect", action="store_true", help="find the pass that breaks the program, if one does")
    parser.add_argument("--elide", action="store_true", help="leave out the data of large constants")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the IR there instead of stdout")
    add_verbosity(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    instruments = pass_instruments(arguments, settings, sys.stderr.write)
    legalize = driver.legalization(settings)
    loaded = driver.load(arguments.model, settings)
    for remark in loaded.notes:
        note(f"note: {remark}", arguments.quiet)
    if arguments.bisect:
        found = driver.bisect(arguments.model, settings, legalize, arguments.seed)
        note(str(found), arguments.quiet)
        if found.fault is not None:
            raise found.fault
    driver.optimize(loaded.graph, settings, instruments, legalize)
    if settings.accelerator is not None:
        driver.emit(loaded.graph, driver.machine(settings), settings, instruments)
    text = print_graph(loaded.graph, elide=arguments.elide)
    if arguments.output is not None:
        driver.write_file(arguments.output, text.encode())
    else:
        sys.stdout.write(text)
    return 0
