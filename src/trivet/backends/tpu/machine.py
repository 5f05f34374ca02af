"""The machine that a schedule is for: its sizes, from a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path

from trivet.core.record import dataclass
from trivet.errors import InvalidModel, Unsupported

ARRAY_SIZES = (4, 8, 16, 32, 64, 128)
"""The array sizes that exist."""

LIMITS = {
    "activation_bytes": 1 << 26,
    "weight_bytes": 1 << 28,
    "parameter_words": 1 << 24,
    "accumulator_rows": 1 << 16,
    "activation_ports": 64,
    "weight_ports": 128,
    "epilogue_latency": 64,
}
"""The largest machine that the simulator takes: what a file asks for is allocated."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Sizes of one machine. `array` is N; a port moves one row of N elements a cycle.

    The ports are read ports: results leave the epilogue one row a cycle, for which one write port is enough.
    """

    array: int
    activation_bytes: int
    weight_bytes: int
    parameter_words: int
    accumulator_rows: int
    activation_ports: int
    weight_ports: int
    double_buffered: bool
    epilogue_latency: int

    @property
    def array_latency(self) -> int:
        """Cycles from reading a row of A to its sums: a read, N - 1 of skew in, N of adders, N - 1 of skew out."""
        return 2 * self.array

    @property
    def depth(self) -> int:
        """Cycles from reading a row of A to the cycle in which its results can be read."""
        return self.array_latency + self.epilogue_latency

    @property
    def weight_load(self) -> int:
        """Cycles to load a tile from the weight memory."""
        return -(-self.array // self.weight_ports)

    @property
    def activation_load(self) -> int:
        """Cycles to load a tile from the activation memory."""
        return -(-self.array // self.activation_ports)

    @property
    def tile_bytes(self) -> int:
        return self.array * self.array


def reference(array: int | None = None) -> Machine:
    """The reference machine, with another array size if one is given.

    Raises: Unsupported.
    """
    machine = read_machine(Path(__file__).with_name("machine.toml"))
    return machine if array is None else replace(machine, array=checked_array(array))


def checked_array(array: int) -> int:
    """Raises: Unsupported where there is no array of that size."""
    if array not in ARRAY_SIZES:
        sizes = ", ".join(map(str, ARRAY_SIZES))
        raise Unsupported(f"there is no {array} x {array} array", where="tpu", hint=f"sizes are {sizes}")
    return array


def read_machine(path: Path) -> Machine:
    """The machine in a TOML file that gives every field.

    Raises: InvalidModel, Unsupported.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=path) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidModel(f"is no TOML: {error}", where=path) from None
    return machine_from(data, path)


def machine_from(data: object, where: object) -> Machine:
    """The machine that a table describes, every field checked.

    Raises: InvalidModel, Unsupported.
    """
    names = [field.name for field in fields(Machine)]
    if not isinstance(data, dict) or set(data) != set(names):
        raise InvalidModel(f"a machine has exactly the fields {', '.join(names)}", where=where)
    for name, limit in LIMITS.items():
        value = data[name]
        if type(value) is not int or not 1 <= value <= limit:
            raise InvalidModel(f"{name} must be an integer from 1 to {limit}, got {value!r:.40}", where=where)
    if type(data["double_buffered"]) is not bool:
        raise InvalidModel("double_buffered must be true or false", where=where)
    if type(data["array"]) is not int:
        raise InvalidModel(f"array must be an integer, got {data['array']!r:.40}", where=where)
    checked_array(data["array"])
    return Machine(**data)
