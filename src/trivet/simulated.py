"""An artifact that is no plan as a user runs it: an accelerator's on its simulator, a C module on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trivet.backends.target import Runnable, RunOptions
from trivet.driver import read_artifact
from trivet.errors import InvalidModel
from trivet.interp import check_accepted, to_model, to_storage
from trivet.ir.graph import Port
from trivet.ir.op import Array
from trivet.passes.traces import random_array


class Simulated:
    """An artifact for one of the accelerators, or a C module.

    Raises: InvalidModel where the file is none.
    """

    def __init__(self, path: Path, options: RunOptions | None = None) -> None:
        self._runnable: Runnable = read_artifact(path, options or RunOptions())

    @property
    def input_ports(self) -> Sequence[Port]:
        return self._runnable.input_ports

    @property
    def output_ports(self) -> Sequence[Port]:
        return self._runnable.output_ports

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs for inputs, in the model's own shapes; states live on from run to run.

        Raises: CompileError where an input has the wrong shape or type, or a value that its port does not accept, or
        the machine traps.
        """
        if len(inputs) != len(self.input_ports):
            raise InvalidModel(f"the artifact has {len(self.input_ports)} inputs, got {len(inputs)}")
        for array, port in zip(inputs, self.input_ports, strict=True):
            if array.shape != port.type.shape or array.dtype != port.type.dtype.numpy:
                wanted = f"{port.type.dtype.name}{list(port.type.shape)}"
                raise InvalidModel(f"input '{port.name}' is {wanted}, got {array.dtype}{list(array.shape)}")
            check_accepted(port.name, array, port.accepts)
        stored = [to_storage(array, port) for array, port in zip(inputs, self.input_ports, strict=True)]
        outputs = self._runnable.run(stored)
        return [to_model(array, port) for array, port in zip(outputs, self.output_ports, strict=True)]

    def reset(self) -> None:
        """States get their initial values."""
        self._runnable.reset()

    def random_inputs(self, seed: int) -> list[Array]:
        """Integers over all that the port accepts, floats standard normal, in the model's own shapes."""
        rng = np.random.default_rng(seed)
        return [random_array(port.type, rng, port.accepts) for port in self.input_ports]

    def summary(self) -> str:
        """What the last run cost, for people."""
        return self._runnable.summary()

    def figures(self) -> Mapping[str, object]:
        """What the last run cost, as JSON-ready figures."""
        return self._runnable.figures()
