"""An ONNX model as plain values: what is left of a file after `read` has checked it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

from trivet.core.dtype import DType
from trivet.core.record import dataclass
from trivet.ir.op import Array

Dim = int | str
"""A known extent, or the name of a free dimension ("" when it has none)."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that the file holds in a form that Trivet has no type for; an operator that asks for it is refused."""

    reason: str


@dataclass(frozen=True, slots=True)
class PortInfo:
    """A declared graph input or output. `dims` is None where the file declares no shape."""

    name: str
    dtype: DType | None
    dims: tuple[Dim, ...] | None
    foreign_dtype: str


@dataclass(frozen=True, slots=True)
class Body:
    """Operators with the values that enter and leave: the model's graph, or a branch of If."""

    name: str
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    initializers: Mapping[str, Array | Unreadable]
    nodes: tuple[ForeignNode, ...]

    def free_names(self) -> set[str]:
        """Names that the body reads and does not define."""
        defined = {port.name for port in self.inputs} | set(self.initializers)
        defined.update(name for node in self.nodes for name in node.outputs)
        used = {name for node in self.nodes for name in node.reads()} | {port.name for port in self.outputs}
        return used - defined


Attribute: TypeAlias = (
    "int | float | str | Array | Body | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Unreadable"
)


@dataclass(frozen=True, slots=True)
class ForeignNode:
    """One operator of the file; absent operands and results are empty names."""

    index: int
    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def reads(self) -> Iterator[str]:
        """Names of everything that the operator needs, captures of its bodies included."""
        yield from (name for name in self.inputs if name)
        for value in self.attributes.values():
            if isinstance(value, Body):
                yield from sorted(value.free_names())

    @property
    def qualified_kind(self) -> str:
        return f"{self.domain}:{self.kind}" if self.domain else self.kind


@dataclass(frozen=True, slots=True)
class Model:
    """A file's main graph, and the operator set version of each domain ("" is ONNX's own)."""

    body: Body
    opsets: Mapping[str, int]
