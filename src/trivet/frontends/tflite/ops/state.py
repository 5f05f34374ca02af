"""Variables: what a network remembers from one invocation to the next."""

from __future__ import annotations

import numpy as np

from trivet.errors import InvalidModel, Unsupported
from trivet.frontends.tflite.conversion import Conversion, Converter, Scope, Variable
from trivet.ir.graph import Graph, Value
from trivet.ir.types import TensorType
from trivet.ops.movement import Reinterpret


def var_handle(op: Conversion) -> None:
    """A name for a variable; handles of one container and name are the same variable."""
    if not op.record.outputs:
        raise InvalidModel("VAR_HANDLE without a result")
    name = f"{op.text('container')}/{op.text('shared_name')}"
    op.scope.handles[op.record.outputs[0]] = name
    op.scope.variables.setdefault(name, Variable())


def read_variable(op: Conversion) -> None:
    """The newest value: what this invocation assigned, else what the last one left."""
    variable = _variable(op)
    if variable.current is None:
        variable.read = variable.current = _declare(op, variable)
    op.result(variable.current)


def _declare(op: Conversion, variable: Variable) -> Value:
    """A new state, which starts as the initializer says, else as real zeros."""
    type_, initial = op.declared(), variable.initial
    if initial is None:
        zero = 0 if type_.quant is None else type_.quant.zero_point
        data = np.full(type_.shape, zero, type_.dtype.numpy)
    else:
        assert initial.data is not None
        data, found = initial.data, initial.type
        if (found.dtype, found.shape) != (type_.dtype, type_.shape):
            raise InvalidModel(f"the variable starts as {found} and is read as {type_}")
    return op.scope.graph.add_state(op.source(0).name, type_, data)


def assign_variable(op: Conversion) -> None:
    """Raises: Unsupported, for an initializer that computes with anything but constants."""
    variable, value = _variable(op), op.operand(1)
    if not op.scope.is_initializer:
        variable.current = value
        return
    if not value.is_constant:
        raise Unsupported("a variable starts as something that is no constant")
    variable.initial = value


def _variable(op: Conversion) -> Variable:
    """The variable behind operand 0.

    Raises: InvalidModel.
    """
    name = op.scope.handles.get(op.record.inputs[0]) if op.record.inputs else None
    if name is None:
        raise InvalidModel("operand 0 is no variable")
    return op.scope.variables[name]


def call_once(op: Conversion) -> None:
    """Run a subgraph's assignments now: they say what variables hold before the first invocation.

    Raises: InvalidModel, Unsupported.
    """
    scope, index = op.scope, op.integer("subgraph")
    if not 0 < index < len(scope.model.subgraphs) or scope.is_initializer:
        raise InvalidModel(f"CALL_ONCE of subgraph {index}")
    scope.called.add(index)
    initializer = Scope(
        Graph(), scope.model, scope.model.subgraphs[index], scope.numerics, scope.converter, scope.variables, True
    )
    initializer.run()
    scope.problems.extend(initializer.problems)


def close_variables(scope: Scope) -> None:
    """Say what each state holds after an invocation."""
    for name, variable in scope.variables.items():
        if variable.read is None or variable.current is None:
            continue
        with scope.collecting(f"variable '{name}'", ()):
            scope.graph.set_state(variable.read, _written(scope, variable.read.type, variable.current))


def _written(scope: Scope, type_: TensorType, value: Value) -> Value:
    """`value` as the state's type: the same stored bytes.

    Raises: InvalidModel.
    """
    if (value.type.dtype, value.type.shape) != (type_.dtype, type_.shape):
        raise InvalidModel(f"is read as {type_} and assigned {value.type}")
    return value if value.type == type_ else scope.graph.emit(Reinterpret(type_.quant), value)


CONVERTERS: dict[str, Converter] = {
    "VAR_HANDLE": var_handle,
    "READ_VARIABLE": read_variable,
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": call_once,
}
