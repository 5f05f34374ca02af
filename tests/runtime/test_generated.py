"""Checked-in files that follow from declarations are up to date, and the declarations are sound."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet.backends.plan.cheaders import generated
from trivet.backends.plan.kernels.table import all_kernels

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path, text", [pytest.param(p, t, id=p.name) for p, t in generated(CHECKOUT)])
def test_generated_file_is_fresh(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run: python -m trivet.backends.plan.cheaders"


def test_kernel_ids_and_names_are_unique() -> None:
    kernels = all_kernels()
    assert len({k.id for k in kernels}) == len({k.name for k in kernels}) == len(kernels)
