"""Cycles: the reference machine's figures, and what every pass is worth."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from networks_on_tpu import CHECKOUT, EXAMPLES, NETWORKS, compiled, compiled_network, legal, tiny

from int8_networks import Builder
from trivet import driver
from trivet.backends.tpu.ir import ROWS, K
from trivet.backends.tpu.machine import ARRAY_SIZES, reference
from trivet.backends.tpu.timing import simulate
from trivet.errors import CompileError


@pytest.mark.shared
def test_resnet8_keeps_the_array_busy(shared: Path) -> None:
    timing = simulate(compiled_network("resnet8", 16))
    assert sum(layer.macs for layer in timing.layers) / (256 * timing.cycles) > 0.75


@pytest.mark.shared
@pytest.mark.parametrize("name", ["kws", "vww"])
def test_pointwise_layers_keep_the_array_busy(name: str, shared: Path) -> None:
    program = compiled_network(name, 16)
    timing = simulate(program)
    pairs = zip(program.layers, timing.layers, strict=True)
    pointwise = [time for layer, time in pairs if time.macs and layer.a.taps == 1 and layer.a.rows > 1]
    assert len(pointwise) >= 4
    macs = sum(time.macs for time in pointwise)
    assert sum(time.macs * time.utilization(16) for time in pointwise) / macs > 0.70


@pytest.mark.shared
@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_near_its_roofline(name: str, shared: Path) -> None:
    for layer in simulate(compiled_network(name, 16)).layers:
        assert layer.cycles <= 1.1 * layer.roofline, layer


@pytest.mark.shared
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("array", [8, 16])
def test_networks_are_never_slower_when_optimized(name: str, array: int, shared: Path) -> None:
    assert simulate(compiled_network(name, array, 1)).cycles <= simulate(compiled_network(name, array, 0)).cycles


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_programs_are_never_slower_when_optimized(path: Path) -> None:
    try:
        graphs = [legal(driver.load(path).graph, level) for level in (0, 1)]
    except CompileError:
        return
    for array in ARRAY_SIZES:
        before, after = (simulate(compiled(graph, array, level)).cycles for level, graph in enumerate(graphs))
        assert after <= before, array


def test_one_pass_takes_its_load_its_rows_and_the_depth_of_the_pipeline() -> None:
    graph = tiny("input x: i8[4, 8]\nconst w: i8[8, 8] = random(seed=1)\nlet y = x @ w\noutput y\n")
    timing = simulate(compiled(graph, 8, 1), keep_passes=True)
    (only,) = timing.passes
    assert (only.load, only.loaded, only.start, only.stop) == (0, 8, 8, 12)
    assert timing.cycles == only.done == 12 + reference(8).depth == 12 + 16 + 4


def test_loads_ahead_hide_behind_the_stream() -> None:
    graph = tiny("input x: i8[40, 16]\nconst w: i8[16, 16] = random(seed=1)\nlet y = x @ w\noutput y\n")
    program = compiled(graph, 8, 1)
    passes = simulate(program, keep_passes=True).passes
    assert len(passes) == 4
    assert [p.start for p in passes] == [8, 48, 88, 128]
    assert [p.load for p in passes] == [0, 8, 48, 88], "a plane is free when the pass before has begun"
    assert all(p.waited == 0 for p in passes[1:])


def test_ports_make_what_waits_for_them_faster() -> None:
    text = "input x: i8[1, 64]\nconst w: i8[64, 64] = random(seed=1)\nlet y = x @ w\nlet z = y + y\noutput z\n"
    graph = tiny(text)
    cycles = {}
    for weights, activations in ((1, 1), (4, 1), (1, 2)):
        machine = replace(reference(8), weight_ports=weights, activation_ports=activations)
        product, total = simulate(compiled(graph, 8, 1, machine)).layers
        cycles[weights, activations] = (product.cycles, total.cycles)
    loads, depth = 64, 20
    assert cycles == {
        (1, 1): (loads * 8 + 1 + depth, 8 * 2 + 5),
        (4, 1): (loads * 2 + 1 + depth, 8 * 2 + 5),
        (1, 2): (loads * 8 + 1 + depth, 8 + 5),
    }


def test_cycles_add_up_over_layers() -> None:
    text = "input x: i8[9, 9]\nconst w: i8[9, 5] = random(seed=1)\nconst c: i32[9, 5] = 3\n"
    graph = tiny(text + "let y = relu(x @ w) + c\noutput y\n")
    timing = simulate(compiled(graph, 4, 1))
    assert sum(layer.cycles for layer in timing.layers) == timing.cycles


@pytest.mark.shared
def test_the_table_in_the_documents_is_fresh(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("tpu_effects", CHECKOUT / "scripts" / "tpu_effects.py")
    assert spec is not None and spec.loader is not None
    effects = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(effects)
    monkeypatch.setenv("TRIVET_SHARED", str(shared))
    monkeypatch.setattr("sys.argv", ["tpu_effects.py", "--check"])
    assert effects.main() == 0, "run: python scripts/tpu_effects.py"


def test_narrow_results_are_computed_several_pixels_at_once() -> None:
    b = Builder()
    graph = legal(b.finish(b.conv(b.input(1, 12, 12, 2), 4)))
    (layer,) = compiled(graph, 16, 1).layers
    assert (layer.columns, layer.a.kernel, layer.a.stride, layer.a.out) == (12, (3, 5), (1, 3), (12, 4))
    assert layer.passes[:, [ROWS, K]].tolist() == [[48, 0], [48, 16]], "two tiles for 48 rows, not for 144"
