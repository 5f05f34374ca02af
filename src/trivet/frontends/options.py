"""What every frontend is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from trivet.core.numerics import Numerics
from trivet.core.record import dataclass
from trivet.ir.graph import Graph
from trivet.ir.op import Array
from trivet.ir.types import Shape


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
