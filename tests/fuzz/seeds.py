"""Writes the first corpus of the fuzz target: plans of the runtime's tests, and those that its loader refuses.

python tests/fuzz/seeds.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from loader_cases import base, cases

PLANS = (
    "layers",
    "batch",
    "states",
    "stream",
    "rows",
    "conv",
    "constant",
    "exact",
    "product",
    "packed",
    "warm",
    "two memories",
)


def main(directory: Path) -> None:
    for name in PLANS:
        (directory / f"{name}.tgrs").write_bytes(base(name))
    for index, case in enumerate(cases()):
        if len(case.data()) <= 4096:
            (directory / f"case{index}.tgrs").write_bytes(case.data())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
