"""What every frontend is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Graph
from trivet.ir.op import Array
from trivet.ir.types import Shape

Rewrite = Callable[[Path, bytes], bytes]
"""Changes the bytes of a model's file; the path says which file and format it is."""

REWRITES: list[Rewrite] = []
"""What extensions do to a file before it is parsed, in this order."""

ADDED_TFLITE: dict[str, Any] = {}
ADDED_ONNX: dict[tuple[str, str], Any] = {}
"""Converters of extensions, for operators that the frontends do not know."""


def contents(path: Path) -> bytes:
    """The bytes of a model's file as a frontend reads them.

    Raises: OSError.
    """
    data = path.read_bytes()
    for rewrite in REWRITES:
        data = rewrite(path, data)
    return data


def is_read_as_stored(path: Path) -> bool:
    """False iff an extension changes the file, so that no other runtime can read it."""
    return not REWRITES or contents(path) == path.read_bytes()


def text_of(path: Path, encoding: str = "utf-8") -> str:
    """The same as text, every line ending in a newline alone.

    Raises: OSError, UnicodeDecodeError.
    """
    return contents(path).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model file is read.

    `input_shapes` gives a model input another shape, in the model's axis order; free dimensions of the others become 1.
    `bindings` makes a model input a constant. `numerics` is the arithmetic contract of integer operators (None: the
    format's own). `subgraph` chooses one of several computations in a file.
    """

    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    numerics: Numerics | None = None
    subgraph: int = 0
    bindings: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """An imported graph, and a sentence for each thing that the frontend decided for the user.

    `numerics` is the arithmetic contract that the file was read under; None where a format states it in each operator.
    """

    graph: Graph
    notes: tuple[str, ...] = ()
    numerics: Numerics | None = None
