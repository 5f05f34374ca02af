"""`trivet verify`: a model with every pass verified and all results compared, or a plan proved by itself."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from trivet import driver
from trivet.artifact import Artifact
from trivet.checking import check
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
from trivet.core.record import dataclass
from trivet.errors import CompileError, InvalidModel
from trivet.exporting import ModuleRequest, compile_module
from trivet.passes.verify_each import VerifyEach
from trivet.proof.soundness import violations
from trivet.simulated import Simulated


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_budgets(parser)
    add_pipeline(parser)
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of the random inputs")
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="how many random inputs to compare")
    add_output_style(parser)


@dataclass(frozen=True, slots=True)
class Finding:
    """How a run, or a plan by itself, stands before one authority."""

    run: str
    authority: str
    failed: bool
    summary: str


def run(arguments: argparse.Namespace) -> int:
    model = Path(arguments.model)
    if model.suffix == ".tgrs":
        findings = [_proved(model.name, _read(model))]
    else:
        findings = [finding for level in (0, 1) for finding in _verified(model, level, arguments)]
        findings += _elsewhere(model, arguments)
    if arguments.json:
        groups = groupby(findings, key=lambda finding: finding.run)
        print_json([{"run": name, "verdicts": [_as_json(f) for f in group]} for name, group in groups])
    else:
        for finding in findings:
            print(f"{'FAIL' if finding.failed else 'ok':4}  {finding.run}: {finding.summary}")
    sys.stdout.flush()
    return 1 if any(finding.failed for finding in findings) else 0


def _read(plan: Path) -> bytes:
    """Raises: InvalidModel."""
    try:
        return plan.read_bytes()
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=plan) from None


def _verified(model: Path, level: int, arguments: argparse.Namespace) -> Iterator[Finding]:
    """A model compiled at one level: the plan proved, its outputs compared."""
    settings = replace(settings_from(arguments), level=level)
    each = VerifyEach(arguments.seed)
    loaded = driver.load(model, settings)
    compiled = driver.build(loaded, settings, [each])
    if level == 0:
        for remark in loaded.notes:
            note(f"note: {remark}", arguments.quiet)
    for name, preserves in each.allowed:
        note(f"-O{level}: {name} may move values: {preserves}", arguments.quiet)
    yield _proved(f"-O{level} plan", compiled.data)
    artifact = Artifact(compiled.data)
    for number in range(arguments.runs):
        inputs = artifact.random_inputs(arguments.seed + number)
        artifact.reset()
        outputs = artifact.run(inputs)
        for verdict in check(artifact, model, settings, inputs, outputs):
            yield Finding(f"-O{level} plan, input {number}", verdict.authority, verdict.failed, str(verdict))


def _elsewhere(model: Path, arguments: argparse.Namespace) -> Iterator[Finding]:
    """The model as a C module, and on every accelerator that takes it; who refuses it is noted."""
    settings = settings_from(arguments)
    with tempfile.TemporaryDirectory(prefix="trivet-verify-") as directory:
        for name in ("C module", *driver.ACCELERATORS):
            path = Path(directory) / name.replace(" ", "-").lower()
            try:
                artifact = (
                    _module(model, path, settings) if name == "C module" else _scheduled(model, path, settings, name)
                )
            except CompileError as refusal:
                note(f"{name}: not compared: {str(refusal).splitlines()[0]}", arguments.quiet)
                continue
            inputs = artifact.random_inputs(arguments.seed)
            for verdict in check(artifact, model, settings, inputs, artifact.run(inputs)):
                yield Finding(name, verdict.authority, verdict.failed, str(verdict))


def _module(model: Path, path: Path, settings: driver.Settings) -> Simulated:
    compile_module(model, path, settings, ModuleRequest())
    return Simulated(path)


def _scheduled(model: Path, path: Path, settings: driver.Settings, name: str) -> Simulated:
    """An accelerator's artifact, every stage verified."""
    suffix = next(suffix for suffix, machine in driver.ARTIFACTS.items() if machine == name)
    chosen = replace(settings, target=name)
    emitted = driver.build_for_machine(driver.load(model, chosen), chosen, [VerifyEach()])
    main = path.with_suffix(suffix)
    for ending, data in emitted.files.items():
        main.with_suffix(ending).write_bytes(data)
    return Simulated(main)


def _proved(name: str, data: bytes) -> Finding:
    """A plan by itself: what it reads is there, what it claims is true."""
    problems = violations(data)
    said = problems[0] if problems else "every row is there when it is read, and memory is used to the last byte"
    return Finding(name, "proof", bool(problems), f"proof: {said}")


def _as_json(finding: Finding) -> dict[str, object]:
    return {"authority": finding.authority, "failed": finding.failed, "summary": finding.summary}
