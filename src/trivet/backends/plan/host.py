"""Runs plans on this machine with the C runtime: the same loader, executor and kernels that a device has."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from trivet.backends.plan import format as f
from trivet.backends.plan.kernels.table import all_kernels
from trivet.backends.plan.reader import PlanInfo, StepInfo, TensorInfo, read
from trivet.core.native import LIBRARY, open_library
from trivet.errors import CompileError, InvalidModel
from trivet.interp import check_accepted
from trivet.ir.op import Array

_BUILD = "build it with `make lib`"
_STOPPED = 23
_NOT_ACCEPTED = 25
_POISONS = (0xA5, 0x5A)
_GUARD_BYTES = 4096
"""Memory behind each region, so that a run which uses more than the plan says is measured."""

Bytes = npt.NDArray[np.uint8]
LayerObserver = Callable[[int, StepInfo, list[Array]], None]
"""Called when a step is complete, with its index and its results."""


class HostUnavailable(CompileError):
    """The C runtime is not there for this machine, or is of another version."""


class _Memory(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class _Arrays(ctypes.Structure):
    """`trivet_host_arrays`: addresses of whole arrays by port."""

    _fields_ = [("inputs", ctypes.POINTER(ctypes.c_void_p)), ("outputs", ctypes.POINTER(ctypes.c_void_p))]


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("run", ctypes.c_void_p),
        ("check", ctypes.c_void_p),
        ("params_bytes", ctypes.c_uint32),
        ("blobs", ctypes.c_uint32),
        ("by_rows", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    """A kernel call, before it (`done` false) and after it."""

    _fields_ = [
        ("step", ctypes.c_uint32),
        ("image", ctypes.c_uint32),
        ("row", ctypes.c_uint32),
        ("rows", ctypes.c_uint32),
        ("done", ctypes.c_bool),
    ]


OBSERVER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Event))
"""`trivet_observer`: anything but 0 ends the run."""


@cache
def library() -> ctypes.CDLL:
    """The C runtime.

    Raises: HostUnavailable, where it was not built, or from other sources than this package's.
    """
    path = LIBRARY
    if not path.is_file():
        raise HostUnavailable("the host runtime is not built", where=path, hint=_BUILD)
    try:
        loaded = open_library()
    except OSError as error:
        raise HostUnavailable(f"the host runtime cannot be loaded: {error}", where=path, hint=_BUILD) from error
    check_library(loaded, path)
    return loaded


def check_library(loaded: ctypes.CDLL, path: Path) -> None:
    """Declare the functions; every kernel must be there with the record that this package writes.

    Raises: HostUnavailable.
    """
    loaded.trivet_find_kernel.restype = ctypes.POINTER(_Kernel)
    loaded.trivet_status_text.restype = ctypes.c_char_p
    loaded.trivet_host_profile.restype = ctypes.c_int
    for kernel in all_kernels():
        found = loaded.trivet_find_kernel(kernel.id)
        blobs = sum(1 << offset // 4 for offset in kernel.blobs())
        expected = (kernel.params.size_bytes, blobs, int(kernel.by_rows) + kernel.over_sums)
        if not found or (found[0].params_bytes, found[0].blobs, found[0].by_rows) != expected:
            reason = f"the host runtime is of another version: kernel {kernel.name} differs"
            raise HostUnavailable(reason, where=path, hint=_BUILD)


class HostModel:
    """A plan with memory of its own. Arrays are in storage order, as `plan.inputs` and `plan.outputs` say.

    Raises: InvalidModel, where the loader refuses the plan.
    """

    def __init__(self, data: bytes, loaded: ctypes.CDLL | None = None) -> None:
        self._library = loaded or library()
        self._plan = aligned(len(data), f.ALIGNMENT)
        self._plan[: len(data)] = np.frombuffer(data, np.uint8)
        self._model = aligned(self._library.trivet_host_model_bytes(), f.ALIGNMENT)
        self._check(self._library.trivet_open(self._pointer, _address(self._plan), ctypes.c_size_t(len(data))))
        self.plan: PlanInfo = read(data)
        self.memories: Sequence[Bytes] = [aligned(r.size_bytes + _GUARD_BYTES, r.alignment) for r in self.plan.regions]
        self._bind()

    @property
    def arena_bytes(self) -> int:
        """Bytes of the first region: activations, scratch, counters."""
        return self.plan.regions[0].size_bytes

    def reset(self) -> None:
        """States get their initial values."""
        self._check(self._library.trivet_reset(self._pointer))

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """One inference.

        Raises: InvalidModel, where an input has another shape or type than the plan's, or holds what the plan does not
        accept, or an index that is out of range.
        """
        given = self._set_inputs(inputs)
        results: list[Array] = [np.empty(port.tensor.shape, port.tensor.dtype.numpy) for port in self.plan.outputs]
        self._serve_rows(given, results)
        status = self._library.trivet_run(self._pointer)
        if status == _NOT_ACCEPTED:
            self._say_what_is_not_accepted(inputs)
        if status != 0:
            raise InvalidModel(f"the run stopped: {self._text(status)}")
        for index, (port, array) in enumerate(zip(self.plan.outputs, results, strict=True)):
            if not port.by_rows:
                self._get_output(index, array)
        return results

    def profile(self, inputs: Sequence[Array], runs: int = 1) -> list[int]:
        """Nanoseconds that each step takes: the least of several runs."""
        best: npt.NDArray[np.uint64] | None = None
        observer = ctypes.cast(self._library.trivet_host_profile, ctypes.c_void_p)
        for _ in range(runs):
            times = np.zeros(1 + len(self.plan.steps), np.uint64)
            self._library.trivet_observe(self._pointer, observer, ctypes.c_void_p(times.ctypes.data))
            try:
                self.run(inputs)
            finally:
                self._library.trivet_observe(self._pointer, None, None)
            best = times if best is None else np.minimum(best, times)
        return [] if best is None else [int(time) for time in best[1:]]

    def run_layers(self, inputs: Sequence[Array], observe: LayerObserver) -> list[Array]:
        """Like `run`, and every step's results are given to `observe` when the step is complete."""
        collector = Collector(self, observe)
        try:
            return self.run_observed(inputs, collector.event)
        except InvalidModel:
            if collector.error is not None:
                raise collector.error from None
            raise

    def run_observed(self, inputs: Sequence[Array], observe: Callable[[Event], int]) -> list[Array]:
        """Like `run`, with a call before and after every kernel."""
        callback = OBSERVER(lambda _, event: observe(event[0]))
        self._library.trivet_observe(self._pointer, callback, None)
        try:
            return self.run(inputs)
        finally:
            self._library.trivet_observe(self._pointer, None, None)

    def high_water_bytes(self, inputs: Sequence[Array]) -> int:
        """How much of the arena a run touches: the end of the last byte that changes in a poisoned arena."""
        return self.high_waters(inputs)[0]

    def high_waters(self, inputs: Sequence[Array]) -> list[int]:
        """The same of every region.

        Two poisons, so that a byte which happens to be written as the one is seen with the other.
        """
        highest = [0] * len(self.memories)
        for poison in _POISONS:
            for memory in self.memories:
                memory[:] = poison
            self._bind()
            self.run(inputs)
            for region, memory in enumerate(self.memories):
                changed = np.flatnonzero(memory != poison)  # also behind what the plan claims
                highest[region] = max(highest[region], int(changed[-1]) + 1 if changed.size else 0)
        return highest

    @property
    def _pointer(self) -> ctypes.c_void_p:
        return _address(self._model)

    def _bind(self) -> None:
        memories = (_Memory * len(self.memories))(*[_Memory(m.ctypes.data, m.size) for m in self.memories])
        self._check(self._library.trivet_bind(self._pointer, memories, len(memories)))

    def _serve_rows(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Rows of ports that go by rows come from and go to these arrays, which the model keeps."""
        sides = [(ctypes.c_void_p * max(1, len(side)))(*[a.ctypes.data for a in side]) for side in (inputs, outputs)]
        arrays = _Arrays(*[ctypes.cast(side, ctypes.POINTER(ctypes.c_void_p)) for side in sides])
        self._served = (arrays, *sides, *inputs, *outputs)
        self._library.trivet_host_border(self._pointer, ctypes.byref(arrays))

    def _set_inputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Copy what does not go by rows; the arrays as they lie in memory."""
        given: list[Array] = []
        if len(inputs) != len(self.plan.inputs):
            raise InvalidModel(f"the plan has {len(self.plan.inputs)} inputs, got {len(inputs)}")
        for index, (array, port) in enumerate(zip(inputs, self.plan.inputs, strict=True)):
            tensor = port.tensor
            if array.shape != tensor.shape or array.dtype != tensor.dtype.numpy:
                got = f"{array.dtype}{list(array.shape)}"
                raise InvalidModel(f"input {port.name} is {tensor.dtype.name}{list(tensor.shape)}, got {got}")
            data = np.ascontiguousarray(array)
            given.append(data)
            if port.by_rows:
                continue
            size = ctypes.c_size_t(data.nbytes)
            self._check(self._library.trivet_set_input(self._pointer, index, ctypes.c_void_p(data.ctypes.data), size))
        return given

    def _say_what_is_not_accepted(self, inputs: Sequence[Array]) -> NoReturn:
        for port, array in zip(self.plan.inputs, inputs, strict=True):
            in_order = array if port.perm is None else array.transpose(port.perm)
            check_accepted(port.name, in_order, port.accepts)
        raise AssertionError("the runtime refuses inputs that the plan accepts")

    def _get_output(self, index: int, array: Array) -> None:
        size = ctypes.c_size_t(array.nbytes)
        self._check(self._library.trivet_get_output(self._pointer, index, ctypes.c_void_p(array.ctypes.data), size))

    def _check(self, status: int) -> None:
        if status != 0:
            raise InvalidModel(f"the runtime refuses the plan: {self._text(status)}", hint="compile the model again")

    def _text(self, status: int) -> str:
        return str(self._library.trivet_status_text(status).decode())


class HasMemories(Protocol):
    """A plan that runs, or ran, with all of its memories as they are now."""

    @property
    def plan(self) -> PlanInfo: ...

    @property
    def memories(self) -> Sequence[Bytes]: ...


class Collector:
    """Puts together the results of steps that make them row by row."""

    def __init__(self, model: HasMemories, observe: LayerObserver) -> None:
        self.model, self.observe = model, observe
        self.results: dict[int, list[Bytes]] = {}
        self.error: BaseException | None = None

    def event(self, event: Event) -> int:
        if not event.done:
            return 0
        try:
            self.collect(event.step, event.image, event.row, event.rows)
        except BaseException as error:
            self.error = error
            return _STOPPED
        return 0

    def collect(self, index: int, image: int, row: int, rows: int) -> None:
        """A call has made these rows of a step's results."""
        plan = self.model.plan
        step = plan.steps[index]
        tensors = [plan.tensors[t] for t in step.outputs]
        results = self.results.setdefault(index, [np.zeros(_whole_bytes(t), np.uint8) for t in tensors])
        for tensor, data in zip(tensors, results, strict=True):
            memory = self.model.memories[tensor.region][tensor.offset :]
            if tensor.depth == tensor.height:
                data[:] = memory[: data.size]
                continue
            image_bytes = tensor.height * tensor.row_bytes
            for r in range(row, row + rows):
                slot, place = r % tensor.depth * tensor.row_bytes, image * image_bytes + r * tensor.row_bytes
                data[place : place + tensor.row_bytes] = memory[slot : slot + tensor.row_bytes]
        if image == step.images - 1 and row + rows >= self._end(step):
            arrays = [d.view(t.dtype.numpy).reshape(t.shape) for d, t in zip(results, tensors, strict=True)]
            self.observe(index, step, arrays)

    def _end(self, step: StepInfo) -> int:
        """Rows of an image after the last firing."""
        tensor = self.model.plan.tensors[step.inputs[0] if step.accumulates else step.outputs[0]]
        batch = tensor.shape[0] if len(tensor.shape) == 4 and step.images == 1 else 1
        return min(tensor.height * batch, step.firings * step.rows)


def _whole_bytes(tensor: TensorInfo) -> int:
    return tensor.dtype.size_bytes(int(np.prod(tensor.shape, dtype=np.int64)))


def aligned(size: int, alignment: int) -> Bytes:
    """Zeroed bytes whose address is a multiple of `alignment`; at least one, so that there is an address."""
    raw = np.zeros(max(size, 1) + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + max(size, 1)]


def _address(array: Bytes) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
