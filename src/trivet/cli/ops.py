"""`trivet ops`: the operators, where each is defined, what becomes it and what runs it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from trivet.cli.options import UsageError, choose, print_json
from trivet.handbook import OpEntry, entries, operators_markdown, support_markdown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument(
        "--markdown", action="store_true", help="with list: a table of what each format's operators become"
    )
    parser.add_argument("--all", action="store_true", help="with show: every operator, as docs/operators.md has it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "show" and arguments.all:
        print(operators_markdown(), end="")
        return 0
    if arguments.action == "list" and arguments.markdown:
        print(support_markdown(), end="")
        return 0
    known = {entry.name: entry for entry in entries()}
    if arguments.action == "show":
        if arguments.name is None:
            raise UsageError("ops show needs the NAME of an operator, or --all")
        shown = [known[choose("operator", arguments.name, known)]]
    else:
        shown = list(known.values())
    if arguments.json:
        print_json([asdict(entry) for entry in shown])
    elif arguments.action == "show":
        print(shown[0].as_markdown(), end="")
    else:
        print("\n".join(_line(entry) for entry in shown))
    return 0


def _line(entry: OpEntry) -> str:
    made = ", ".join(f"{len(kinds)} {format_}" for format_, kinds in entry.converters.items())
    runs = f"{len(entry.kernels)} kernels" if entry.kernels else "no kernel"
    first = entry.doc.strip().splitlines()[0]
    return f"{entry.name:20} {made:20} {runs:12} {first}"
