"""The testbench of the Verilog machine: its memories, and the comparison with both simulators.

It runs inside the Verilog simulator. TPU_CASES names a directory of schedules, each with its inputs beside it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from trivet.backends.tpu.execute import execute
from trivet.backends.tpu.ir import (
    ACC,
    EPILOGUE,
    FIRST,
    LOAD,
    ROW,
    ROWS,
    TILE,
    ArrayLayer,
    Bias,
    Clamp,
    Join,
    K,
    Layer,
    N,
    Offset,
    Program,
    Relu,
    Rescale,
    VectorLayer,
)
from trivet.backends.tpu.memory import Memory
from trivet.backends.tpu.schedule import read
from trivet.backends.tpu.timing import reads_per_row, simulate

SHARED = 3
"""The load of a tile from the activation memory."""


@dataclass
class Command:
    """One pass of the array, or one layer of the vector unit."""

    layer: int
    table: list[int] | None
    items: int
    each: int
    needs: int

    def word(self, layer: Layer) -> int:
        """As the sequencer reads it."""
        t = self.table
        if t is None:
            flags = 1 | 1 << 3
            return flags | self.each << 8 | self.items << 16 | self.needs << 48
        load = SHARED if t[LOAD] and isinstance(layer, ArrayLayer) and layer.b is not None else t[LOAD]
        flags = int(t[K] < 0) << 1 | t[FIRST] << 2 | t[EPILOGUE] << 3 | load << 4
        return flags | self.each << 8 | self.items << 16 | t[ACC] << 32 | self.needs << 48


@dataclass
class Lanes:
    """What the epilogue does with a command's rows: [N] parameters, and one offset and clamp."""

    bias: np.ndarray
    rescale: bool
    multiplier: np.ndarray
    shift: np.ndarray
    offset: int = 0
    lo: int = -(1 << 31)
    hi: int = (1 << 31) - 1


@dataclass
class Seen:
    """Cycles that the Verilog machine has shown for one command."""

    reads: list[int] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


def commands_of(program: Program) -> list[Command]:
    """Every pass and every vector layer, in order."""
    commands: list[Command] = []
    ends: list[int] = []
    size = program.machine.array
    for index, layer in enumerate(program.layers):
        needs = ends[layer.after] if layer.after >= 0 else 0
        if isinstance(layer, ArrayLayer):
            commands += [Command(index, row, row[ROWS], 1, needs) for row in layer.passes.tolist()]
        else:
            assert isinstance(layer, VectorLayer)
            items = layer.a.rows * -(-layer.columns // size)
            commands.append(Command(index, None, items, reads_per_row(layer, program.machine), needs))
        ends.append(len(commands))
    return commands


def packed(values: np.ndarray, size: int, dtype: str) -> int:
    """Lane 0 in the lowest bits, zeros in lanes that have no value."""
    lanes = np.zeros(size, dtype)
    lanes[: values.size] = values
    return int.from_bytes(lanes.tobytes(), "little")


class Bench:
    """One program on the Verilog machine."""

    def __init__(self, program: Program, inputs: list[np.ndarray]) -> None:
        self.program, self.size = program, program.machine.array
        self.commands = commands_of(program)
        self.memory = Memory(program)
        for port, array in zip(program.inputs, inputs, strict=True):
            self.memory.array(port.buffer)[:] = array.reshape(-1)
        self.seen = [Seen() for _ in self.commands]
        self.after_layer: dict[int, np.ndarray] = {}
        self.last_command = {command.layer: number for number, command in enumerate(self.commands)}

    def layer(self, number: int) -> Layer:
        return self.program.layers[self.commands[number].layer]

    def place(self, number: int, item: int) -> tuple[int, int]:
        """Row and first column of the results of an item."""
        command, layer = self.commands[number], self.layer(number)
        if command.table is not None:
            return command.table[ROW] + item, command.table[N]
        row, chunk = divmod(item, -(-layer.columns // self.size))
        return row, chunk * self.size

    def operand(self, number: int, item: int, part: int) -> int:
        command, layer = self.commands[number], self.layer(number)
        if command.table is not None:
            row, column, view = command.table[ROW] + item, command.table[K], layer.a
        else:
            row, column = self.place(number, item)
            (join,) = [s.operand for s in layer.epilogue if isinstance(s, Join)] if part else (None,)
            view = layer.a if join is None else join
        values = self.memory.gather(view, slice(row, row + 1), slice(column, column + self.size))
        return packed(values.reshape(-1), self.size, "<i4")

    def weights(self, number: int, row: int) -> int:
        layer, table = self.layer(number), self.commands[number].table
        if layer.b is None:
            return packed(self.program.tiles[table[TILE], row], self.size, "<i1")
        k = table[K] + row
        values = self.memory.gather(layer.b, slice(k, k + 1), slice(table[N], table[N] + self.size))
        return packed(values.reshape(-1), self.size, "<i1")

    def lanes(self, number: int) -> Lanes:
        """The fixed order of the Verilog lane: bias, rescale, offset, clamp."""
        layer, column = self.layer(number), (self.commands[number].table or [0] * 10)[N]
        count = min(self.size, layer.columns - column)
        zeros = np.zeros(count, np.int32)
        lanes = Lanes(zeros, False, zeros, zeros)
        words = self.program.parameters
        for step in layer.epilogue:
            match step:
                case Bias(at):
                    lanes.bias = words[at + column : at + column + count]
                case Rescale(at):
                    lanes.rescale = True
                    lanes.multiplier = words[at + column : at + column + count]
                    shifts = at + layer.columns + column
                    lanes.shift = words[shifts : shifts + count]
                case Offset(value):
                    lanes.offset = value
                case Clamp(lo, hi):
                    lanes.lo, lanes.hi = max(lanes.lo, lo), min(lanes.hi, hi)
                case Relu():
                    lanes.lo = max(lanes.lo, 0)
        return lanes

    def write(self, number: int, item: int, data: int, cycle: int) -> None:
        layer = self.layer(number)
        row, column = self.place(number, item)
        values = np.frombuffer(data.to_bytes(4 * self.size, "little"), "<i4")[: layer.columns - column]
        assert self.memory.store(layer.target, row, column, values[None].astype(np.int64))
        self.seen[number].writes.append(cycle)
        if number == self.last_command[self.commands[number].layer] and item + 1 == self.commands[number].items:
            self.after_layer[self.commands[number].layer] = self.memory.array(layer.target.buffer).copy()

    def compare(self, inputs: list[np.ndarray]) -> None:
        """Every value of every layer, and every cycle of every command, with the simulators."""
        wanted: list[np.ndarray] = []
        execute(self.program, inputs, lambda _, array: wanted.append(array))
        for index, expected in enumerate(wanted):
            np.testing.assert_array_equal(self.after_layer[index], expected, err_msg=f"layer {index}")
        timing = simulate(self.program, keep_passes=True)
        assert len(timing.passes) == len(self.seen)
        for number, (time, seen) in enumerate(zip(timing.passes, self.seen, strict=True)):
            assert (seen.reads[0], seen.reads[-1] + 1) == (time.start, time.stop), (number, seen, time)
            if time.load >= 0:
                assert (seen.loads[0], seen.loads[-1] + 1) == (time.load, time.loaded), (number, seen, time)
            if time.has_epilogue:
                assert seen.writes[-1] + 1 == time.done, (number, seen, time)
        assert max(s.writes[-1] for s in self.seen if s.writes) + 1 == timing.cycles


async def load(dut: object, bench: Bench) -> None:
    """Fill the command memory while the machine is in reset."""
    dut.reset.value, dut.commands.value, dut.loads.value = 1, 0, 0
    loads = [n for n, c in enumerate(bench.commands) if c.table is not None and c.table[LOAD]]
    for at, command in enumerate(bench.commands):
        dut.write.value, dut.write_load.value = 1, 0
        dut.write_at.value, dut.write_command.value = at, command.word(bench.layer(at))
        await RisingEdge(dut.clk)
    for at, number in enumerate(loads):
        dut.write.value, dut.write_load.value = 0, 1
        dut.write_at.value, dut.write_command.value = at, number
        await RisingEdge(dut.clk)
    dut.write_load.value, dut.write.value = 0, 0
    await RisingEdge(dut.clk)
    dut.commands.value, dut.loads.value, dut.reset.value = len(bench.commands), len(loads), 0


async def run(dut: object, bench: Bench) -> None:
    """Answer the machine's requests until it has finished: inputs change after an edge, outputs are read before it."""
    await load(dut, bench)
    for cycle in range(simulate(bench.program).cycles + 100):
        await FallingEdge(dut.clk)
        answers: dict[str, int] = {}
        if dut.y_valid.value == 1:
            bench.write(int(dut.y_command.value), int(dut.y_item.value), int(dut.y_data.value), cycle)
        if dut.s_valid.value == 1:
            number = int(dut.a_command.value)
            bench.seen[number].reads.append(cycle)
            if dut.a_valid.value == 1:
                answers["a_data"] = bench.operand(number, int(dut.a_item.value), int(dut.a_part.value))
        if dut.w_valid.value == 1:
            number = int(dut.w_command.value)
            bench.seen[number].loads.append(cycle)
            answers["w_data"] = bench.weights(number, int(dut.w_row.value))
        if dut.p_valid.value == 1:
            lanes = bench.lanes(int(dut.p_command.value))
            answers |= {
                "p_bias": packed(lanes.bias, bench.size, "<i4"),
                "p_rescale": int(lanes.rescale),
                "p_multiplier": packed(lanes.multiplier, bench.size, "<i4"),
                "p_shift": packed(lanes.shift, bench.size, "<i1"),
                "p_offset": lanes.offset & 0xFFFFFFFF,
                "p_lo": lanes.lo & 0xFFFFFFFF,
                "p_hi": lanes.hi & 0xFFFFFFFF,
            }
        if dut.finished.value == 1:
            assert dut.trap.value == 0
            return
        await RisingEdge(dut.clk)
        for name, value in answers.items():
            getattr(dut, name).value = value
    raise AssertionError("the Verilog machine does not finish")


@cocotb.test()
async def every_case(dut: object) -> None:
    Clock(dut.clk, 2, "step").start()
    for name in ("reset", "write", "write_load", "commands", "loads"):
        getattr(dut, name).value = 0
    cases = sorted(Path(os.environ["TPU_CASES"]).glob("*.json"))
    assert cases
    for path in cases:
        program = read(path.read_bytes())
        with np.load(path.with_suffix(".npz")) as file:
            inputs = [file[f"in_{i}"] for i in range(len(program.inputs))]
        bench = Bench(program, inputs)
        try:
            await run(dut, bench)
            bench.compare(inputs)
        except AssertionError as error:
            raise AssertionError(f"{path.stem}: {error}") from error
