"""`trivet verify`: a model through every applicable backend with every pass verified, all results compared."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from trivet import driver
from trivet.artifact import Artifact
from trivet.checking import Verdict, check
from trivet.cli.options import (
    add_budgets,
    add_model,
    add_output_style,
    add_pipeline,
    natural,
    note,
    positive,
    print_json,
)
from trivet.cli.settings import settings_from
from trivet.passes.verify_each import VerifyEach


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_budgets(parser)
    add_pipeline(parser)
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the random inputs")
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="how many random inputs to compare")
    add_output_style(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments)
    model = Path(arguments.model)
    results = []
    for level in (0, 1):
        each = VerifyEach(arguments.seed)
        leveled = replace(settings, level=level)
        loaded = driver.load(model, leveled)
        compiled = driver.build(loaded, leveled, [each])
        if level == 0:
            for remark in loaded.notes:
                note(f"note: {remark}", arguments.quiet)
        for name, preserves in each.allowed:
            note(f"-O{level}: {name} may move values: {preserves}", arguments.quiet)
        artifact = Artifact(compiled.data)
        for run_number in range(arguments.runs):
            inputs = artifact.random_inputs(arguments.seed + run_number)
            artifact.reset()
            outputs = artifact.run(inputs)
            verdicts = check(artifact, model, leveled, inputs, outputs)
            results.append((f"-O{level} plan, input {run_number}", verdicts))
    if arguments.json:
        print_json([{"run": name, "verdicts": [_as_json(v) for v in verdicts]} for name, verdicts in results])
    else:
        _print(results)
    failed = any(v.failed for _, verdicts in results for v in verdicts)
    sys.stdout.flush()
    return 1 if failed else 0


def _as_json(verdict: Verdict) -> dict[str, object]:
    return {"authority": verdict.authority, "failed": verdict.failed, "summary": str(verdict)}


def _print(results: list[tuple[str, list[Verdict]]]) -> None:
    for name, verdicts in results:
        for verdict in verdicts:
            print(f"{'FAIL' if verdict.failed else 'ok':4}  {name}: {verdict}")
