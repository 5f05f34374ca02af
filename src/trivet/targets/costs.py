"""What kernels take on a core, as data: one TOML file a core, under `costs`, which `scripts/fit_costs.py` writes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from trivet.core.record import dataclass

_DATA = Path(__file__).parent / "costs"

TERMS = ("calls", "pixels", "outputs", "window", "rows", "steps", "macs")
"""What a kernel's instructions are affine in: calls; result pixels and elements; elements of windows, for all pixels;
rows of windows larger than one pixel, each gathered alone;
runs of 16 products, those begun counted whole; multiply-accumulates."""

Coefficients = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """Instructions of each kernel on a core, by term; `default` is assumed of kernels that were not measured.

    `run` are those of a run beside its kernels, for each layer and for each further call. `source` says how all were
    measured.
    """

    cpu: str
    source: str
    run: Mapping[str, float]
    default: Coefficients
    kernels: Mapping[str, Coefficients]

    def instructions(self, kernel: str, terms: Mapping[str, int]) -> float:
        """Of all calls of one layer."""
        coefficients = self.kernels.get(kernel, self.default)
        return sum(value * terms[term] for term, value in coefficients.items())


def costs_of(cpu: str) -> CoreCosts | None:
    """The costs on a core, None where none were measured."""
    path = _DATA / f"{cpu}.toml"
    if not path.is_file():
        return None
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return CoreCosts(cpu, data["source"], data["run"], data["default"], data["kernels"])
