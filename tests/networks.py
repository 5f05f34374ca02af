"""The directory of real networks beside the checkout, and what its files hold."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

CHECKOUT = Path(__file__).resolve().parent.parent


def shared_directory() -> Path | None:
    """The directory of real networks and cases: $TRIVET_SHARED, else `shared` beside the checkout."""
    path = Path(os.environ.get("TRIVET_SHARED", CHECKOUT.parent / "shared"))
    return path if (path / "models" / "INDEX.tsv").is_file() else None


@dataclass(frozen=True)
class Network:
    """One file of the index. `golden` and `tflm_golden` may not exist."""

    name: str
    path: Path
    dtype: str
    golden: Path
    tflm_golden: Path

    @property
    def is_quantized(self) -> bool:
        return self.dtype in ("int8", "uint8")


@cache
def networks(form: str, folder: str = "networks") -> tuple[Network, ...]:
    """The index's networks of one format ("tflite", "onnx") in one folder, in its order; none where it is absent."""
    root = shared_directory()
    if root is None:
        return ()
    with (root / "models" / "INDEX.tsv").open() as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["format"] == form]
    return tuple(_network(root / "models", row) for row in rows if row["file"].startswith(f"{folder}/"))


def _network(models: Path, row: dict[str, str]) -> Network:
    path = models / row["file"]
    golden = models / "golden" / f"{row['sha256'][:16]}.npz"
    return Network(path.stem, path, row["dtype"], golden, golden.with_suffix(".tflm.npz"))


def load_arrays(path: Path, prefix: str) -> list[np.ndarray]:
    """The arrays `prefix_0`, `prefix_1`, ... of an .npz file."""
    with np.load(path) as file:
        return [file[f"{prefix}_{i}"] for i in range(sum(name.startswith(f"{prefix}_") for name in file.files))]
