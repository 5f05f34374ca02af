"""What goes wrong on a machine is noticed: unaligned accesses, results that depend on old memory, wrong elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from devices import M4, M55, compiled_for, on_machine, toolchain
from kernel_bench import check_graphs
from swept_layers import drawn

from trivet import interp
from trivet.device.build import BuildOptions, build
from trivet.device.emulate import DeviceFault, emulate
from trivet.device.machines import BY_NAME
from trivet.device.network import Network, description

PROGRAM = """\
#include "device.h"
int device_main(void) {{
    static uint32_t words[2];
    uint32_t value;
    device_mark(0);
    device_mark(1);
    __asm__ volatile("ldr %0, [%1]" : "=r"(value) : "r"((uintptr_t)words + {offset}u));
    return (int)value;
}}
"""


def run_reading_at(offset: int, machine: str, folder: Path, strict: bool) -> None:
    board = BY_NAME[machine]
    files = {"device_main.c": PROGRAM.format(offset=offset).encode()}
    files["device_network.c"] = description((), (), 0, 0).replace("[] = {}", "[1]").encode()
    network = Network("read", files, (), (), (), (), (), (), (), 0)
    options = BuildOptions(strict_alignment=strict)
    (folder / "measures.bin").touch()
    (folder / "outputs.bin").touch()
    emulate(board, build(board, network, toolchain(board), options, folder), b"")


@pytest.mark.parametrize("machine", [M4, M55])
def test_an_unaligned_access_is_trapped_where_that_is_asked_for(machine: str, tmp_path: Path) -> None:
    for name, offset, strict in (("aligned", 4, True), ("allowed", 2, False)):
        (tmp_path / name).mkdir()
        run_reading_at(offset, machine, tmp_path / name, strict)
    with pytest.raises(DeviceFault, match="in device_main: an unaligned access"):
        run_reading_at(2, machine, tmp_path, strict=True)


@pytest.mark.parametrize("machine", [M4, M55])
@pytest.mark.parametrize("name", ["digits", "tiny__kws_ref_model", "tiny__pretrainedResnet_quant"])
def test_kernels_of_whole_networks_make_no_unaligned_access(name: str, machine: str) -> None:
    compiled = compiled_for(name, machine)
    device = on_machine(compiled.data, machine, BuildOptions(strict_alignment=True))
    inputs = [port.type for port in device.input_ports]
    device.run([np.full(type_.shape, 3, type_.dtype.numpy) for type_ in inputs])


def test_a_wrong_element_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    right = interp.run_model
    monkeypatch.setattr(interp, "run_model", lambda graph, inputs: ([a ^ 1 for a in right(graph, inputs)[0]], None))
    with pytest.raises(AssertionError, match=r"4 of 4 cases differ on mps2-an386:\n  dense 0: x \[.*, random: \d+ of"):
        check_graphs(drawn("dense", 2), M4)
