"""The epilogue unit: steps on rows of int32 values, one lane a column."""

from __future__ import annotations

import numpy as np

from trivet.backends.tpu.ir import (
    Bias,
    Clamp,
    Divide,
    Ints,
    Join,
    Offset,
    Operation,
    Program,
    Relu,
    Rescale,
    Round,
    Rounding,
    Scale,
    Step,
    Table,
)
from trivet.backends.tpu.memory import Memory
from trivet.core.fixedpoint import multiply_by_quantized_multiplier, round_half_away
from trivet.errors import MayOverflow

INT32 = np.iinfo(np.int32)


ROUND_LIMIT = 1 << 30
"""Where the results of a rounding step saturate, so that an offset cannot leave int32."""


class MachineTrap(MayOverflow):
    """A run stopped because a value left its type."""


def within_int32(values: Ints, what: str) -> Ints:
    """Raises: MachineTrap."""
    if values.size and (values.min() < INT32.min or values.max() > INT32.max):
        raise MachineTrap(f"{what} leaves int32")
    return values


def scaled(values: Ints, scale: Scale) -> Ints:
    """Raises: MachineTrap where the left shift leaves int32."""
    shifted = within_int32(values << scale.left, "a left shift")
    return multiply_by_quantized_multiplier(shifted, scale.multiplier, scale.shift)


class Epilogue:
    """The steps of one layer, for the rows and columns that its passes bring.

    Raises: MachineTrap, from `apply`.
    """

    def __init__(self, program: Program, memory: Memory, steps: tuple[Step, ...], columns: int) -> None:
        self._parameters = program.parameters
        self._memory = memory
        self._steps = steps
        self._columns = columns

    def apply(self, values: Ints, row: int, column: int) -> Ints:
        """Results of sums [rows, columns] that begin at (`row`, `column`) of the layer's output."""
        for step in self._steps:
            values = self._step(step, values, row, column)
        return values

    def _step(self, step: Step, v: Ints, row: int, column: int) -> Ints:
        match step:
            case Bias(at):
                return within_int32(v + self._lanes(at, column, v), "a sum with the bias")
            case Relu():
                return np.maximum(v, 0)
            case Rescale() | Round() | Scale():
                return self._to_scale(step, v, column)
            case Offset(value):
                return within_int32(v + value, "a sum with an offset")
            case Clamp(lo, hi):
                return np.clip(v, lo, hi)
            case Divide(by):
                quotient: Ints = np.sign(v) * ((np.abs(v) + by // 2) // by)
                return quotient
            case Table(at):
                return self._from_table(at, v)
            case Join():
                return self._join(step, v, row, column)

    def _to_scale(self, step: Rescale | Round | Scale, v: Ints, column: int) -> Ints:
        match step:
            case Rescale(at):
                multipliers, shifts = self._lanes(at, column, v), self._lanes(at + self._columns, column, v)
                return multiply_by_quantized_multiplier(v, multipliers, shifts)
            case Round():
                return self._round(step, v, column)
            case Scale():
                return scaled(v, step)

    @np.errstate(all="ignore")
    def _round(self, step: Round, v: Ints, column: int) -> Ints:
        at = step.at + 2 * column
        factors = self._parameters[at : at + 2 * v.shape[1]].astype("<i4").view("<f8")
        products = (v.astype(np.float64) / step.divisor) * factors
        rounded = np.rint(products) if step.rounding is Rounding.EVEN else round_half_away(products)
        return np.clip(rounded, -ROUND_LIMIT, ROUND_LIMIT).astype(np.int64)

    def _lanes(self, at: int, column: int, v: Ints) -> Ints:
        """One parameter for each column of `v`."""
        return self._parameters[at + column : at + column + v.shape[1]].astype(np.int64)

    def _from_table(self, at: int, v: Ints) -> Ints:
        if v.size and (v.min() < -128 or v.max() > 127):
            raise MachineTrap("an index of a table lies outside -128 to 127")
        return self._parameters[at : at + 256].astype(np.int64)[v + 128]

    def _join(self, step: Join, v: Ints, row: int, column: int) -> Ints:
        rows, columns = slice(row, row + v.shape[0]), slice(column, column + v.shape[1])
        r = self._memory.gather(step.operand, rows, columns).astype(np.int64)
        r = within_int32(r + step.offset, "a sum with an offset")
        if step.scale is not None:
            r = scaled(r, step.scale)
        match step.operation:
            case Operation.ADD:
                return within_int32(v + r, "a sum of two operands")
            case Operation.SUB:
                return within_int32(v - r, "a difference of two operands")
            case Operation.MUL:
                return within_int32(v * r, "a product of two operands")
            case Operation.MIN:
                return np.minimum(v, r)
            case Operation.MAX:
                return np.maximum(v, r)
