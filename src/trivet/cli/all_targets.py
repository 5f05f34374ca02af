"""`trivet analyze --all-targets`: a model on every board."""

from __future__ import annotations

import argparse
from pathlib import Path

from trivet.cli.options import UsageError, note, print_json
from trivet.cli.settings import settings_from
from trivet.survey import Fit, Survey, survey

LEFT = ("target", "core", "fits", "how")
TITLES = ["target", "core", "fits", "fast bytes", "of", "smallest", "flash bytes", "of", "instructions", "ms", "how"]


def run(arguments: argparse.Namespace) -> int:
    if arguments.target is not None:
        raise UsageError("--all-targets asks for every target, --target for one: give either")
    found = survey(Path(arguments.model), settings_from(arguments))
    for remark in found.notes:
        note(f"note: {remark}", arguments.quiet)
    if arguments.json:
        print_json(found.as_json())
    else:
        _print(found, bool(arguments.verbose))
    return 0


def _print(found: Survey, verbose: bool) -> None:
    print(f"{found.model}: {found.macs:,} MACs")
    rows = [TITLES, *(_cells(fit) for fit in found.fits)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (_padded(cell, width, title) for cell, width, title in zip(row, widths, TITLES, strict=True))
        print("  ".join(cells).rstrip())
    print("ms: at one instruction a cycle; -: kernels were not measured on the core, or the clock is not known")
    print(f"fits {sum(fit.fits for fit in found.fits)} of {len(found.fits)} boards")
    for fit in found.fits if verbose else ():
        for reason in fit.reasons:
            print(f"  {fit.target.name}: {reason}")


def _padded(cell: str, width: int, title: str) -> str:
    return cell.ljust(width) if title in LEFT else cell.rjust(width)


def _cells(fit: Fit) -> list[str]:
    plan, target = fit.plan, fit.target
    how = ", ".join(plan.techniques) if fit.fits else _missing(fit)
    used = (plan.fast_bytes, fit.budgets["fast"], fit.smallest_bytes, plan.flash_bytes, fit.budgets["flash"])
    numbers = ["-" if number is None else f"{number:,}" for number in used]
    speed = "-" if fit.estimate is None else f"{fit.estimate.instructions:,}"
    time = "-" if fit.milliseconds is None else f"{fit.milliseconds:.1f}"
    return [target.name, target.cpu, "yes" if fit.fits else "no", *numbers, speed, time, how]


def _missing(fit: Fit) -> str:
    """What is too small, and by how much."""
    needed = (("fast", fit.smallest_bytes), ("flash", fit.plan.flash_bytes))
    over = [(kind, size - budget) for kind, size in needed if (budget := fit.budgets[kind]) is not None]
    return ", ".join(f"{kind} memory lacks {missing:,} bytes" for kind, missing in over if missing > 0)
