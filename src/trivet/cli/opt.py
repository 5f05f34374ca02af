"""`trivet opt`: the graph pipeline alone; the final IR on stdout, everything else on stderr."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trivet import driver
from trivet.cli.options import add_model, add_output_style, add_passes, note
from trivet.cli.settings import pass_instruments, settings_from
from trivet.ir.text.printer import print_graph


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_passes(parser)
    parser.add_argument("--passes", metavar="A,B,fixpoint(C,D)", help="run exactly these passes")
    parser.add_argument("--target", metavar="NAME", help="also legalize for this target")
    parser.add_argument("--elide", action="store_true", help="leave out the data of large constants")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the IR there instead of stdout")
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    loaded = driver.load(arguments.model, settings)
    for remark in loaded.notes:
        note(remark, arguments.quiet)
    driver.optimize(loaded.graph, settings, pass_instruments(arguments, sys.stderr.write))
    text = print_graph(loaded.graph, elide=arguments.elide)
    if arguments.output is not None:
        driver.write_file(arguments.output, text.encode())
    else:
        sys.stdout.write(text)
    return 0
