"""Recurrent layers on float32: a sequence goes through a cell step by step.

All take x [T, N, I] and give y [T, N, H] beside the last states [N, H]. Weights are rows of one gate after the other,
w [G*H, I] for the operand and r [G*H, H] for the state before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import ClassVar

import numpy as np

from trivet.core.dtype import F32
from trivet.core.record import dataclass
from trivet.ir.op import Array, Arrays, Op, require
from trivet.ir.types import TensorType, Types


class CellFunction(Enum):
    """What a cell applies to its sums; some have the parameters alpha and beta."""

    SIGMOID = "sigmoid"
    TANH = "tanh"
    RELU = "relu"
    AFFINE = "affine"
    LEAKY_RELU = "leaky_relu"
    THRESHOLDED_RELU = "thresholded_relu"
    SCALED_TANH = "scaled_tanh"
    HARD_SIGMOID = "hard_sigmoid"
    ELU = "elu"
    SOFTSIGN = "softsign"
    SOFTPLUS = "softplus"


_FORMULAS: dict[CellFunction, Callable[[Array, float, float], Array]] = {
    CellFunction.SIGMOID: lambda x, a, b: 1 / (1 + np.exp(-x)),
    CellFunction.TANH: lambda x, a, b: np.tanh(x),
    CellFunction.RELU: lambda x, a, b: np.maximum(x, 0),
    CellFunction.AFFINE: lambda x, a, b: a * x + b,
    CellFunction.LEAKY_RELU: lambda x, a, b: np.where(x >= 0, x, a * x),
    CellFunction.THRESHOLDED_RELU: lambda x, a, b: np.where(x > a, x, 0),
    CellFunction.SCALED_TANH: lambda x, a, b: a * np.tanh(b * x),
    CellFunction.HARD_SIGMOID: lambda x, a, b: np.clip(a * x + b, 0, 1),
    CellFunction.ELU: lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
    CellFunction.SOFTSIGN: lambda x, a, b: x / (1 + np.abs(x)),
    CellFunction.SOFTPLUS: lambda x, a, b: np.logaddexp(x, 0),
}


@dataclass(frozen=True, slots=True)
class Nonlinearity:
    """A function with its parameters."""

    kind: CellFunction
    alpha: float = 0.0
    beta: float = 0.0

    def __call__(self, x: Array) -> Array:
        return _FORMULAS[self.kind](x, self.alpha, self.beta)


@dataclass(frozen=True, slots=True)
class _Recurrent(Op):
    """`reverse` starts at the last step; `clip` limits what functions are applied to (0: not at all).

    `alphas` and `betas` are the parameters of `functions`.
    """

    functions: tuple[CellFunction, ...] = (CellFunction.SIGMOID, CellFunction.TANH, CellFunction.TANH)
    alphas: tuple[float, ...] = (0.0, 0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0, 0.0)
    reverse: bool = False
    clip: float = 0.0

    gates: ClassVar[int]
    biases: ClassVar[int]
    states: ClassVar[int]
    function_count: ClassVar[int]

    def infer(self, types: Types) -> Types:
        count = 4 + self.states
        require(len(types) in (count, count + self.peepholes), f"{self.name} takes {count} operands, got {len(types)}")
        require(all(t.dtype is F32 for t in types), f"{self.name} takes f32 operands")
        x, w, r, b, *rest = types
        require(x.rank == 3 and x.elements > 0, f"{self.name} takes [T, N, I], got {x}")
        require(r.rank == 2 and r.elements > 0, f"{self.name} takes [G*H, H], got {r}")
        hidden = r.shape[1]
        require(r.shape[0] == self.gates * hidden, f"{self.name} has {self.gates} gates, got {r}")
        require(w.shape == (self.gates * hidden, x.shape[2]), f"{self.name} weights {w} do not suit {x} and {r}")
        require(b.shape == (self.biases * hidden,), f"{self.name} bias must be [{self.biases * hidden}], got {b}")
        state = TensorType(F32, (x.shape[1], hidden))
        require(all(t == state for t in rest[: self.states]), f"{self.name} states must be {state}")
        require(all(t.shape == (3 * hidden,) for t in rest[self.states :]), f"{self.name} peepholes are [{3 * hidden}]")
        counts = {len(self.functions), len(self.alphas), len(self.betas)}
        require(counts == {self.function_count}, f"{self.name} has {self.function_count} functions")
        require(math.isfinite(self.clip) and self.clip >= 0, f"{self.name} clips at {self.clip}")
        return (TensorType(F32, (*x.shape[:2], hidden)), *(state for _ in range(self.states)))

    @property
    def peepholes(self) -> int:
        """How many further operands there may be."""
        return 0

    def macs(self, types: Types) -> int:
        x, w, r = types[:3]
        return x.shape[0] * x.shape[1] * (w.elements + r.elements)

    def _steps(self, x: Array) -> Iterator[int]:
        steps = range(len(x))
        return iter(reversed(steps) if self.reverse else steps)

    def _function(self, index: int, x: Array) -> Array:
        limited = np.clip(x, -self.clip, self.clip) if self.clip else x
        return self.nonlinearity(index)(limited)

    def nonlinearity(self, index: int) -> Nonlinearity:
        return Nonlinearity(self.functions[index], self.alphas[index], self.betas[index])


def _gates(x: Array, count: int) -> list[Array]:
    return np.split(x, count, axis=-1)


@dataclass(frozen=True, slots=True)
class Lstm(_Recurrent):
    """Gates i, o, f and candidate c (the order of rows): cell = f*cell + i*c, h = o * function(cell).

    x, w [4H, I], r [4H, H], bias [4H], h [N, H], cell [N, H], peepholes [3H] of i, o, f (optional) -> y, h, cell
    `input_forget` makes f = 1 - i; `cell_clip` limits the cell (0: not at all).
    """

    input_forget: bool = False
    cell_clip: float = 0.0
    name: ClassVar[str] = "lstm"
    gates: ClassVar[int] = 4
    biases: ClassVar[int] = 4
    states: ClassVar[int] = 2
    function_count: ClassVar[int] = 3

    @property
    def peepholes(self) -> int:
        return 1

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w, r, b, h, cell, *rest = (a.astype(np.float64) for a in arrays)
        peepholes = _gates(rest[0], 3) if rest else [np.zeros(1)] * 3
        y = np.zeros((*x.shape[:2], r.shape[1]))
        with np.errstate(all="ignore"):
            for step in self._steps(x):
                i, o, f, c = _gates(x[step] @ w.T + h @ r.T + b, 4)
                i = self._function(0, i + peepholes[0] * cell)
                f = 1 - i if self.input_forget else self._function(0, f + peepholes[2] * cell)
                cell = f * cell + i * self._function(1, c)
                if self.cell_clip:
                    cell = np.clip(cell, -self.cell_clip, self.cell_clip)
                o = self._function(0, o + peepholes[1] * cell)
                h = y[step] = o * self.nonlinearity(2)(cell)
            return y.astype(np.float32), h.astype(np.float32), cell.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Gru(_Recurrent):
    """Gates z, r and candidate h (the order of rows): h = (1 - z) * candidate + z * h.

    x, w [3H, I], r [3H, H], bias [4H] of z, r, the candidate's operand, the candidate's state; h [N, H] -> y, h
    `linear_before_reset`: r multiplies the candidate's sum over the state, else the state itself.
    """

    linear_before_reset: bool = False
    name: ClassVar[str] = "gru"
    gates: ClassVar[int] = 3
    biases: ClassVar[int] = 4
    states: ClassVar[int] = 1
    function_count: ClassVar[int] = 2

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w, r, b, h = (a.astype(np.float64) for a in arrays)
        hidden = r.shape[1]
        z_bias, r_bias, operand_bias, state_bias = _gates(b, 4)
        y = np.zeros((*x.shape[:2], hidden))
        with np.errstate(all="ignore"):
            for step in self._steps(x):
                z_sum, r_sum, candidate = _gates(x[step] @ w.T, 3)
                z = self._function(0, z_sum + h @ r[:hidden].T + z_bias)
                reset = self._function(0, r_sum + h @ r[hidden : 2 * hidden].T + r_bias)
                last = r[2 * hidden :].T
                before = self.linear_before_reset
                state = reset * (h @ last + state_bias) if before else (reset * h) @ last + state_bias
                h = (1 - z) * self._function(1, candidate + operand_bias + state) + z * h
                y[step] = h
            return y.astype(np.float32), h.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Rnn(_Recurrent):
    """h = function(x w + h r + bias).

    x, w [H, I], r [H, H], bias [H], h [N, H] -> y, h
    """

    name: ClassVar[str] = "rnn"
    gates: ClassVar[int] = 1
    biases: ClassVar[int] = 1
    states: ClassVar[int] = 1
    function_count: ClassVar[int] = 1

    def evaluate(self, arrays: Arrays, types: Types) -> Arrays:
        x, w, r, b, h = (a.astype(np.float64) for a in arrays)
        y = np.zeros((*x.shape[:2], r.shape[1]))
        with np.errstate(all="ignore"):
            for step in self._steps(x):
                h = y[step] = self._function(0, x[step] @ w.T + h @ r.T + b)
            return y.astype(np.float32), h.astype(np.float32)
