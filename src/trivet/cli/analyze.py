"""`trivet analyze`: does a model fit, how, and what would help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from trivet.cli.options import add_budgets, add_model, add_output_style, add_pipeline, note, print_json
from trivet.cli.settings import settings_from
from trivet.core.late import late
from trivet.fitting import Analysis, LayerRow, analyze_model

if TYPE_CHECKING:
    from trivet.cli import all_targets
else:
    all_targets = late("trivet.cli.all_targets")

TIGHT_BITS = 8
"""A margin below which `-v` names the channel."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_budgets(parser)
    add_pipeline(parser)
    parser.add_argument("--all-targets", action="store_true", help="on which boards does it fit, and how fast")
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.all_targets:
        return all_targets.run(arguments)
    analysis = analyze_model(arguments.model, settings_from(arguments))
    for remark in analysis.notes:
        note(f"note: {remark}", arguments.quiet)
    if arguments.json:
        print_json(analysis.as_json())
    else:
        _print(analysis, arguments)
    return 0


def _print(analysis: Analysis, arguments: argparse.Namespace) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{analysis.model}: {analysis.operators} operators, {analysis.parameters:,} parameters, {analysis.macs:,} MACs",
        markup=False,
    )
    if not arguments.quiet:
        console.print(_layer_table(analysis, bool(arguments.verbose)))
        for line in _margins(analysis.layers, arguments.verbose):
            console.print(line, markup=False)
    console.print(f"  order of execution, layer by layer: {analysis.order}", markup=False)
    for technique in analysis.techniques:
        console.print(f"  smallest fast memory, {technique.name}: {technique.fast_bytes:,} bytes", markup=False)
    if analysis.estimate is not None:
        console.print(f"  speed: {analysis.estimate}", markup=False)
    if analysis.front and not arguments.quiet:
        console.print(_front_table(analysis))
    console.print(f"  flash (plan with weights): {analysis.flash_bytes:,} bytes")
    if analysis.fits:
        how = ", ".join(analysis.chosen)
        slow = f", {analysis.slow_bytes:,} of slow memory" if analysis.slow_bytes else ""
        console.print(f"PASS: {analysis.fast_bytes:,} bytes of fast memory{slow}, {how}", markup=False)
        if analysis.slow_bytes:
            moved = f"{analysis.read_bytes:,} bytes read, {analysis.written_bytes:,} written"
            console.print(f"  traffic of slow memory in one run: {moved}", markup=False)
        return
    console.print("FAIL")
    for reason in analysis.reasons:
        console.print(f"  {reason}", markup=False)


def _front_table(analysis: Analysis) -> Table:
    """What less memory costs."""
    table = Table(box=None, pad_edge=False)
    for title in ("  bytes in use", "MACs executed", "kernel calls"):
        table.add_column(title, justify="right")
    for point in analysis.front:
        table.add_row(f"{point.fast_bytes:,}", f"{analysis.overhead_of(point):.3f}x", f"{point.kernel_calls:,}")
    return table


def _layer_table(analysis: Analysis, verbose: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("layer", "result"):
        table.add_column(title, no_wrap=True)
    for title in ("MACs", "weights", "bytes in use"):
        table.add_column(title, justify="right")
    if verbose:
        table.add_column("kernel", no_wrap=True)
        for title in ("int32 margin", "median"):
            table.add_column(title, justify="right", no_wrap=True)
    peak = max((row.bytes_in_use for row in analysis.layers), default=0)
    for row in analysis.layers:
        mark = " <-- peak" if row.bytes_in_use == peak else ""
        cells = [row.op, "x".join(map(str, row.shape)), f"{row.macs:,}", f"{row.weight_bytes:,}"]
        cells.append(f"{row.bytes_in_use:,}{mark}")
        if verbose:
            cells += [row.kernel, *_margin(row)]
        table.add_row(*cells)
    return table


def _margin(row: LayerRow) -> list[str]:
    """Bits of the fullest channel, and of the one in the middle."""
    if row.margin_bits is None:
        return []
    return [f"{row.margin_bits:.1f} bits", f"{median(row.channel_margins):.1f}"]


def _margins(layers: Sequence[LayerRow], verbosity: int) -> Iterator[str]:
    """Channels whose sums have few bits of int32 to spare; all channels of all layers if `verbosity` is 2."""
    if verbosity == 0:
        return
    limit = TIGHT_BITS if verbosity == 1 else 32
    found = [(row, [(i, bits) for i, bits in enumerate(row.channel_margins) if bits < limit]) for row in layers]
    lines = [f"    {row.op} {row.name}: " + ", ".join(f"{i}: {b:.1f}" for i, b in few) for row, few in found if few]
    few = f"channels with less than {TIGHT_BITS} bits of int32 to spare"
    if verbosity == 1:
        yield f"  {few}:" if lines else f"  no {few}"
    else:
        yield "  bits of int32 to spare in each channel:"
    yield from lines
