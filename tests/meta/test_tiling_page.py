"""The page on tiling says what the operators do now."""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

from tiling_page import HEAD, row  # noqa: E402
from trivet.ops import ALL_OPS, OP_BY_NAME  # noqa: E402

PAGE = (CHECKOUT / "docs" / "tiling.md").read_text()
CHECKED = ("conv2d", "depthwise_conv2d", "max_pool2d", "add", "softmax", "concat", "dense", "rfft")
"""All of them would take half a minute."""


def test_every_operator_has_a_row() -> None:
    assert PAGE.startswith(HEAD)
    assert [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")] == [op.name for op in ALL_OPS]


def test_rows_are_fresh() -> None:
    stale = [name for name in CHECKED if row(OP_BY_NAME[name]) not in PAGE]
    assert not stale, "run: PYTHONPATH=src:tests python scripts/tiling_page.py > docs/tiling.md"
