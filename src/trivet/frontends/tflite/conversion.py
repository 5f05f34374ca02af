"""What a converter sees: one operator of the file, its operands as values, and a graph to add to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field

import numpy as np

from trivet.core.dtype import F32, I8, U8
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.core.record import dataclass
from trivet.core.source import Operator as Place
from trivet.errors import CompileError, InvalidModel, Unsupported
from trivet.frontends.tflite.read import Model, Operator, Subgraph, Tensor
from trivet.frontends.tflite.refusals import no_converter
from trivet.frontends.tflite.tensors import UINT8_OFFSET, check_divisor, check_size, constant_data, model_type, restated
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Array, Op, TypeMismatch
from trivet.ir.types import TensorType
from trivet.ops.movement import Reinterpret
from trivet.ops.quantize import Requantize

_FREE_FOLD_BYTES = 1 << 16
_FOLD_FACTOR = 8
_MAX_FACTOR = 2.0**40


class NotConstant(Unsupported):
    """An operand that must be known at compile time is computed when the network runs."""


@dataclass(slots=True)
class Variable:
    """What READ_VARIABLE and ASSIGN_VARIABLE share: the value before this invocation, and the newest one."""

    initial: Value | None = None
    read: Value | None = None
    current: Value | None = None


@dataclass(slots=True)
class Scope:
    """One subgraph under conversion: its values by tensor number, and what its operators share.

    `doubtful` tensors depend on an operator that was refused; they have a type, so that conversion goes on and finds
    the other problems. An initializer's assignments set what variables hold before the first invocation.
    """

    graph: Graph
    model: Model
    subgraph: Subgraph
    numerics: Numerics
    converter: Callable[[str], Converter | None]
    variables: dict[str, Variable] = field(default_factory=dict)
    is_initializer: bool = False
    values: dict[int, Value] = field(default_factory=dict)
    handles: dict[int, str] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    problems: list[CompileError] = field(default_factory=list)
    called: set[int] = field(default_factory=set)
    interned: dict[tuple[TensorType, bytes], Value] = field(default_factory=dict)
    depth: int = 0

    def run(self) -> None:
        """Convert every operator; what cannot be converted is in `problems` afterwards."""
        for index, record in enumerate(self.subgraph.operators):
            place = self._place(index, record)
            with self.collecting(place, record.outputs, record.inputs):
                Conversion(self, record, place).run()

    @contextmanager
    def collecting(self, where: object, outputs: Sequence[int], inputs: Sequence[int] = ()) -> Iterator[None]:
        """Keep what goes wrong inside in `problems`, unless it only follows from an earlier problem.

        The tensors `outputs` then get their declared types, so that conversion can go on.
        """
        try:
            yield
            return
        except TypeMismatch as error:
            problem: CompileError = Unsupported(str(error), where=where)
        except CompileError as error:
            problem = type(error)(error.message, where=where, hint=error.hint)
        if not (isinstance(problem, NotConstant) and self.doubtful.intersection(inputs)):
            self.problems.append(problem)
        for index in outputs:
            self.doubt(index)

    def value(self, index: int) -> Value:
        """The value that stands for a tensor.

        Raises: InvalidModel, Unsupported.
        """
        found = self.values.get(index)
        if found is None:
            tensor = self.subgraph.tensors[index]
            if tensor.data is None:
                raise InvalidModel(f"tensor '{tensor.name}' is read before anything computes it")
            found = self._constant(tensor)
            self.values[index] = found
        return found

    def intern(self, data: Array, type_: TensorType, name: str = "") -> Value:
        """A constant; equal ones are one value."""
        key = (type_, data.tobytes())
        found = self.interned.get(key)
        if found is None:
            found = self.interned[key] = self.graph.constant(data, type_, name)
        return found

    def _constant(self, tensor: Tensor) -> Value:
        type_ = model_type(tensor)
        return self.intern(constant_data(tensor, type_, self.model.buffer), restated(type_), tensor.name)

    def _place(self, index: int, record: Operator) -> Place:
        """Where the operator stands; converters join the names of what they fused with semicolons."""
        name = self.subgraph.tensors[record.outputs[0]].name.split(";")[0] if record.outputs else ""
        return Place(self.model.file, index, record.kind, name)

    def doubt(self, index: int) -> None:
        """Let a tensor that nothing computes stand with its declared type, if it has one."""
        self.doubtful.add(index)
        tensor = self.subgraph.tensors[index]
        with suppress(CompileError):
            self.values[index] = Value(restated(model_type(tensor)), tensor.name)


@dataclass(frozen=True, slots=True)
class Conversion:
    """One operator of the file under conversion."""

    scope: Scope
    record: Operator
    loc: Place

    def run(self) -> None:
        """Convert the operator.

        Raises: TypeMismatch, CompileError.
        """
        converter = self.scope.converter(self.record.kind)
        if converter is None:
            raise no_converter(self.record.kind)
        unresolved = [i for i in self.record.inputs if i in self.scope.doubtful and i not in self.scope.values]
        if unresolved:
            raise NotConstant("an operand has no known type")
        converter(self)
        if self.scope.doubtful.intersection(self.record.inputs):
            self.scope.doubtful.update(self.record.outputs)

    # Operands

    def operand(self, index: int) -> Value:
        """Raises: InvalidModel, Unsupported."""
        value = self.optional(index)
        if value is None:
            raise InvalidModel(f"operand {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """An operand, None where the file leaves it out."""
        if index >= len(self.record.inputs) or self.record.inputs[index] < 0:
            return None
        return self.scope.value(self.record.inputs[index])

    def operands(self) -> list[Value]:
        return [self.operand(index) for index in range(len(self.record.inputs))]

    def constant(self, index: int) -> Array:
        """The data of an operand that must be known now.

        Raises: NotConstant, InvalidModel, Unsupported.
        """
        value = self.operand(index)
        if value.data is None:
            raise NotConstant(
                f"operand {index} '{value.name}' is computed at run time",
                hint="fix the shapes when exporting, so that it becomes a constant",
            )
        return value.data

    def integers(self, index: int) -> tuple[int, ...]:
        """A constant operand as a flat list of integers."""
        data = self.constant(index)
        if data.dtype.kind not in "iu":
            raise InvalidModel(f"operand {index} must hold integers, not {data.dtype.name}")
        return tuple(int(value) for value in data.ravel())

    def known_shape(self, index: int) -> tuple[int, ...]:
        """An operand that holds the result's shape; where it is computed at run time, the shape that the file declares.

        Raises: NotConstant, where the file leaves that shape open as well.
        """
        if self.operand(index).is_constant or self.source(0).free or not self.source(0).shape:
            return self.integers(index)
        return self.source(0).shape

    def axes(self, index: int, rank: int) -> tuple[int, ...]:
        """A constant operand as distinct axes in increasing order, counted from 0."""
        return tuple(sorted({self.axis(axis, rank) for axis in self.integers(index)}))

    def axis(self, axis: int, rank: int) -> int:
        """An axis that may be counted from the end.

        Raises: InvalidModel.
        """
        if not -rank <= axis < rank:
            raise InvalidModel(f"axis {axis} is outside rank {rank}")
        return axis % rank

    # Options

    def integer(self, name: str) -> int:
        value = self.record.options[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        return bool(self.record.options[name])

    def real(self, name: str) -> float:
        value = self.record.options[name]
        assert isinstance(value, (int, float))
        if abs(value) > _MAX_FACTOR:
            raise InvalidModel(f"{name} is {value:g}")
        return float(value)

    def vector(self, name: str) -> tuple[int, ...]:
        value = self.record.options[name]
        assert isinstance(value, tuple)
        return value

    def text(self, name: str) -> str:
        return str(self.record.options[name])

    # Results

    def source(self, index: int) -> Tensor:
        """The file's record of result `index`.

        Raises: InvalidModel.
        """
        if index >= len(self.record.outputs):
            raise InvalidModel(f"result {index} is missing")
        return self.scope.subgraph.tensors[self.record.outputs[index]]

    def declared(self, index: int = 0) -> TensorType:
        """The type that the file declares for a result, in Trivet's form."""
        type_ = restated(model_type(self.source(index)))
        check_divisor(type_.quant, self.source(index).name)
        return type_

    @property
    def out(self) -> Quant | None:
        """The quantization of the first result, None for floats and plain integers."""
        return self.declared().quant

    @property
    def numerics(self) -> Numerics | None:
        """The contract of an operator whose result is quantized, else None."""
        return self.contract if self.declared().quant is not None else None

    @property
    def contract(self) -> Numerics:
        """The chosen contract, or LiteRT's arithmetic of uint8 tensors where the operator touches one."""
        touched = (*self.record.inputs, *self.record.outputs)
        tensors = [self.scope.subgraph.tensors[index] for index in touched if index >= 0]
        if any(tensor.type_name == "UINT8" and tensor.quantization is not None for tensor in tensors):
            return Numerics.LITERT_U8
        return self.scope.numerics

    def emit(self, op: Op, *inputs: Value) -> Value:
        """Apply an operator with one result; on constants it is evaluated at once, unless that would inflate them."""
        if inputs and all(value.is_constant for value in inputs):
            types = tuple(value.type for value in inputs)
            (type_,) = op.infer(types)
            if type_.size_bytes <= max(_FREE_FOLD_BYTES, _FOLD_FACTOR * sum(t.size_bytes for t in types)):
                return self._evaluate(op, inputs, type_)
        return self.scope.graph.emit(op, *inputs, loc=self.loc)

    def emit_all(self, op: Op, *inputs: Value) -> tuple[Value, ...]:
        """Apply an operator with several results."""
        return self.scope.graph.append(op, inputs, loc=self.loc).outputs

    def _evaluate(self, op: Op, inputs: tuple[Value, ...], type_: TensorType) -> Value:
        self.scope.model.buffer.charge(type_.size_bytes // _FOLD_FACTOR)
        arrays = tuple(value.data for value in inputs if value.data is not None)
        with np.errstate(all="ignore"):
            (data,) = op.evaluate(arrays, tuple(value.type for value in inputs))
        return self.scope.intern(np.asarray(data, order="C"), type_)

    def plain(self, data: Array, type_: TensorType, name: str = "") -> Value:
        """A constant that the file does not hold in this form."""
        return self.scope.intern(np.asarray(data, order="C").reshape(type_.shape), type_, name)

    def retyped(self, value: Value, type_: TensorType) -> Value:
        """The same constant data under another type of as many elements."""
        assert value.data is not None
        return value if value.type == type_ else self.plain(value.data, type_, value.name)

    def number(self, value: float) -> Value:
        """A float32 scalar."""
        return self.plain(np.array(value, np.float32), TensorType(F32, ()))

    def plain_operand(self, index: int) -> Value:
        """An operand as the integers that the file stores, without their meaning."""
        value = self.operand(index)
        if value.type.quant is None:
            return value
        if self.scope.subgraph.tensors[self.record.inputs[index]].type_name == "UINT8":
            quant = value.type.quant.shifted(UINT8_OFFSET)
            value = self.emit(Requantize(quant, U8, Numerics.LITERT_U8), value)
        return self.emit(Reinterpret(None), value)

    def plain_result(self, value: Value) -> None:
        """Let stored integers stand for the first result under the declared quantization."""
        declared = model_type(self.source(0))
        if declared.dtype is U8 and declared.quant is not None and value.type.dtype is U8:
            value = self.emit(Reinterpret(declared.quant), value)
            value = self.emit(Requantize(declared.quant.shifted(-UINT8_OFFSET), I8, Numerics.LITERT_U8), value)
        self.result(value)

    def result(self, value: Value, index: int = 0, quant: Quant | None = None) -> None:
        """Let `value` stand for result `index`, under the declared quantization (or `quant`): the same stored bytes.

        Raises: InvalidModel, Unsupported.
        """
        tensor = self.source(index)
        declared = self.declared(index)
        if value.type.dtype is not declared.dtype:
            found, expected = value.type.dtype.name, declared.dtype.name
            raise InvalidModel(f"result '{tensor.name}' is {found}, the file declares {expected}")
        if value.type.elements == 0 and not value.is_constant:
            raise InvalidModel(f"result '{tensor.name}' {value.type} is empty")
        check_size(tensor.name, value.type.shape)
        wanted = quant or declared.quant
        if value.type.quant != wanted and value.type.dtype.is_integer:
            value = self.emit(Reinterpret(wanted), value)
        if not value.name and value.producer is not None:
            value.name = tensor.name
        self.scope.values[self.record.outputs[index]] = value


Converter = Callable[[Conversion], None]
"""Adds what one operator of the file means to the graph.

Raises: CompileError without a place, TypeMismatch; whoever runs converters adds the place.
"""

__all__ = ["Conversion", "Converter", "NotConstant", "Scope", "Variable"]
