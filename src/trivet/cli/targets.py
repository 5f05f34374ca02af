"""`trivet targets`: the machines that can be compiled for."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from trivet.cli.options import UsageError, choose, print_json
from trivet.targets import Target, read_target, target_names


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "show":
        if arguments.name is None:
            raise UsageError("targets show needs the NAME of a target")
        names = [choose("target", arguments.name, target_names())]
    else:
        names = target_names()
    targets = [read_target(name) for name in names]
    if arguments.json:
        print_json([_as_json(target) for target in targets])
    elif arguments.action == "show":
        print(_details(targets[0]))
    else:
        for target in targets:
            print(f"{target.name:18} {target.summary}")
    return 0


def _as_json(target: Target) -> dict[str, object]:
    return {key: str(value) if key == "path" else value for key, value in asdict(target).items()}


def _details(target: Target) -> str:
    lines = [
        f"{target.name}: {target.summary}",
        f"  cpu       {target.cpu}",
        f"  features  {', '.join(target.features) or 'none'}",
        f"  backends  {', '.join(target.backends)}",
    ]
    lines += [f"  memory    {m.name} ({m.kind}): {m.size_bytes:,} bytes" for m in target.memories]
    lines.append(f"  defined   {target.path}")
    return "\n".join(lines)
