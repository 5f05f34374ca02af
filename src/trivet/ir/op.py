"""The contract that every operator keeps: what it means, in one class.

An operator is a frozen dataclass whose fields are its attributes. `infer` and `evaluate` are required; every other fact
has a default that is always sound, so a forgotten fact costs an optimization, never correctness.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from trivet.core.access import Access, Span, whole
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.ir.types import Shape, TensorType, Types

Array: TypeAlias = "npt.NDArray[Any]"
Arrays = tuple[Array, ...]
Intervals = tuple[Interval, ...]
Region = tuple[Span, ...]
"""One span per axis."""


class TypeMismatch(Exception):
    """Operands that an operator does not take. The builder or verifier that asked adds the place."""


def reject(message: str) -> NoReturn:
    raise TypeMismatch(message)


def require(claim: bool, message: str, *about: object) -> None:
    """Raise TypeMismatch unless `claim` holds; `about` fills the braces of the message, only then."""
    if not claim:
        reject(message.format(*about) if about else message)


@dataclass(frozen=True, slots=True)
class Tile:
    """How one output region is computed alone: the operator to apply and the region of each operand it reads."""

    op: Op
    regions: tuple[Region, ...]


class Op:
    """One operator with its attributes: a frozen, slotted dataclass. Equality means "computes the same".

    Not an `ABC`: what is abstract is checked statically, and `isinstance` of an abstract base class is slow.
    """

    __slots__ = ()

    name: ClassVar[str]
    """The name in the text form, for example `max_pool2d`."""

    commutative: ClassVar[bool] = False
    """True iff swapping the first two operands never changes the result."""

    reuses_input: ClassVar[bool] = False
    """True iff the result may be written over the first operand element by element (same shape and width)."""

    views_input: ClassVar[bool] = False
    """True iff the result is the first operand's bytes under another type (reshape): no code runs."""

    @abstractmethod
    def infer(self, types: Types) -> Types:
        """Result types from operand types.

        Raises: TypeMismatch, the only place where operands are checked.
        """

    @abstractmethod
    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        """Result arrays from operand arrays (`types` are the operands' types): the meaning, exact for integers."""

    def bound(self, intervals: Intervals, types: Types) -> Intervals:
        """An interval for each integer result, given one for each operand."""
        return tuple(full_range(result) for result in self.infer(types))

    def overflows(self, arrays: Arrays, types: Types) -> bool:
        """True iff exact arithmetic would leave the result's type on these operands; other operators define what is."""
        return False

    def access(self, types: Types) -> tuple[Access, ...]:
        """For each operand, a rule per axis."""
        return tuple(whole(operand.shape) for operand in types)

    def tile(self, types: Types, out: Region) -> Tile | None:
        """How the output region `out` is computed alone, or None where it cannot be."""
        return None

    def macs(self, types: Types) -> int:
        """Multiply-accumulate steps of one execution."""
        return 0


def full_range(type_: TensorType) -> Interval:
    """Every value that the element type can hold; a float has no integer range and gets [0, 0]."""
    if type_.dtype.is_float:
        return Interval(0, 0)
    return Interval(type_.dtype.min, type_.dtype.max)


def whole_region(shape: Shape) -> Region:
    """Every index of every axis."""
    return tuple(Span(0, size) for size in shape)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape of an elementwise result (numpy's rules).

    Raises: TypeMismatch.
    """
    try:
        return tuple(int(d) for d in np.broadcast_shapes(*shapes))
    except ValueError:
        return reject(f"shapes {', '.join(map(str, shapes))} do not broadcast together")
