"""The Python interface: the commands as functions."""

from __future__ import annotations

from pathlib import Path

from trivet import driver
from trivet.artifact import Artifact
from trivet.driver import Settings, load
from trivet.fitting import Analysis, analyze_model
from trivet.passes.verify_each import VerifyEach


def compile(path: str | Path, settings: Settings | None = None, *, verify_each: bool = False) -> Artifact:
    """The model in a file as a plan that runs on this machine; `Artifact.data` is the `.tgrs` file.

    Raises: CompileError (what the model or a budget lacks), PassVerifyError (with `verify_each`, a fault of a pass).
    """
    settings = settings or Settings()
    instruments = [VerifyEach()] if verify_each else []
    return Artifact(driver.build(driver.load(path, settings), settings, instruments).data)


def analyze(path: str | Path, settings: Settings | None = None) -> Analysis:
    """Whether a model fits the budgets, how, and what would help.

    Raises: CompileError where it cannot be compiled for any budget.
    """
    return analyze_model(path, settings or Settings())


__all__ = ["Analysis", "Artifact", "Settings", "analyze", "compile", "load"]
