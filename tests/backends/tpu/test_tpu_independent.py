"""Schedules on an interpreter that was written from the page alone give the simulator's values and cycles."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from independent import Machine, Trap
from networks_on_tpu import CHECKOUT, EXAMPLES, compiled, legal, random_inputs, tiny

import int8_networks
from int8_networks import Builder
from trivet import driver, interp
from trivet.backends.tpu.epilogue import MachineTrap
from trivet.backends.tpu.execute import execute, run
from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.machine import reference
from trivet.backends.tpu.schedule import read, write
from trivet.backends.tpu.timing import simulate
from trivet.core.dtype import F32, I8, U8
from trivet.core.numerics import Numerics
from trivet.errors import CompileError
from trivet.ir.graph import Graph
from trivet.ir.types import TensorType
from trivet.ops.activation import LeakyRelu, Logistic, Lookup
from trivet.ops.conv import Conv2D
from trivet.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from trivet.ops.matmul import Dense
from trivet.ops.movement import Pad, Transpose
from trivet.ops.pool import AveragePool2D
from trivet.ops.quantize import Dequantize, Quantize, Requantize
from trivet.ops.reduce import Mean
from trivet.ops.resize import ResizeNearest
from trivet.ops.softmax import Softmax

QUANT, FULL, TFLM = int8_networks.QUANT, int8_networks.FULL, Numerics.TFLM
OTHER = int8_networks.Quant.per_tensor(0.11, -20)


def agree(graph: Graph, program: Program) -> None:
    """Values and cycles of both interpreters, and the values of the oracle."""
    program = read(write(program))
    inputs = random_inputs(graph)
    machine = Machine(write(program).decode())
    theirs = machine.run([array.reshape(-1).tolist() for array in inputs])
    for ours, other, wanted in zip(execute(program, inputs), theirs, interp.run(graph, inputs)[0], strict=True):
        np.testing.assert_array_equal(ours, wanted)
        assert ours.reshape(-1).tolist() == other
    assert machine.cycles() == list(accumulate(layer.cycles for layer in simulate(program).layers))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    for level in (0, 1):
        try:
            graph = legal(driver.load(path).graph, level)
        except CompileError:
            return
        for array in (4, 16):
            agree(graph, compiled(graph, array, level))


def layers() -> dict[str, Graph]:
    """A small graph for every kind of layer."""
    made: dict[str, Graph] = {}
    b = Builder(1)
    made["a convolution with stride, dilation and padding"] = b.finish(b.conv(b.input(1, 6, 5, 3), 5, 3, 2, 2))
    b = Builder(10)
    x, w = b.input(1, 3, 4, 6), b.weight(4, 2, 2, 3)
    made["a convolution of groups"] = b.finish(b.emit(Conv2D(groups=2, out=QUANT, numerics=TFLM), x, w))
    b = Builder(11)
    x, unsigned = b.input(1, 4, 4, 2), int8_networks.Quant.per_tensor(0.01, -128)
    w = b.graph.constant(b.weight(3, 2, 2, 2).data, TensorType(I8, (3, 2, 2, 2), unsigned))
    made["weights with a zero point"] = b.finish(b.emit(Conv2D(out=QUANT, numerics=Numerics.LITERT_U8), x, w))
    b = Builder(2)
    made["a depthwise convolution over two blocks"] = b.finish(b.depthwise(b.input(2, 4, 5, 6)))
    b = Builder(3)
    made["a dense layer"] = b.finish(b.dense(b.input(3, 10), 7))
    b = Builder(4)
    made["a pool and a mean"] = b.finish(b.mean(b.pool(b.input(1, 4, 6, 5))))
    b = Builder(5)
    x = b.input(1, 3, 4, 5)
    made["concat, slice, clamp"] = b.finish(b.clamp(b.concat(3, x, b.slice_rows(b.concat(1, x, x), 1, 3))))
    b = Builder(6)
    x, y = b.input(1, 5, 4, 3), b.graph.add_input("other", TensorType(I8, (4, 3), OTHER))
    sums = [b.emit(op(FULL, QUANT, TFLM), x, y) for op in (Add, Sub, Mul)]
    made["sums and products that broadcast"] = b.finish(
        *sums, b.emit(Minimum(QUANT), x, y), b.emit(Maximum(QUANT), x, y)
    )
    b = Builder(7)
    same = ((1, 1), (1, 1))
    made["an average pool with padding"] = b.finish(
        b.emit(AveragePool2D((3, 3), (2, 2), same, False, FULL, QUANT, TFLM), b.input(2, 5, 6, 3))
    )
    b = Builder(8)
    out = int8_networks.Quant.per_tensor(1 / 256, -128)
    x = b.input(3, 9)
    made["a softmax"] = b.finish(*(b.emit(Softmax(1, 1.0, out, I8, n), x) for n in (TFLM, Numerics.ONNX)))
    b = Builder(9)
    x = b.emit(Transpose((0, 2, 1, 3)), b.depthwise(b.input(1, 3, 4, 2)))
    padded = b.emit(Pad((0, 1, 2, 0), (0, 0, 1, 0), 3), b.conv(x, 3))
    made["a transpose, a pad, a table"] = b.finish(b.emit(Logistic(out, TFLM), padded))
    b = Builder(12)
    x = b.graph.add_input("real", TensorType(F32, (2, 7)))
    y = b.dense(b.emit(Quantize(QUANT), x), 5)
    rounded = b.emit(Quantize(OTHER, U8, Numerics.ONNX), x)
    made["floats that enter and leave"] = b.finish(b.emit(Dequantize(), y), b.emit(Dequantize(), rounded))
    b = Builder(13)
    made["a map twice and three times as large"] = b.finish(
        b.emit(ResizeNearest((6, 12)), b.input(2, 2, 6, 3)), b.resize(b.input(1, 3, 2, 4))
    )
    b = Builder(14)
    x = b.input(2, 9)
    table = b.graph.constant(np.arange(256)[::-1].astype(np.uint8).view(np.int8), TensorType(I8, (256,)))
    restated = b.emit(Requantize(OTHER, U8, TFLM), b.emit(LeakyRelu(0.3, OTHER, TFLM), x))
    made["tables: a given one, a leaky relu, unsigned results"] = b.finish(b.emit(Lookup(QUANT), x, table), restated)
    for numerics in (Numerics.LITERT, Numerics.LITERT_U8, Numerics.ONNX):
        b = Builder(15)
        x = b.input(1, 5, 5, 3)
        y = b.emit(Conv2D(out=OTHER, numerics=numerics), x, b.weight(4, 2, 2, 3))
        pooled = b.emit(AveragePool2D((2, 2), (2, 2), same, False, FULL, OTHER, numerics), y)
        total = b.emit(Mean((1, 2), False, QUANT, numerics), pooled)
        made[f"arithmetic of {numerics.value}"] = b.finish(
            pooled, b.emit(Dense(FULL, QUANT, numerics), total, b.weight(3, 4))
        )
    return made


@pytest.mark.parametrize("title", layers())
def test_layers(title: str) -> None:
    graph = legal(layers()[title])
    ports = replace(reference(4), activation_ports=2, weight_ports=3, accumulator_rows=12, epilogue_latency=7)
    for level in (0, 1):
        agree(graph, compiled(graph, 4, level))
        agree(graph, compiled(graph, 4, level, ports))


def test_a_real_convolution() -> None:
    graph = legal(driver.load(CHECKOUT / "examples" / "models" / "digits_int8.tflite").graph)
    program = compiled(graph, 8, 1)
    inputs = random_inputs(graph)
    program.layers = program.layers[:1]
    (wanted,) = [array for array in _written(program, inputs)]
    machine = Machine(write(program).decode())
    machine.run([array.reshape(-1).tolist() for array in inputs])
    buffer = machine.schedule["buffers"][program.layers[0].target.buffer]
    assert wanted.tolist() == [machine.get(buffer, i) for i in range(buffer["elements"])]


def _written(program: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    seen: list[np.ndarray] = []
    execute(program, inputs, lambda _, array: seen.append(array))
    return seen


def test_states_live_on() -> None:
    b = Builder(1)
    x = b.input(1, 6)
    before = b.graph.add_state("before", x.type, np.full((1, 6), 3, np.int8))
    total = b.emit(Add(FULL, QUANT, TFLM), x, before)
    b.graph.set_state(before, total)
    graph = legal(b.finish(total, before))
    program = read(write(compiled(graph, 4, 1)))
    machine = Machine(write(program).decode())
    states = memory = None
    for seed in range(3):
        inputs = random_inputs(graph, seed)
        wanted, states = interp.run(graph, inputs, states)
        ours, memory = run(program, inputs, memory)
        theirs = machine.run([array.reshape(-1).tolist() for array in inputs])
        for a, c, d in zip(wanted, ours, theirs, strict=True):
            np.testing.assert_array_equal(c, a)
            assert c.reshape(-1).tolist() == d


@pytest.mark.parametrize("value", [-(1 << 31), (1 << 31) - 1])
def test_both_trap_where_a_sum_leaves_int32(value: int) -> None:
    graph = tiny("input x: i32[4]\nlet y = x + x\noutput y\n")
    program = compiled(graph, 4, 1)
    inputs = [np.full(4, value, np.int32)]
    with pytest.raises(MachineTrap, match="a sum of two operands leaves int32"):
        execute(program, inputs)
    with pytest.raises(Trap):
        Machine(write(program).decode()).run([inputs[0].tolist()])
