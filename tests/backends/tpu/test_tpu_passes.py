"""Tile passes: what each rewrites, that it keeps every value, and that it can be left out by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks_on_tpu import EXAMPLES, compiled, legal, optimized, random_inputs, tiny

import int8_networks
from trivet import driver, interp
from trivet.backends.tpu.execute import execute
from trivet.backends.tpu.ir import EPILOGUE, FIRST, ID, LOAD, ROW, ROWS, ArrayLayer, K, Load, N, Program
from trivet.backends.tpu.lower import lower
from trivet.backends.tpu.machine import reference
from trivet.backends.tpu.passes.allocate_buffers import AllocateBuffers
from trivet.backends.tpu.passes.base import TilePass
from trivet.backends.tpu.passes.prefetch_weights import PrefetchWeights
from trivet.backends.tpu.passes.renumber_passes import RenumberPasses
from trivet.backends.tpu.passes.reuse_weights import ReuseWeights
from trivet.backends.tpu.passes.skip_zero_passes import SkipZeroPasses
from trivet.backends.tpu.schedule import read, write
from trivet.backends.tpu.target import TILE_PASSES
from trivet.backends.tpu.timing import simulate
from trivet.errors import CompileError
from trivet.passes.manager import PassVerifyError
from trivet.passes.verify_each import VerifyEach


def product(rows: int, weights: np.ndarray, tail: str = "") -> str:
    """A `.tiny` product with these weights, as a program of that many rows."""
    k, n = weights.shape
    text = f"input x: i8[{rows}, {k}]\nconst w: i8[{k}, {n}] = {weights.tolist()}\n"
    return text + f"const b: i32[{n}] = {list(range(1, n + 1))}\nlet y = {tail or 'x @ w'}\noutput y\n"


def passes(program: Program) -> np.ndarray:
    (layer,) = [layer for layer in program.layers if isinstance(layer, ArrayLayer)]
    return layer.passes


def changed(pass_: TilePass, program: Program) -> tuple[Program, Counter[str]]:
    fired: Counter[str] = Counter()
    result = pass_.run(program, fired)
    assert result is not None
    return result, fired


def keeps_values(text: str, *wanted: TilePass) -> tuple[Program, Counter[str]]:
    """The program after passes, run and compared with the oracle on the way."""
    graph = tiny(text)
    program, fired = lower(graph, reference(4)), Counter()
    for pass_ in wanted:
        program, fired = changed(pass_, program)
        inputs = random_inputs(graph)
        for ours, oracle in zip(execute(read(write(program)), inputs), interp.run(graph, inputs)[0], strict=True):
            np.testing.assert_array_equal(ours, oracle)
    return program, fired


ONES = np.ones((12, 4), np.int8)


def zeroed(*tiles: int) -> np.ndarray:
    """Weights of three 4 x 4 tiles, some of zeros."""
    weights = ONES * np.arange(1, 5, dtype=np.int8)
    for tile in tiles:
        weights[4 * tile : 4 * tile + 4] = 0
    return weights


def test_a_zero_tile_in_the_middle_goes_and_nothing_else_changes() -> None:
    program, fired = keeps_values(product(4, zeroed(1)), SkipZeroPasses())
    assert passes(program)[:, [ID, K, FIRST, EPILOGUE]].tolist() == [[0, 0, 1, 0], [2, 8, 0, 1]]
    assert fired["passes skipped"] == 1 and fired["epilogue moved"] == 0


def test_a_zero_tile_at_the_start_leaves_its_setting_to_the_next() -> None:
    program, _ = keeps_values(product(4, zeroed(0)), SkipZeroPasses())
    assert passes(program)[:, [ID, K, FIRST, EPILOGUE]].tolist() == [[1, 4, 1, 0], [2, 8, 0, 1]]


def test_the_epilogue_of_a_skipped_pass_moves_to_the_last_kept_accumulation() -> None:
    program, fired = keeps_values(product(4, zeroed(1, 2), "relu(x @ w + b)"), SkipZeroPasses())
    assert passes(program)[:, [ID, K, FIRST, EPILOGUE]].tolist() == [[0, 0, 1, 1]]
    assert fired["epilogue moved"] == 1


def test_an_epilogue_with_a_bias_runs_alone_where_nothing_is_kept() -> None:
    program, fired = keeps_values(product(4, zeroed(0, 1, 2), "relu(x @ w + b)"), SkipZeroPasses())
    assert passes(program)[:, [K, FIRST, EPILOGUE, LOAD]].tolist() == [[-1, 1, 1, 0]]
    assert fired["epilogue alone"] == 1


@pytest.mark.parametrize("tail", ["x @ w", "relu(x @ w)"])
def test_an_epilogue_without_a_bias_disappears_where_nothing_is_kept(tail: str) -> None:
    program, fired = keeps_values(product(4, zeroed(0, 1, 2), tail), SkipZeroPasses())
    assert len(passes(program)) == 0
    assert fired["epilogue gone"] == 1
    assert program.buffers[program.outputs[0].buffer].cleared


def test_the_bytes_of_a_cleared_buffer_are_its_own_from_the_start() -> None:
    text = (
        "input x: i8[4, 8]\nconst w: i8[8, 8] = random(seed=1)\nconst zero: i8[8, 4] = 0\n"
        "let a = relu(x @ w)\nlet b = a + a\nlet y = x @ zero\noutput b\noutput y\n"
    )
    graph = tiny(text, 0)
    program = optimized(lower(graph, reference(4)))
    inputs = random_inputs(graph)
    for ours, oracle in zip(execute(program, inputs), interp.run(graph, inputs)[0], strict=True):
        np.testing.assert_array_equal(ours, oracle)
    (cleared,) = [buffer for buffer in program.buffers if buffer.cleared]
    assert not any(cleared.meets(buffer) for buffer in program.buffers if buffer is not cleared)


def test_a_constant_window_of_zeros_is_skipped_as_well() -> None:
    w = [[0] * 4 + [1] * 4] * 3
    text = f"input x: i8[8, 5]\nconst w: i8[3, 8] = {w}\nlet y = w @ x\noutput y\n"
    _, fired = keeps_values(text, SkipZeroPasses())
    assert fired["passes skipped"] == 2


def test_a_layer_without_zeros_is_left_alone() -> None:
    program = lower(tiny(product(4, ONES)), reference(4))
    assert SkipZeroPasses().run(program, Counter()) is None


def test_one_tile_stays_for_all_windows() -> None:
    program, fired = keeps_values(product(20, ONES), ReuseWeights())
    assert passes(program)[:, [ROW, ROWS, K, LOAD]].tolist() == [[0, 20, k, Load.AFTER] for k in (0, 4, 8)]
    assert fired["loads saved"] == 12


def test_blocks_turn_the_order_of_tiles_round() -> None:
    graph = tiny(product(20, ONES))
    program = lower(graph, replace(reference(4), accumulator_rows=8))
    table = passes(changed(ReuseWeights(), program)[0])
    assert table[:, [ROW, K, FIRST, EPILOGUE]].tolist() == [
        [0, 0, 1, 0],
        [0, 4, 0, 0],
        [0, 8, 0, 1],
        [7, 8, 1, 0],
        [7, 4, 0, 0],
        [7, 0, 0, 1],
        [14, 0, 1, 0],
        [14, 4, 0, 0],
        [14, 8, 0, 1],
    ]
    assert table[:, LOAD].tolist() == [1, 1, 1, 0, 1, 1, 0, 1, 1]


def test_loads_go_ahead_only_with_a_second_plane_and_from_the_weight_memory() -> None:
    graph = tiny(product(4, ONES))
    single = lower(graph, replace(reference(4), double_buffered=False))
    assert PrefetchWeights().run(single, Counter()) is None
    program, _ = changed(PrefetchWeights(), lower(graph, reference(4)))
    assert (passes(program)[:, LOAD] == Load.AHEAD).all()
    computed = lower(tiny("input a: i8[4, 4]\ninput b: i8[4, 4]\nlet y = a @ b\noutput y\n"), reference(4))
    assert PrefetchWeights().run(computed, Counter()) is None


def test_numbers_close_up() -> None:
    skipped, _ = keeps_values(product(8, zeroed(1)), SkipZeroPasses())
    assert passes(skipped)[:, ID].tolist() == [0, 2, 3, 5]
    assert passes(changed(RenumberPasses(), skipped)[0])[:, ID].tolist() == [0, 1, 2, 3]


def test_buffers_that_do_not_live_together_share_bytes() -> None:
    text = "input x: i32[16]\nlet a = relu(x)\nlet b = relu(a + x)\nlet c = relu(b + b)\nlet y = c + c\noutput y\n"
    program = lower(tiny(text, 0), reference(4))
    placed, fired = changed(AllocateBuffers(), program)
    assert placed.used_bytes == 3 * 64 < program.used_bytes
    assert fired["bytes saved"] == program.used_bytes - placed.used_bytes


@pytest.mark.parametrize("pass_", TILE_PASSES, ids=lambda pass_: pass_.name)
def test_every_pass_can_be_left_out(pass_: TilePass) -> None:
    graph = tiny(product(20, zeroed(1), "relu(x @ w + b) + b"))
    inputs = random_inputs(graph)
    (wanted,), _ = interp.run(graph, inputs)
    program = optimized(lower(graph, reference(4)), pass_.name)
    np.testing.assert_array_equal(execute(read(write(program)), inputs)[0], wanted)
    assert simulate(program).cycles >= simulate(optimized(lower(graph, reference(4)))).cycles


def test_disable_leaves_a_stage_out() -> None:
    path = EXAMPLES[0].parent / "mm_bias_relu.tiny"
    settings = driver.Settings(target="tpu:4", disabled=frozenset({"prefetch-weights"}))
    made = driver.build_for_machine(driver.load(path), settings)
    program = read(next(iter(made.files.values())))
    assert not (passes(program)[:, LOAD] == Load.AHEAD).any()
    assert set(driver.pass_names(settings)) >= {pass_.name for pass_ in TILE_PASSES}


class Broken(TilePass):
    """Loses the last column of every product."""

    name = "lose-a-column"

    def run(self, program: Program, fired: Counter[str]) -> Program | None:
        layers = list(program.layers)
        for index, layer in enumerate(layers):
            if isinstance(layer, ArrayLayer):
                layers[index] = replace(layer, passes=layer.passes[layer.passes[:, N] == 0])
        return program.with_layers(layers)


def test_a_pass_that_breaks_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trivet.backends.tpu.target.TILE_PASSES", (Broken(),))
    path = EXAMPLES[0].parent / "mm_bias_relu.tiny"
    with pytest.raises(PassVerifyError, match="lose-a-column"):
        driver.build_for_machine(driver.load(path), driver.Settings(target="tpu"), [VerifyEach()])


@given(int8_networks.SEEDS, st.sampled_from([4, 8, 32]))
def test_random_networks_equal_the_oracle_through_every_pass(seed: int, array: int) -> None:
    graph = int8_networks.random_graph(seed)
    inputs = int8_networks.random_inputs(graph)
    wanted = int8_networks.expected(graph, inputs)
    try:
        legal(graph)
    except CompileError:
        return
    machine = replace(reference(array), accumulator_rows=max(array, 40))
    program = lower(graph, machine)
    cycles = simulate(program).cycles
    for pass_ in TILE_PASSES:
        program = pass_.run(program, Counter()) or program
        for ours, oracle in zip(execute(read(write(program)), inputs), wanted, strict=True):
            np.testing.assert_array_equal(ours, oracle, err_msg=pass_.name)
    assert simulate(program).cycles <= cycles
    assert compiled(graph, array, 1, machine).used_bytes == program.used_bytes


@st.composite
def sparse_products(draw: st.DrawFn) -> str:
    """Products with many tiles of zeros."""
    rows, k, n = (draw(st.integers(1, 14)) for _ in range(3))
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    weights = random.integers(-128, 128, (k, n))
    for row in range(0, k, 4):
        for column in range(0, n, 4):
            if draw(st.booleans()):
                weights[row : row + 4, column : column + 4] = 0
    return product(rows, weights, draw(st.sampled_from(["x @ w", "relu(x @ w)", "x @ w + b", "relu(x @ w + b)"])))


@given(sparse_products())
def test_sparse_products_equal_the_oracle_and_are_never_slower(text: str) -> None:
    graph = tiny(text)
    inputs = random_inputs(graph)
    program = lower(graph, replace(reference(4), accumulator_rows=6))
    best = optimized(program)
    np.testing.assert_array_equal(execute(read(write(best)), inputs)[0], interp.run(graph, inputs)[0][0])
    assert simulate(best).cycles <= simulate(program).cycles
