"""`trivet analyze`: does a model fit, how, and what would help."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from trivet.cli.options import add_budgets, add_model, add_output_style, add_pipeline, note, print_json
from trivet.cli.settings import settings_from
from trivet.fitting import Analysis, analyze_model


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_budgets(parser)
    add_pipeline(parser)
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
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
        console.print(_layer_table(analysis, arguments.verbose))
    for technique in analysis.techniques:
        console.print(f"  smallest fast memory, {technique.name}: {technique.fast_bytes:,} bytes", markup=False)
    console.print(f"  flash (plan with weights): {analysis.flash_bytes:,} bytes")
    if analysis.fits:
        how = ", ".join(analysis.chosen)
        console.print(f"PASS: {analysis.fast_bytes:,} bytes of fast memory, {how}", markup=False)
        return
    console.print("FAIL")
    for reason in analysis.reasons:
        console.print(f"  {reason}", markup=False)


def _layer_table(analysis: Analysis, verbose: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("layer", "result"):
        table.add_column(title, no_wrap=True)
    for title in ("MACs", "weights", "bytes in use"):
        table.add_column(title, justify="right")
    if verbose:
        table.add_column("int32 margin", justify="right")
    peak = max((row.bytes_in_use for row in analysis.layers), default=0)
    for row in analysis.layers:
        mark = " <-- peak" if row.bytes_in_use == peak else ""
        cells = [row.op, "x".join(map(str, row.shape)), f"{row.macs:,}", f"{row.weight_bytes:,}"]
        cells.append(f"{row.bytes_in_use:,}{mark}")
        if verbose:
            cells.append("" if row.margin_bits is None else f"{row.margin_bits:.1f} bits")
        table.add_row(*cells)
    return table
