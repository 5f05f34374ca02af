"""A TFLite file as a graph of Trivet's operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trivet.core.dtype import U8
from trivet.core.late import late
from trivet.core.numerics import Numerics
from trivet.errors import InvalidModel, Problems
from trivet.frontends.options import Loaded, LoadOptions
from trivet.frontends.tflite.conversion import Scope
from trivet.frontends.tflite.ops import converter
from trivet.frontends.tflite.read import Subgraph, read_model
from trivet.frontends.tflite.tensors import model_type, restated
from trivet.ir.graph import Graph, Port, Value
from trivet.ir.types import TensorType
from trivet.ops.quantize import Requantize

if TYPE_CHECKING:
    from trivet.frontends.tflite.ops import state
else:
    state = late("trivet.frontends.tflite.ops.state")


def load(path: Path, options: LoadOptions | None = None) -> Loaded:
    """The computation of a TFLite file.

    Raises: InvalidModel, and Problems with everything that cannot be converted.
    """
    options = options or LoadOptions()
    model = read_model(path)
    if not 0 <= options.subgraph < len(model.subgraphs):
        count = len(model.subgraphs)
        raise InvalidModel(f"subgraph {options.subgraph} was asked for, the file has {count}", where=model.file)
    numerics = options.numerics or Numerics.TFLM
    scope = Scope(Graph(path.stem), model, model.subgraphs[options.subgraph], numerics, converter)
    notes = _open(scope, options)
    scope.run()
    if scope.variables:
        state.close_variables(scope)
    _close(scope)
    if scope.problems:
        raise Problems(model.file, scope.problems, notes)
    return Loaded(scope.graph, (*notes, *_unused(scope, options.subgraph)), numerics)


def _open(scope: Scope, options: LoadOptions) -> list[str]:
    """Declare the graph's inputs; a note for each free dimension that becomes 1."""
    tensors = [scope.subgraph.tensors[index] for index in scope.subgraph.inputs]
    names = [tensor.name for tensor in tensors]
    for wanted in (*options.input_shapes, *options.bindings):
        if wanted not in names:
            known = ", ".join(f"'{name}'" for name in names)
            raise InvalidModel(f"there is no input '{wanted}'", where=scope.model.file, hint=f"inputs: {known}")
    if len(set(scope.subgraph.inputs)) != len(names):
        raise InvalidModel("an input is listed twice", where=scope.model.file)
    notes = []
    for index, tensor in zip(scope.subgraph.inputs, tensors, strict=True):
        with scope.collecting(f"input '{tensor.name}'", (index,)):
            type_ = model_type(tensor)
            if tensor.name in options.input_shapes:
                type_ = type_.with_shape(tuple(options.input_shapes[tensor.name]))
            elif tensor.free and tensor.name not in options.bindings:
                notes += [f"input '{tensor.name}': free dimension {axis} was bound to 1" for axis in tensor.free]
            if type_.elements == 0:
                raise InvalidModel(f"{type_} is empty")
            scope.values[index] = _input(scope, tensor.name, type_, options)
    return notes


def _input(scope: Scope, name: str, type_: TensorType, options: LoadOptions) -> Value:
    """The value inside the graph that stands for a model input."""
    if name in options.bindings:
        bound = np.asarray(options.bindings[name])
        if bound.dtype != type_.dtype.numpy:
            raise InvalidModel(f"the binding of '{name}' is {bound.dtype.name}, the input is {type_.dtype.name}")
        value = scope.intern(bound, type_.with_shape(bound.shape), name)
    else:
        value = scope.graph.add_input(name, type_)
    inner = restated(value.type)
    if inner == value.type or inner.quant is None:
        return value
    return scope.graph.emit(Requantize(inner.quant, inner.dtype, Numerics.LITERT_U8), value)


def _close(scope: Scope) -> None:
    """Declare the graph's outputs in the element types of the file."""
    for index in scope.subgraph.outputs:
        tensor = scope.subgraph.tensors[index]
        with scope.collecting(f"output '{tensor.name}'", (index,)):
            value = scope.value(index)
            declared = model_type(tensor)
            if declared.dtype is U8 and value.type.dtype is not U8 and declared.quant is not None:
                value = scope.graph.emit(Requantize(declared.quant, U8, Numerics.LITERT_U8), value, name=tensor.name)
            scope.graph.add_output(value, Port(tensor.name, declared.with_shape(value.type.shape)))
    if not scope.graph.outputs and not scope.problems:
        raise InvalidModel("the model has no output", where=scope.model.file)


def _unused(scope: Scope, chosen: int) -> list[str]:
    """A note for each subgraph and each input that nothing reads."""
    subgraphs = scope.model.subgraphs
    left_out = [i for i in range(len(subgraphs)) if i != chosen and i not in scope.called]
    notes = [f"subgraph {i}{_label(subgraphs[i])} is not part of the computation" for i in left_out]
    outputs = {id(value) for value in scope.graph.outputs}
    unused = [v.name for v in scope.graph.inputs if not v.uses and id(v) not in outputs]
    return notes + [f"input '{name}' is not used" for name in unused]


def _label(subgraph: Subgraph) -> str:
    return f" '{subgraph.name}'" if subgraph.name else ""
