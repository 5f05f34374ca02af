"""A compiled plan as a user runs it: arrays in the model's own axis order, on this machine's native kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from trivet.backends.plan.host import HostModel
from trivet.backends.plan.reader import PlanInfo, PortInfo, TensorInfo
from trivet.core.interval import Interval
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.ir.graph import Port
from trivet.ir.op import Array
from trivet.ir.types import TensorType

LayerObserver = Callable[[str, Array], None]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Nanoseconds of one step of a plan."""

    name: str
    kernel: str
    nanoseconds: int


class Artifact:
    """A `.tgrs` plan, ready to run.

    Raises: InvalidModel where the bytes are no plan, HostUnavailable where the native runtime is not built.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._host = HostModel(data)

    @staticmethod
    def read(path: str | Path) -> Artifact:
        """The plan in a file.

        Raises: InvalidModel.
        """
        file = Path(path)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InvalidModel(f"cannot read: {error.strerror or error}", where=file) from None
        try:
            return Artifact(data)
        except InvalidModel as error:
            raise InvalidModel(error.message, where=file, hint=error.hint) from None

    @property
    def plan(self) -> PlanInfo:
        """What the file holds."""
        return self._host.plan

    @property
    def input_ports(self) -> list[Port]:
        """What it takes, in the model's own axis order."""
        return [model_port(port) for port in self.plan.inputs]

    @property
    def output_ports(self) -> list[Port]:
        """What it gives, in the model's own axis order."""
        return [model_port(port) for port in self.plan.outputs]

    @property
    def arena_bytes(self) -> int:
        return self._host.arena_bytes

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs for inputs, in the model's own shapes; states live on from run to run.

        Raises: InvalidModel where an input has the wrong shape or type.
        """
        return self._to_model(self._host.run(self._to_storage(inputs)))

    def reset(self) -> None:
        """States get their initial values."""
        self._host.reset()

    def run_layers(self, inputs: Sequence[Array], observe: LayerObserver) -> list[Array]:
        """Like `run`; `observe` gets the name and the array (storage order) of every step's first result."""
        return self._to_model(
            self._host.run_layers(self._to_storage(inputs), lambda index, step, arrays: observe(step.name, arrays[0]))
        )

    def high_water(self, inputs: Sequence[Array]) -> list[int]:
        """Bytes of each memory that a run touches, measured in poisoned memories."""
        return self._host.high_waters(self._to_storage(inputs))

    def high_water_bytes(self, inputs: Sequence[Array]) -> int:
        """Bytes of the arena that a run touches, measured in a poisoned arena."""
        return self._host.high_water_bytes(self._to_storage(inputs))

    def latency_us(self, inputs: Sequence[Array], repeat: int) -> float:
        """Median time of one inference, in microseconds, copies of inputs and outputs included."""
        arrays = self._to_storage(inputs)
        times = []
        for _ in range(max(1, repeat)):
            start = time.perf_counter()
            self._host.run(arrays)
            times.append(time.perf_counter() - start)
        return median(times) * 1e6

    def profile(self, inputs: Sequence[Array], runs: int) -> list[LayerTime]:
        """Time of every step: the least of several runs."""
        times = self._host.profile(self._to_storage(inputs), runs)
        return [LayerTime(s.name, s.kernel, t) for s, t in zip(self.plan.steps, times, strict=True)]

    def random_inputs(self, seed: int) -> list[Array]:
        """Integers over all that the input accepts, floats standard normal, in the model's own shapes.

        An input that chooses from a table stays inside the table.
        """
        rng = np.random.default_rng(seed)
        return [_random(port, rng, _choices(self.plan, port)) for port in self.plan.inputs]

    def _to_storage(self, inputs: Sequence[Array]) -> list[Array]:
        ports = self.plan.inputs
        if len(inputs) != len(ports):
            names = ", ".join(port.name for port in ports)
            raise InvalidModel(f"the plan has {len(ports)} inputs ({names}), got {len(inputs)}")
        return [_storage_order(array, port) for array, port in zip(inputs, ports, strict=True)]

    def _to_model(self, outputs: Sequence[Array]) -> list[Array]:
        return [_model_order(array, port) for array, port in zip(outputs, self.plan.outputs, strict=True)]


def model_shape(port: PortInfo) -> tuple[int, ...]:
    """The shape that the source model declares."""
    shape = port.tensor.shape
    return shape if port.perm is None else tuple(shape[axis] for axis in port.perm)


def model_port(port: PortInfo) -> Port:
    """What the source model declares."""
    return Port(port.name, TensorType(port.tensor.dtype, model_shape(port)), port.perm)


def _storage_order(array: Array, port: PortInfo) -> Array:
    wanted = f"{port.tensor.dtype.name}{list(model_shape(port))}"
    if array.shape != model_shape(port) or array.dtype != port.tensor.dtype.numpy:
        raise InvalidModel(f"input '{port.name}' is {wanted}, got {array.dtype}{list(array.shape)}")
    return array if port.perm is None else np.ascontiguousarray(array.transpose(np.argsort(port.perm)))


def _model_order(array: Array, port: PortInfo) -> Array:
    return array if port.perm is None else np.ascontiguousarray(array.transpose(port.perm))


def _choices(plan: PlanInfo, port: PortInfo) -> int | None:
    """Among how many slices an input chooses, None where it is no index of a gather."""
    extents = [
        extent
        for step in plan.steps
        if step.kernel in ("gather", "gather_rows") and step.params["indices"] == (0, 0)
        if _is_at(plan.tensors[step.inputs[-1]], port.tensor) and isinstance(extent := step.params["extent"], int)
    ]
    return min(extents, default=None)


def _is_at(tensor: TensorInfo, other: TensorInfo) -> bool:
    """True iff both are in the bytes of one input."""
    return tensor.producer is None and (tensor.region, tensor.offset) == (other.region, other.offset)


def _random(port: PortInfo, rng: np.random.Generator, choices: int | None) -> Array:
    dtype, shape = port.tensor.dtype, model_shape(port)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if choices is not None:
        return rng.integers(0, choices, shape, dtype.numpy)
    if dtype.is_integer:
        range_ = port.accepts or Interval(dtype.min, dtype.max)
        return rng.integers(range_.lo, range_.hi, shape, dtype.numpy, endpoint=True)
    return rng.integers(0, 2, shape).astype(np.bool_)
