"""The instrument that catches a pass which computes something else than the program before it.

Before the first pass the oracle runs the graph on seeded and corner inputs and keeps every named value. After each pass
that changed something it runs again, and every value that survives by name must be what it was, as far as the pass
declares to preserve it. A pass that says it changed nothing must not have touched the data of a constant either.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np

from trivet.core.interval import Interval
from trivet.interp import to_model, to_storage
from trivet.ir.graph import Graph, Port
from trivet.ir.op import Array
from trivet.passes.base import Exact, Pass, Preserves, Relative, Steps
from trivet.passes.lowered import StageRun
from trivet.passes.manager import Instrument, PassRun
from trivet.passes.traces import Invocations, Observed, Oracle, Trace, model_inputs


class VerifyEach(Instrument):
    """Compares the program after every pass with the program before the first.

    `seed` draws the random inputs, `i32` is what the i32 inputs of exact programs hold (None: the default range);
    `allowed` collects what inexact passes were granted.
    """

    def __init__(self, seed: int = 0, i32: Interval | None = None) -> None:
        self._seed = seed
        self._i32 = i32
        self._inputs: list[Invocations] = []
        self._oracles: list[Oracle] = []
        self._baseline: list[list[Trace]] = []
        self._data = 0
        self._ports: tuple[tuple[Port, ...], tuple[Port, ...]] = ((), ())
        self.allowed: list[tuple[str, Preserves]] = []

    @property
    def flags(self) -> str:
        range_ = "" if self._i32 is None else f" --i32-range={self._i32.lo}:{self._i32.hi}"
        return f"--verify-each --seed {self._seed}{range_}"

    def begin(self, graph: Graph) -> None:
        self._inputs = model_inputs(graph, self._seed, self._i32)
        self._oracles = [Oracle() for _ in self._inputs]
        self._baseline = self._run(graph)

    def before(self, pass_: Pass, graph: Graph) -> None:
        self._data = _checksum(graph)

    def after(self, run: PassRun, graph: Graph) -> str | None:
        if not run.changed:
            return None if _checksum(graph) == self._data else "it changed the data of a constant"
        preserves = run.pass_.preserves
        found = self.compare(graph, preserves)
        if found is None:
            if not isinstance(preserves, Exact):
                self.allowed.append((run.pass_.name, preserves))
            # Also after an exact pass: the values that it introduced by name are compared and taught from here on.
            self._baseline = self._run(graph)
        return found

    def end(self, graph: Graph) -> None:
        self._ports = (tuple(graph.input_ports), tuple(graph.output_ports))

    def after_stage(self, run: StageRun) -> str | None:
        """Everything below the graph is exact, and compared at the outputs."""
        inputs, outputs = self._ports
        for invocations, expected in zip(self._inputs, self._baseline, strict=True):
            stored = [[to_storage(a, p) for a, p in zip(arrays, inputs, strict=True)] for arrays in invocations]
            for trace, made in zip(expected, run.program.interpret(stored), strict=True):
                arrays = [to_model(a, p) for a, p in zip(made, outputs, strict=True)]
                actual = {
                    f"output {i}": Observed(p.type, a) for i, (a, p) in enumerate(zip(arrays, outputs, strict=True))
                }
                found = first_difference(trace, actual, Exact())
                if found is not None:
                    return found
        return None

    def compare(self, graph: Graph, preserves: Preserves) -> str | None:
        """The first difference to the baseline; where steps are allowed, each layer gets the baseline's values."""
        teach = isinstance(preserves, Steps)
        for inputs, oracle, expected in zip(self._inputs, self._oracles, self._baseline, strict=True):
            actual = oracle.run(graph, inputs, expected, teach)
            for before, after in zip(expected, actual, strict=True):
                difference = first_difference(before, after, preserves)
                if difference is not None:
                    return difference
        return None

    def _run(self, graph: Graph) -> list[list[Trace]]:
        return [oracle.run(graph, inputs) for oracle, inputs in zip(self._oracles, self._inputs, strict=True)]


def _checksum(graph: Graph) -> int:
    """Of the data of all constants and initial states."""
    data: Iterable[Array | None] = (*(v.data for v in graph.constants()), *(s.initial for s in graph.states))
    total = 0
    for array in data:
        total = crc32(np.ascontiguousarray(array).data, total)
    return total


def first_difference(before: Trace, after: Trace, preserves: Preserves) -> str | None:
    """A sentence on the first value, in order of computation, that is not preserved."""
    for name, actual in after.items():
        expected = before.get(name)
        if expected is None or expected.type.shape != actual.type.shape:
            continue
        found = _difference(expected, actual, preserves)
        if found is not None:
            return f"%{name} {found}"
    return None


def _difference(expected: Observed, actual: Observed, preserves: Preserves) -> str | None:
    if expected.type.dtype is not actual.type.dtype and not (expected.type.quant and actual.type.quant):
        return None
    match preserves:
        case Exact() if expected.type.dtype is actual.type.dtype:
            wrong = ~_same_bits(expected.array, actual.array)
        case Exact():
            wrong = ~_same_bits(_real(expected), _real(actual))
        case Steps(count):
            step = max(expected.step, actual.step) or _float_step(expected)
            wrong = _farther(_real(expected), _real(actual), count * step * 1.0001)
        case Relative(epsilon):
            wrong = _farther(_real(expected), _real(actual), epsilon * max(_largest(expected), 1e-30))
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    was, now = expected.array[index], actual.array[index]
    return f"at {list(index)} was {was} and is {now} ({int(wrong.sum())} of {wrong.size} elements differ)"


def _same_bits(a: Array, b: Array) -> Array:
    same: Array = (a == b) | ((a != a) & (b != b))
    return same


def _farther(expected: Array, actual: Array, distance: float) -> Array:
    """Where two floats differ by more than `distance`; what is no number or infinite must stay what it is."""
    with np.errstate(invalid="ignore"):
        near = np.abs(expected - actual) <= distance
    far: Array = ~(near | _same_bits(expected, actual))
    return far


def _largest(observed: Observed) -> float:
    """The largest finite magnitude of real values."""
    magnitudes = np.abs(_real(observed))
    return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))


def _float_step(observed: Observed) -> float:
    """A float computed from quantized layers may move by a 1/64 of its largest magnitude."""
    return _largest(observed) / 64 if observed.type.dtype.is_float else 1.0


def _real(observed: Observed) -> Array:
    quant = observed.type.quant
    if quant is None:
        return observed.array.astype(np.float64)
    shape = [1] * observed.array.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    zeros = np.array(quant.zero_points, np.float64).reshape(shape if quant.axis is not None else ())
    scales = np.array(quant.scales, np.float64).reshape(shape if quant.axis is not None else ())
    return np.asarray((observed.array.astype(np.float64) - zeros) * scales)
