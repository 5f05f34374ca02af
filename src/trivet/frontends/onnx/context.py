"""What a converter sees of one operator, and the little language in which it states the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn

import numpy as np

from trivet.core import dtype as dt
from trivet.core.dtype import DType
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.core.source import Operator
from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.onnx.model import Attribute, Body, ForeignNode, Unreadable
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Array, Op, TypeMismatch
from trivet.ir.types import TensorType
from trivet.ops.movement import Reinterpret, Reshape, Transpose
from trivet.ops.quantize import Dequantize

MAX_TENSOR_BYTES = 1 << 30
"""Larger tensors are refused: no target has room, and a damaged file must not exhaust the host."""


class Unresolved(Unsupported):
    """An operand or dimension that must be known at compile time and is not."""


@dataclass(slots=True)
class Builder:
    """The graph under construction. An operator whose operands are all known is evaluated instead of emitted."""

    graph: Graph
    opsets: Mapping[str, int]
    numerics: Numerics
    inline: Callable[[Body, Context, Mapping[str, Value]], list[Value]]
    """Converts a body in place, with the values that are visible where the operator stands."""

    def emit(self, op: Op, inputs: Sequence[Value], loc: Operator) -> tuple[Value, ...]:
        """Results of an operator.

        Raises: TypeMismatch, Unsupported (a result is too large).
        """
        results = op.infer(tuple(value.type for value in inputs))
        for result in results:
            if result.size_bytes > MAX_TENSOR_BYTES:
                raise Unsupported(f"the result {result} takes {result.size_bytes} bytes")
        # A dequantized constant stays visible as one: folding it would lose the stored integers.
        if isinstance(op, Dequantize) or not all(value.is_constant for value in inputs):
            return self.graph.append(op, inputs, loc=loc).outputs
        with np.errstate(all="ignore"):
            arrays = op.evaluate(tuple(_data(value) for value in inputs), tuple(value.type for value in inputs))
        return tuple(
            self.graph.constant(np.ascontiguousarray(array).reshape(type_.shape), type_)
            for array, type_ in zip(arrays, results, strict=True)
        )

    def quantize_input(self, value: Value, quant: Quant) -> bool:
        """Declare a model input that nothing reads yet as quantized; False for any other value."""
        for index, entry in enumerate(self.graph.inputs):
            if entry is value and not value.uses and value.type.quant is None:
                value.type = replace(value.type, quant=quant)
                self.graph.input_ports[index] = replace(self.graph.input_ports[index], type=value.type)
                return True
        return False


@dataclass(slots=True)
class Context:
    """One operator of the file with its operands; converters call `emit` and return the results."""

    builder: Builder
    node: ForeignNode
    operands: tuple[Value | None, ...]
    loc: Operator
    scope: Mapping[str, Value | None]

    @property
    def opset(self) -> int:
        """The version of the operator's domain that the model was written for."""
        return self.builder.opsets.get(self.node.domain, 1)

    @property
    def numerics(self) -> Numerics:
        return self.builder.numerics

    # Problems

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        raise Unsupported(message, where=self.loc, hint=hint)

    def invalid(self, message: str) -> NoReturn:
        raise InvalidModel(message, where=self.loc)

    # Operands

    def __len__(self) -> int:
        return len(self.operands)

    def has(self, index: int) -> bool:
        return index < len(self.operands) and self.operands[index] is not None

    def operand(self, index: int) -> Value:
        """A required operand."""
        value = self.optional(index)
        if value is None:
            self.invalid(f"operand {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self.operands[index] if index < len(self.operands) else None

    def plain(self, index: int) -> Value:
        """A required operand, its quantization stripped: ONNX computes on stored integers outside of Q/DQ pairs."""
        return self.unquantized(self.operand(index))

    def unquantized(self, value: Value) -> Value:
        return value if value.type.quant is None else self.emit(Reinterpret(None), value)

    def known(self, index: int, what: str) -> Array:
        """The elements of an operand that must be known at compile time.

        Raises: Unresolved.
        """
        value = self.operand(index)
        array = self.constant_data(value)
        if array is None:
            raise Unresolved(
                f"operand {index} ({what}, '{value.name}' {value.type}) is computed at run time",
                where=self.loc,
                hint=f"make {what} a constant, for example with onnxsim, or bind the input that it depends on",
            )
        return array

    def known_ints(self, index: int, what: str) -> tuple[int, ...]:
        return tuple(int(v) for v in np.ravel(self.known(index, what)))

    def known_scalar(self, index: int, what: str) -> float:
        array = np.ravel(self.known(index, what))
        if array.size != 1:
            self.invalid(f"operand {index} ({what}) has {array.size} elements, one is needed")
        return float(array[0])

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from 0; negative ones count from the end."""
        if not -rank <= axis < rank:
            self.invalid(f"axis {axis} is outside rank {rank}")
        return axis % rank

    def constant_data(self, value: Value) -> Array | None:
        """The elements of a constant, or of a dequantized one; None for anything computed at run time."""
        if value.data is not None:
            return value.data
        node = value.producer
        if node is not None and isinstance(node.op, Dequantize) and node.inputs[0].data is not None:
            return node.op.evaluate((node.inputs[0].data,), node.input_types)[0]
        return None

    # Attributes

    def attr_int(self, name: str, default: int | None = None) -> int:
        value = self._attribute(name, default)
        return value if isinstance(value, int) else self._wrong_type(name, "an integer")

    def attr_flag(self, name: str, default: bool = False) -> bool:
        return bool(self.attr_int(name, int(default)))

    def attr_float(self, name: str, default: float | None = None) -> float:
        value = self._attribute(name, default)
        return float(value) if isinstance(value, int | float) else self._wrong_type(name, "a number")

    def attr_text(self, name: str, default: str | None = None) -> str:
        value = self._attribute(name, default)
        return value if isinstance(value, str) else self._wrong_type(name, "a text")

    def attr_ints(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        value = self._attribute(name, default)
        if not isinstance(value, tuple):
            self._wrong_type(name, "a list of integers")
        return tuple(v if isinstance(v, int) else self._wrong_type(name, "a list of integers") for v in value)

    def attr_floats(self, name: str) -> tuple[float, ...]:
        value = self._attribute(name, None)
        if not isinstance(value, tuple):
            self._wrong_type(name, "a list of numbers")
        return tuple(
            float(v) if isinstance(v, int | float) else self._wrong_type(name, "a list of numbers") for v in value
        )

    def attr_array(self, name: str) -> Array:
        value = self._attribute(name, None)
        return value if isinstance(value, np.ndarray) else self._wrong_type(name, "a tensor")

    def attr_body(self, name: str) -> Body:
        value = self._attribute(name, None)
        return value if isinstance(value, Body) else self._wrong_type(name, "a graph")

    def __contains__(self, name: str) -> bool:
        return name in self.node.attributes

    def _attribute(self, name: str, default: Attribute | None) -> Attribute:
        value = self.node.attributes.get(name, default)
        if value is None:
            self.invalid(f"attribute '{name}' is missing")
        if isinstance(value, Unreadable):
            self.refuse(f"attribute '{name}': {value.reason}")
        return value

    def _wrong_type(self, name: str, wanted: str) -> NoReturn:
        self.invalid(f"attribute '{name}' is not {wanted}")

    # Results

    def emit(self, op: Op, *inputs: Value) -> Value:
        """The result of an operator that has one."""
        (value,) = self.emit_all(op, *inputs)
        return value

    def emit_all(self, op: Op, *inputs: Value) -> tuple[Value, ...]:
        try:
            return self.builder.emit(op, inputs, self.loc)
        except TypeMismatch as error:
            wide = [value for value in inputs if value.type.dtype in (dt.F16, dt.F64)]
            hint = "convert the model to float32 before exporting it" if wide else None
            raise Unsupported(str(error), where=self.loc, hint=hint) from None
        except Unsupported as error:
            raise Unsupported(error.message, where=self.loc, hint=error.hint) from None

    def constant(
        self, array: Array | float | Sequence[float], dtype: DType = dt.F32, quant: Quant | None = None
    ) -> Value:
        data = np.asarray(array, dtype.numpy)
        return self.builder.graph.constant(data, TensorType(dtype, data.shape, quant))

    def like(self, value: Value, number: float) -> Value:
        """A scalar constant of a value's element type."""
        return self.constant(number, value.type.dtype)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        wanted = tuple(shape)
        return value if value.type.shape == wanted else self.emit(Reshape(wanted), value)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        wanted = tuple(perm)
        return value if wanted == tuple(range(len(wanted))) else self.emit(Transpose(wanted), value)

    def stored_as(self, value: Value, perm: Sequence[int]) -> Value:
        """A weight in another order of axes. A dequantized constant stays one: its stored integers are moved."""
        stored = _stored(value)
        if stored is None:
            return self.transpose(value, perm)
        return self.emit(Dequantize(), self.transpose(stored, perm))

    def stored_in_shape(self, value: Value, shape: Sequence[int]) -> Value:
        """A weight under another shape, in the same way; a per-axis quantization must keep its axis whole."""
        stored, wanted = _stored(value), tuple(shape)
        quant = stored.type.quant if stored is not None else None
        if stored is None or stored.data is None or quant is None:
            return self.reshape(value, wanted)
        if quant.axis is not None:
            axis = _same_axis(stored.type.shape, quant.axis, wanted)
            if axis is None:
                return self.reshape(value, wanted)
            quant = quant.with_axis(axis)
        return self.emit(Dequantize(), self.constant(stored.data.reshape(wanted), stored.type.dtype, quant))

    def inline(self, body: Body, entries: Mapping[str, Value] | None = None) -> list[Value]:
        """The results of a body that stands where this operator does, its inputs being `entries`."""
        return self.builder.inline(body, self, entries or {})


def _stored(value: Value) -> Value | None:
    """The constant behind a dequantized constant."""
    node = value.producer
    if node is None or not isinstance(node.op, Dequantize) or not node.inputs[0].is_constant:
        return None
    return node.inputs[0]


def _same_axis(old: tuple[int, ...], axis: int, new: tuple[int, ...]) -> int | None:
    """The axis of `new` that runs over the same elements as `axis` of `old`."""
    before = math.prod(old[:axis])
    for index, size in enumerate(new):
        if size == old[axis] and math.prod(new[:index]) == before:
            return index
    return None


def _data(value: Value) -> Array:
    assert value.data is not None
    return value.data


Results = Value | tuple[Value, ...]
Converter = Callable[[Context], Results]


@dataclass(slots=True)
class Converters:
    """A family's converters by (domain, kind)."""

    by_kind: dict[tuple[str, str], Converter] = field(default_factory=dict)

    def __call__(self, *kinds: str, domain: str = "") -> Callable[[Converter], Converter]:
        """Register a converter for operators of these kinds."""

        def register(converter: Converter) -> Converter:
            for kind in kinds:
                assert (domain, kind) not in self.by_kind, f"{kind} has two converters"
                self.by_kind[domain, kind] = converter
            return converter

        return register


MICROSOFT = "com.microsoft"
