"""The launch list: how the programs of a `.tgpu` file are run, and where data lies. JSON, with a schema in the docs.

Reading it is total: whatever the file holds, it is refused with file, line and reason, or it describes launches that
touch nothing outside memory before the first instruction runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from trivet.backends.gpu.isa import REGISTERS, WORD, Kind
from trivet.backends.gpu.machine import SIZES, CycleModel, Machine
from trivet.backends.gpu.positions import Path, line_of
from trivet.core.dtype import DType, by_name
from trivet.core.interval import Interval
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.ir.graph import Port
from trivet.ir.types import TensorType

FORMAT = "trivet-gpu-launch"
VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Words of global memory."""

    name: str
    address: int
    words: int


@dataclass(frozen=True, slots=True)
class Constant:
    """What memory holds before the first launch."""

    address: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Terminal:
    """An input or output: one element a word from `address` on, in the order of the stored shape."""

    address: int
    dtype: DType
    shape: tuple[int, ...]
    port: Port

    @property
    def words(self) -> int:
        return TensorType(self.dtype, self.shape).elements


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """One run of a program on a grid."""

    program: str
    grid: int
    block: int
    arguments: tuple[int, ...]
    shared_words: int


@dataclass(frozen=True, slots=True)
class LaunchList:
    """Everything beside the programs' text. `extended`: the programs need the extended machine.

    `machine` is what the programs were made for, and what runs them; `mem_words` is what they use of its memory.
    """

    machine: Machine
    extended: bool
    mem_words: int
    buffers: tuple[Buffer, ...]
    constants: tuple[Constant, ...]
    inputs: tuple[Terminal, ...]
    outputs: tuple[Terminal, ...]
    launches: tuple[LaunchEntry, ...]


def to_json(launches: LaunchList) -> str:
    """The list as text, one entry a line."""
    scalars: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "isa": "extended" if launches.extended else "base",
        "mem_words": launches.mem_words,
        "machine": _machine(launches.machine),
    }
    lists: dict[str, list[object]] = {
        "buffers": [{"name": b.name, "address": b.address, "words": b.words} for b in launches.buffers],
        "constants": [{"address": c.address, "values": list(c.values)} for c in launches.constants],
        "inputs": [_terminal(t) for t in launches.inputs],
        "outputs": [_terminal(t) for t in launches.outputs],
        "launches": [
            {
                "program": e.program,
                "grid": e.grid,
                "block": e.block,
                "arguments": list(e.arguments),
                "shared_words": e.shared_words,
            }
            for e in launches.launches
        ],
    }
    parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in scalars.items()]
    for key, entries in lists.items():
        lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in entries)
        parts.append(f"  {json.dumps(key)}: [\n{lines}\n  ]" if entries else f"  {json.dumps(key)}: []")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _machine(machine: Machine) -> dict[str, object]:
    model = machine.model
    cycles = {kind.value: model.cost(kind) for kind in Kind}
    return {
        "name": machine.name,
        **{key: getattr(machine, key) for key in SIZES},
        "model": {"lanes": model.lanes, "cores": model.cores, "divergence": model.divergence, "cycles": cycles},
    }


def _terminal(terminal: Terminal) -> dict[str, object]:
    port = terminal.port
    accepts = None if port.accepts is None else [port.accepts.lo, port.accepts.hi]
    return {
        "name": port.name,
        "address": terminal.address,
        "dtype": terminal.dtype.name,
        "shape": list(terminal.shape),
        "model": _type(port.type),
        "perm": None if port.perm is None else list(port.perm),
        "accepts": accepts,
    }


def _type(type_: TensorType) -> dict[str, object]:
    quant = type_.quant
    parameters = (
        None
        if quant is None
        else {"scales": list(quant.scales), "zero_points": list(quant.zero_points), "axis": quant.axis}
    )
    return {"dtype": type_.dtype.name, "shape": list(type_.shape), "quant": parameters}


def from_json(text: str, file: str) -> LaunchList:
    """The list in a file, checked against the machine that it names.

    Raises: InvalidModel with file, line and reason.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidModel(f"is no JSON: {error.msg}", where=f"{file}:{error.lineno}") from None
    except RecursionError:
        raise InvalidModel("is nested too deeply", where=file) from None
    return _Reader(text, file).read(_Node(data, ()))


class _Refused(Exception):
    """A reason, and the path of the value that it is about."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Node:
    """A JSON value and where it stands."""

    value: object
    path: Path

    def refuse(self, reason: str) -> _Refused:
        return _Refused(self.path, reason)

    def get(self, key: str) -> _Node:
        if not isinstance(self.value, Mapping):
            raise self.refuse(f"expected an object, found {_shown(self.value)}")
        if key not in self.value:
            raise self.refuse(f'there is no "{key}"')
        return _Node(self.value[key], (*self.path, key))

    def entries(self) -> list[_Node]:
        if not isinstance(self.value, Sequence) or isinstance(self.value, str):
            raise self.refuse(f"expected a list, found {_shown(self.value)}")
        return [_Node(value, (*self.path, index)) for index, value in enumerate(self.value)]

    def integer(self, least: int = WORD.lo, most: int = WORD.hi) -> int:
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.refuse(f"expected an integer from {least} to {most}, found {_shown(value)}")
        return value

    def integers(self, least: int = WORD.lo, most: int = WORD.hi) -> tuple[int, ...]:
        return tuple(entry.integer(least, most) for entry in self.entries())

    def string(self) -> str:
        if not isinstance(self.value, str):
            raise self.refuse(f"expected a string, found {_shown(self.value)}")
        return self.value

    def number(self) -> float:
        value = self.value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise self.refuse(f"expected a positive number, found {_shown(value)}")
        return float(value)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."


class _Reader:
    """Reads one list; `words` bounds every address."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.words = 0

    def read(self, root: _Node) -> LaunchList:
        try:
            return self._read(root)
        except _Refused as refused:
            where = f"{self.file}:{line_of(self.text, refused.path)}"
            at = ".".join(map(str, refused.path))
            raise InvalidModel(f"{at}: {refused.reason}" if at else refused.reason, where=where) from None

    def _read(self, root: _Node) -> LaunchList:
        if root.get("format").value != FORMAT:
            raise root.get("format").refuse(f'expected "{FORMAT}", found {_shown(root.get("format").value)}')
        if root.get("version").integer() != VERSION:
            raise root.get("version").refuse(f"version {VERSION} is known, found {root.get('version').value}")
        isa = root.get("isa")
        if isa.value not in ("base", "extended"):
            raise isa.refuse(f'expected "base" or "extended", found {_shown(isa.value)}')
        self.machine = _machine_of(root.get("machine"))
        self.words = root.get("mem_words").integer(0, self.machine.mem_words)
        return LaunchList(
            machine=self.machine,
            extended=isa.value == "extended",
            mem_words=self.words,
            buffers=tuple(self._buffer(entry) for entry in root.get("buffers").entries()),
            constants=tuple(self._constant(entry) for entry in root.get("constants").entries()),
            inputs=tuple(self._terminal(entry) for entry in root.get("inputs").entries()),
            outputs=tuple(self._terminal(entry) for entry in root.get("outputs").entries()),
            launches=tuple(self._launch(entry) for entry in root.get("launches").entries()),
        )

    def _inside(self, node: _Node, address: int, words: int) -> None:
        if address + words > self.words:
            end = address + words - 1
            raise node.refuse(f"words {address} to {end} point outside memory, which has {self.words}")

    def _buffer(self, node: _Node) -> Buffer:
        address, words = node.get("address").integer(0), node.get("words").integer(0)
        self._inside(node, address, words)
        return Buffer(node.get("name").string(), address, words)

    def _constant(self, node: _Node) -> Constant:
        address, values = node.get("address").integer(0), node.get("values").integers()
        self._inside(node, address, len(values))
        return Constant(address, values)

    def _terminal(self, node: _Node) -> Terminal:
        type_ = self._type(node)
        model = node.get("model")
        port_type = self._type(model, _quant(model.get("quant")))
        name, address = node.get("name").string(), node.get("address").integer(0)
        perm, accepts = node.get("perm"), node.get("accepts")
        axes = None if perm.value is None else perm.integers(0, 63)
        if axes is not None and sorted(axes) != list(range(len(type_.shape))):
            raise perm.refuse(f"is no order of {len(type_.shape)} axes")
        if tuple(type_.shape[axis] for axis in axes or range(len(type_.shape))) != port_type.shape:
            raise node.refuse(f"the stored shape {list(type_.shape)} is not the model's {list(port_type.shape)}")
        self._inside(node, address, type_.elements)
        port = Port(name, port_type, axes, None if accepts.value is None else _interval(accepts))
        return Terminal(address, type_.dtype, type_.shape, port)

    def _type(self, node: _Node, quant: Quant | None = None) -> TensorType:
        dtype = by_name(node.get("dtype").string())
        if dtype is None or not (dtype.is_integer and dtype.bits <= 32):
            raise node.get("dtype").refuse(f"a word holds integers of up to 32 bits, not {node.get('dtype').value}")
        return TensorType(dtype, node.get("shape").integers(0), quant)

    def _launch(self, node: _Node) -> LaunchEntry:
        most = self.machine.max_threads
        grid, block = node.get("grid").integer(1, most), node.get("block").integer(1, most)
        if grid * block > most:
            raise node.refuse(f"{grid} blocks of {block} threads are more than the machine's {most} threads")
        shared = node.get("shared_words").integer(0, self.machine.shared_words)
        arguments = node.get("arguments").integers()
        if len(arguments) > 5:
            raise node.get("arguments").refuse("R0 to R4 take arguments, so there are at most 5")
        return LaunchEntry(node.get("program").string(), grid, block, arguments, shared)


def _machine_of(node: _Node) -> Machine:
    memory, threads, shared, registers, limit = (node.get(key).integer(1, most) for key, most in SIZES.items())
    if registers < REGISTERS:
        raise node.get("registers").refuse(f"a thread has at least {REGISTERS} registers")
    model = node.get("model")
    lanes, cores, divergence = (model.get(key).integer(1, 1 << 16) for key in ("lanes", "cores", "divergence"))
    costs = tuple(model.get("cycles").get(kind.value).integer(1, 1 << 16) for kind in Kind)
    cycle_model = CycleModel(lanes, cores, divergence, costs)
    return Machine(node.get("name").string(), memory, threads, shared, registers, limit, cycle_model)


def _interval(node: _Node) -> Interval:
    ends = node.integers()
    if len(ends) != 2 or ends[0] > ends[1]:
        raise node.refuse("expected the least and the greatest value")
    return Interval(*ends)


def _quant(node: _Node) -> Quant | None:
    if node.value is None:
        return None
    scales = tuple(entry.number() for entry in node.get("scales").entries())
    zeros = node.get("zero_points").integers()
    axis = node.get("axis")
    if not scales or len(scales) != len(zeros) or (axis.value is None and len(scales) != 1):
        raise node.refuse("expected as many scales as zero points, and one of each without an axis")
    return Quant(scales, zeros, None if axis.value is None else axis.integer(0, 63))
