"""A bench for kernels: small graphs compiled for a machine, all run in one start of the emulator, and every element
compared with the oracle.

    check_graphs({"3x3 same": graph, ...}, "mps2-an386")  ->  {"3x3 same": instructions of one run, ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from devices import toolchain

from trivet import driver, interp
from trivet.artifact import Artifact
from trivet.device.build import BuildOptions
from trivet.device.cases import Case, run_cases
from trivet.device.machines import BY_NAME
from trivet.ir.graph import Graph
from trivet.ir.op import Array

STRICT = BuildOptions(strict_alignment=True)


def check_graphs(
    graphs: Mapping[str, Graph],
    machine: str,
    options: BuildOptions = STRICT,
    compiler: str = "gcc",
    fast_bytes: int | None = None,
) -> dict[str, int]:
    """Runs every graph on inputs of two kinds, and says all cases that differ; the instructions of the first run.

    Unaligned accesses trap unless the options say otherwise. Graphs are changed: they are compiled in place.
    """
    board = BY_NAME[machine]
    tools = toolchain(board, compiler)
    settings = driver.Settings(target=board.target, fast_bytes=fast_bytes)
    cases: list[Case] = []
    expected: list[tuple[str, Sequence[Array]]] = []
    for name, graph in graphs.items():
        data = driver.build(driver.Loaded(graph), settings).data
        for kind, inputs in samples(data).items():
            cases.append(Case(data, inputs))
            expected.append((f"{name}, {kind}", interp.run_model(graph, inputs)[0]))
    results = run_cases(cases, board, tools, options)
    wrong = [
        difference(name, arrays, result.outputs)
        for (name, arrays), result in zip(expected, results, strict=True)
        if not same(arrays, result.outputs)
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)} cases differ on {machine}:\n" + "\n".join(wrong)
    return dict(zip(graphs, (result.instructions for result in results[::2]), strict=True))


def samples(data: bytes) -> dict[str, list[Array]]:
    """Random inputs, and such that hold the least and the greatest values alone."""
    artifact = Artifact(data)
    random = artifact.random_inputs(3)
    return {"random": random, "extreme": [extremes(array) for array in random]}


def extremes(array: Array) -> Array:
    if array.dtype.kind != "i":
        return array
    return np.where(array >= np.median(array), array.max(), array.min()).astype(array.dtype)


def same(expected: Sequence[Array], got: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))


def difference(name: str, expected: Sequence[Array], got: Sequence[Array]) -> str:
    a, b = next((a, b) for a, b in zip(expected, got, strict=True) if not np.array_equal(a, b))
    where = np.argwhere(a != b)
    first = tuple(int(i) for i in where[0])
    return f"  {name}: {len(where)} of {a.size} elements, first at {first}: {b[first]} instead of {a[first]}"


__all__ = ["STRICT", "check_graphs"]
