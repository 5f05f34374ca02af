"""The measured effects of docs/gpu.md are those of the code."""

from __future__ import annotations

import runpy
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]


def test_the_table_by_level_is_fresh() -> None:
    script = runpy.run_path(str(CHECKOUT / "scripts" / "gpu_effects.py"))
    first = next(iter(script["PRODUCTS"]))
    assert "\n".join(script["by_level"]([first])) in (CHECKOUT / "docs" / "gpu.md").read_text()
