"""Ways to run a model file: each compiles it, runs it, and says which files it refuses, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from trivet import driver, interp
from trivet.backends.plan.host import HostModel, HostUnavailable
from trivet.core.numerics import Numerics
from trivet.driver import Settings
from trivet.frontends.options import LoadOptions
from trivet.frontends.tflite import load

TFLITE_REFUSALS: dict[str, str] = {}
"""What the frontend refuses, and a part of the message; every runner inherits it."""


class Runner(Protocol):
    """`refusals` maps the stem of a file to a part of the message with which it is refused."""

    name: str
    refusals: Mapping[str, str]

    def run(self, path: Path, numerics: Numerics, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs in the model's own element types.

        Raises: CompileError, for what is refused.
        """


class Oracle:
    """The interpreter on the graph as the frontend gives it."""

    name = "oracle"
    refusals = TFLITE_REFUSALS

    def run(self, path: Path, numerics: Numerics, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        graph = load(path, LoadOptions(numerics=numerics)).graph
        outputs, _ = interp.run(graph, inputs)
        return outputs


class Normalized(Oracle):
    """The interpreter on the graph after the passes."""

    name = "normalized"

    def run(self, path: Path, numerics: Numerics, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        settings = Settings(numerics=numerics)
        graph = driver.load(path, settings).graph
        driver.optimize(graph, settings)
        stored = [to_storage(array, port.perm) for array, port in zip(inputs, graph.input_ports, strict=True)]
        outputs, _ = interp.run(graph, stored)
        return [to_model(array, port.perm) for array, port in zip(outputs, graph.output_ports, strict=True)]


class Plan(Oracle):
    """The compiled plan with native kernels."""

    name = "plan"
    refusals = TFLITE_REFUSALS

    def run(self, path: Path, numerics: Numerics, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        settings = Settings(numerics=numerics)
        compiled = driver.build(driver.load(path, settings), settings)
        ports = compiled.graph.input_ports, compiled.graph.output_ports
        model = host_model(compiled.data)
        outputs = model.run([to_storage(array, port.perm) for array, port in zip(inputs, ports[0], strict=True)])
        return [to_model(array, port.perm) for array, port in zip(outputs, ports[1], strict=True)]


def host_model(plan: bytes) -> HostModel:
    """The plan on this machine; the test is skipped where the runtime was not built."""
    try:
        return HostModel(plan)
    except HostUnavailable as error:
        pytest.skip(str(error))


def to_storage(array: np.ndarray, perm: tuple[int, ...] | None) -> np.ndarray:
    """A model's array in the axis order in which the graph stores it."""
    return array if perm is None else np.ascontiguousarray(array.transpose(np.argsort(perm)))


def to_model(array: np.ndarray, perm: tuple[int, ...] | None) -> np.ndarray:
    """The inverse of `to_storage`."""
    return array if perm is None else array.transpose(perm)


RUNNERS: tuple[Runner, ...] = (Oracle(), Normalized(), Plan())
