"""Times whole networks on this machine: the C runtime against LiteRT (XNNPACK, reference) and TiGrIS.

    python bench/host_kernels.py [--layers] [--cores] [network ...]

One process, one thread, inputs set once: the least of many short batches of runs, in microseconds, and ratios. The
directory of shared networks lies beside the checkout, or where $TRIVET_SHARED says. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from trivet import driver
from trivet.backends.plan.host import HostModel

NETWORKS = {
    "kws": "tiny__kws_ref_model",
    "vww": "tiny__vww_96_int8",
    "resnet8": "tiny__pretrainedResnet_quant",
    "ad01": "tiny__ad01_int8",
}
CHECKOUT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("TRIVET_SHARED", CHECKOUT.parent / "shared"))
SECONDS = 0.004
"""Length of one batch of runs: short enough to fall between what else the machine does."""
BATCHES = 60

Run = Callable[[], object]


def shortest_us(runs: Sequence[Run]) -> list[float]:
    """Microseconds of one run of each: the least mean of short batches, which take turns."""
    counts = []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        counts.append(max(1, int(SECONDS / (time.perf_counter() - start))))
    best = [float("inf")] * len(runs)
    for _ in range(BATCHES):
        for i, (run, count) in enumerate(zip(runs, counts, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                run()
            best[i] = min(best[i], (time.perf_counter() - start) / count)
    return [seconds * 1e6 for seconds in best]


def trivet_model(path: Path) -> HostModel:
    return HostModel(driver.build(driver.load(path), driver.Settings()).data)


def trivet_run(model: HostModel) -> Run:
    """The C call alone: inputs are in the arena."""
    rng = np.random.default_rng(0)
    model.run([rng.integers(-128, 128, p.tensor.shape).astype(p.tensor.dtype.numpy) for p in model.plan.inputs])
    function, pointer = model._library.trivet_run, ctypes.c_void_p(model._model.ctypes.data)
    return lambda: function(pointer)


def litert_run(path: Path, reference: bool) -> Run:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter = Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], rng.integers(-128, 128, detail["shape"]).astype(detail["dtype"]))
    return interpreter.invoke


def tigris_run(path: Path) -> Run:
    from tigris.runtime import Session  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory:
        plan = Path(directory) / "plan.tgrs"
        command = [str(Path(sys.executable).with_name("tigris")), "compile", str(path), "-m", "4M", "-o", str(plan)]
        subprocess.run(command, check=True, capture_output=True)
        session = Session(plan)
    rng = np.random.default_rng(0)
    inputs = {i["name"]: rng.integers(-128, 128, i["shape"]).astype(i["dtype"]) for i in session.inputs}
    return lambda: session.run(inputs)


def rivals(path: Path) -> Iterator[tuple[str, Run]]:
    if importlib.util.find_spec("ai_edge_litert"):
        yield "XNNPACK", litert_run(path, reference=False)
        yield "reference", litert_run(path, reference=True)
    if importlib.util.find_spec("tigris"):
        yield "TiGrIS", tigris_run(path)


def print_layers(model: HostModel) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, p.tensor.shape).astype(p.tensor.dtype.numpy) for p in model.plan.inputs]
    for step, nanoseconds in zip(model.plan.steps, model.profile(inputs, 200), strict=True):
        shapes = " ".join(str(list(model.plan.tensors[t].shape)) for t in (*step.inputs, *step.outputs))
        print(f"    {nanoseconds / 1000:8.2f} us  {step.kernel:16} {shapes}")


def core_count(library: ctypes.CDLL) -> int:
    """How many sets of inner loops this processor has."""
    library.trivet_core_s8_at.restype = ctypes.c_char_p
    return next(i for i in range(9) if library.trivet_core_s8_at(ctypes.c_uint32(i)) is None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="network", help=", ".join(NETWORKS))
    parser.add_argument("--layers", action="store_true", help="print the time of every step")
    parser.add_argument("--cores", action="store_true", help="also time the slower sets of inner loops")
    arguments = parser.parse_args()
    for name in arguments.networks:
        path = SHARED / "models" / "networks" / "tflite" / f"{NETWORKS[name]}.tflite"
        model = trivet_model(path)
        others = dict(rivals(path))
        ours, *theirs = shortest_us([trivet_run(model), *others.values()])
        ratios = (f"{rival} {us:.1f} us ({us / ours:.2f}x)" for rival, us in zip(others, theirs, strict=True))
        print(f"{name}: trivet {ours:.1f} us, {', '.join(ratios)}", flush=True)
        if arguments.cores:
            for core in range(core_count(model._library)):
                model._library.trivet_core_s8_choose(ctypes.c_uint32(core))
                print(f"    inner loops {core}: {shortest_us([trivet_run(model)])[0]:.1f} us")
        if arguments.layers:
            print_layers(model)


if __name__ == "__main__":
    main()
