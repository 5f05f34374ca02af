"""The commands, and where each is defined. Importing a command's module is put off until it is asked for."""

from __future__ import annotations

import importlib
from types import ModuleType

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: its module has `configure(parser)` and `run(arguments) -> int`."""

    name: str
    module: str
    summary: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


COMMANDS = (
    Command("analyze", "trivet.cli.analyze", "does a model fit a budget, how, and what would help"),
    Command("compile", "trivet.cli.compile", "compile a model into an artifact"),
    Command("run", "trivet.cli.run", "run an artifact, and compare it with the oracle and the reference runtimes"),
    Command("opt", "trivet.cli.opt", "run the graph pipeline alone and print the IR"),
    Command("inspect", "trivet.cli.inspect", "show what a model or an artifact holds"),
    Command(
        "verify",
        "trivet.cli.verify",
        "compile and run a model in every way and compare all results, or prove a plan",
    ),
    Command("bench", "trivet.cli.bench", "measure latency and memory per layer"),
    Command("ops", "trivet.cli.ops", "list operators, or show one: meaning, converters, kernels"),
    Command("targets", "trivet.cli.targets", "list targets, or show one"),
)
