"""`trivet targets`: the machines that can be compiled for."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from trivet.cli.options import UsageError, choose, print_json
from trivet.extending import load_extensions
from trivet.targets import Memory, Target, find_target, read_target, target_names


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a target, or your own FILE.toml")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    load_extensions()
    if arguments.action == "show":
        if arguments.name is None:
            raise UsageError("targets show needs the NAME of a target")
        found = find_target(arguments.name)
        targets = [found or read_target(choose("target", arguments.name, target_names()))]
    else:
        targets = [read_target(name) for name in target_names()]
    if arguments.json:
        print_json([_as_json(target) for target in targets])
    elif arguments.action == "show":
        print(_details(targets[0]))
    else:
        for target in targets:
            print(f"{target.name:22} {_budgets(target):34} {target.summary}")
    return 0


def _as_json(target: Target) -> dict[str, object]:
    return {key: str(value) if key == "path" else value for key, value in asdict(target).items()}


def _budgets(target: Target) -> str:
    """The largest memory of each kind, in short."""
    found = [(kind, target.budget(kind)) for kind in ("fast", "slow", "flash")]
    return ", ".join(f"{kind} {_short(size)}" for kind, size in found if size is not None) or "-"


def _short(size: int) -> str:
    for unit, bytes_ in (("M", 1 << 20), ("K", 1 << 10)):
        if size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return str(size)


def _details(target: Target) -> str:
    lines = [
        f"{target.name}: {target.summary}",
        f"  cpu       {target.cpu}",
        f"  features  {', '.join(target.features) or 'none'}",
        f"  backends  {', '.join(target.backends)}",
    ]
    if target.clock_hz is not None:
        lines += [f"  clock     {target.clock_hz / 1e6:g} MHz", *_source(target.clock_source)]
    for memory in target.memories:
        lines += [f"  memory    {_memory(memory)}", *_source(memory.source)]
    lines.append(f"  defined   {target.path}")
    return "\n".join(lines)


def _memory(memory: Memory) -> str:
    place = "" if memory.address is None else f" at 0x{memory.address:08x}"
    return f"{memory.name} ({memory.kind}): {memory.size_bytes:,} bytes{place}"


def _source(text: str) -> list[str]:
    return [f"            source: {text}"] if text else []
