"""Networks with inputs and the outputs that a reference runtime gave. A suite knows no backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from networks import Network, load_arrays, networks, shared_directory
from trivet.core.numerics import Numerics

FLOAT_TOLERANCE = 1e-5
"""Of the largest magnitude of a reference output."""


@dataclass(frozen=True)
class Case:
    """A model, a contract, and where inputs and expected outputs are stored."""

    path: Path
    numerics: Numerics
    inputs_file: Path
    expected_file: Path
    prefix: str

    @property
    def title(self) -> str:
        return f"{self.path.stem}-{self.numerics.value}"

    def inputs(self) -> list[np.ndarray]:
        return load_arrays(self.inputs_file, "in")

    def expected(self) -> list[np.ndarray]:
        if self.expected_file.suffix == ".npy":
            return [np.load(self.expected_file)]
        return load_arrays(self.expected_file, self.prefix)


def tflite_networks() -> Iterator[Case]:
    """Every real TFLite network, under each contract that a golden exists for."""
    for network in networks("tflite"):
        yield from _goldens(network)


def _goldens(network: Network) -> Iterator[Case]:
    tflm, litert = network.tflm_golden, network.golden
    inputs = litert if litert.exists() else tflm
    if tflm.exists():
        yield Case(network.path, Numerics.TFLM, inputs, tflm, "tflm")
    if litert.exists():
        yield Case(network.path, Numerics.LITERT, inputs, litert, "ref")


def tflite_public_bugs() -> Iterator[Case]:
    """Small models after public bug reports about other tools."""
    root = shared_directory()
    for path in sorted((root / "cases" / "public-bugs").glob("*.tflite")) if root else ():
        arrays = path.with_suffix(".npz")
        yield Case(path, Numerics.TFLM, arrays, path.with_suffix(".tflm.npy"), "tflm")
        yield Case(path, Numerics.LITERT, arrays, arrays, "ref")


def difference(got: list[np.ndarray], expected: list[np.ndarray], tolerance: float = FLOAT_TOLERANCE) -> str | None:
    """A sentence where outputs differ: integers anywhere, floats beyond the tolerance."""
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a.dtype != b.dtype or a.size != b.size:
            return f"output {index} is {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        distance = np.abs(a.astype(np.float64).ravel() - b.astype(np.float64).ravel())
        allowed = tolerance * np.abs(b).max(initial=0) if b.dtype.kind == "f" else 0
        wrong = int((~(distance <= allowed)).sum())
        if wrong:
            return f"output {index}: {wrong} of {b.size} elements differ, by up to {distance.max():g}"
    return None
