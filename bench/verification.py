"""What trusting no pass costs: the share of structural verification in compile time, and how long --verify-each runs.

    python bench/verification.py [NETWORK ...]

MobileNetV2-96 (width 0.35, seeded weights) is compiled as an int8 graph and as an ONNX file full of quantize/dequantize
pairs, which the most passes change. All times are processor time, the least of several runs. `compile` is everything
from the file to the plan inside one process, `command` also the start of the process. Then --verify-each on every
program under examples/tiny, and on the networks that are named.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "scripts"))

from sketches.architectures import mobilenet_v2  # noqa: E402
from sketches.graphs import int8_graph  # noqa: E402
from sketches.qdq import qdq_model  # noqa: E402
from trivet import driver  # noqa: E402
from trivet.ir.graph import Graph  # noqa: E402
from trivet.ir.text.printer import print_graph  # noqa: E402
from trivet.passes import manager as passes  # noqa: E402
from trivet.passes.manager import Instrument, PassRun  # noqa: E402
from trivet.passes.verify_each import VerifyEach  # noqa: E402

RUNS = 7


class Checking(Instrument):
    """Sums what the manager's own checks take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def after(self, run: PassRun, graph: Graph) -> str | None:
        self.seconds += run.checking
        return None


class ProcessorTime:
    """Stands in for the manager's clock: other processes on this machine do not count."""

    perf_counter = staticmethod(time.process_time)


@contextlib.contextmanager
def by_processor_time() -> Iterator[None]:
    clock = passes.time
    passes.time = ProcessorTime  # type: ignore[assignment]
    gc.disable()
    try:
        yield
    finally:
        passes.time = clock
        gc.enable()


def compile_seconds(path: Path) -> tuple[float, float]:
    """Of the quickest run: all of it, and the checks."""
    found = []
    with by_processor_time():
        for _ in range(RUNS):
            checking = Checking()
            start = time.process_time()
            driver.build(driver.load(path), driver.Settings(), [checking])
            found.append((time.process_time() - start, checking.seconds))
    return min(found)


def command_seconds(path: Path, directory: Path) -> float:
    """Processor time of `trivet compile` as a process of its own."""
    command = [sys.executable, "-m", "trivet.cli.main", "compile", str(path), "-o", str(directory / "out.tgrs"), "-q"]
    found = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(found)


def verify_each_seconds(path: Path) -> float:
    start = time.process_time()
    settings = driver.Settings(target="plan")
    driver.optimize(driver.load(path).graph, settings, [VerifyEach()], driver.legalization(settings))
    return time.process_time() - start


def main() -> None:
    sketch = mobilenet_v2(96)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        onnx, int8 = directory / "mobilenet_v2_96.onnx", directory / "mobilenet_v2_96.tir"
        onnx.write_bytes(qdq_model(sketch))
        int8.write_text(print_graph(int8_graph(sketch)), encoding="utf-8")
        for path in (onnx, int8):
            total, checks = compile_seconds(path)
            command = command_seconds(path, directory)
            print(
                f"{path.name:22} checks {checks * 1e3:6.1f} ms, "
                f"{checks / total:5.1%} of compile ({total * 1e3:.0f} ms), "
                f"{checks / command:5.1%} of the command ({command * 1e3:.0f} ms)"
            )
    examples = sorted((CHECKOUT / "examples" / "tiny").glob("*.tiny"))
    slowest = max((verify_each_seconds(path), path.name) for path in examples)
    print(f"--verify-each on {len(examples)} .tiny programs: at most {slowest[0]:.2f} s ({slowest[1]})")
    for network in sys.argv[1:]:
        print(f"--verify-each on {Path(network).name}: {verify_each_seconds(Path(network)):.2f} s")


if __name__ == "__main__":
    main()
