"""The public TinyGPU simulator, where it is installed: programs run on it as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from trivet.backends.gpu.asm import disassemble
from trivet.backends.gpu.simulate import Launch

INSTALL = "pip install --no-deps git+https://github.com/deaneeth/tinygpu@v2.0.0"


def run_on_public_machine(
    launch: Launch, memory: NDArray[np.int64], directory: Path, cycles: int = 200_000
) -> NDArray[np.int64]:
    """Memory after the launch. Skips the test where the simulator is absent."""
    gpu_module = pytest.importorskip("tinygpu.gpu", reason=f"the public simulator is absent: {INSTALL}")
    assembler = pytest.importorskip("tinygpu.assembler")
    path = directory / "program.tgpu"
    path.write_text(disassemble(launch.program))
    program, labels = assembler.assemble_file(path)
    threads = launch.grid * launch.block
    gpu = gpu_module.TinyGPU(num_threads=threads, num_registers=launch.registers, mem_size=memory.size)
    gpu._record_history = lambda: None  # it would keep a copy of memory for every cycle
    gpu.load_kernel(program, labels, (launch.grid, launch.block), list(launch.arguments), launch.shared_words)
    gpu.memory[:] = memory
    gpu.run(cycles)
    assert not gpu.active.any(), f"the program does not end within {cycles} cycles"
    return gpu.memory.astype(np.int64)
