"""Which networks compile, and equal their reference: every model of the given folders, compiled, run and compared.

    python bench/survey.py [--all] [--seconds N] FOLDER|FILE ...
    python bench/survey.py --nodes [PATTERN]

A model's expected outputs come from its golden (`golden/<first 16 of sha256>.npz` in a folder above: `in_k`, `ref_k`
and `.tflm.npz`: `tflm_k`), else from the reference runtimes on seeded inputs. A .tflite file is one case per contract.
`--nodes` takes the backend node tests of the `onnx` package instead (through the compiled plan; operands that decide a
shape are bound to the case's values where the model is refused otherwise).

Every case runs in a process of its own, so that a crash is a line of the table. Prints what does not pass (with `--all`
everything), then a summary: passed of those that the reference runs, refusals by reason, compile times.

integers must be equal, floats within 1e-5 of the largest magnitude (1e-3 where the network has states or 16-bit
tensors; 2e-2 for integer operators of ONNX, where one step of the output is allowed).
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import re
import statistics
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from trivet import driver
from trivet.artifact import Artifact
from trivet.compare import compare
from trivet.core.numerics import Numerics
from trivet.errors import CompileError, Problems
from trivet.reference import REFERENCES, ReferenceRefused

SEED = 0
TOLERANCES = ((r"dtln|silero|lstm|gru|s16", 1e-3), (r"qop_|_dyn_|qdq_", 2e-2))
"""Of the largest magnitude, by a pattern of the file's name; others 1e-5."""


@dataclass(frozen=True)
class Case:
    """A model, its contract, and, where they are stored, its inputs and expected outputs."""

    path: Path
    numerics: Numerics
    inputs: Path | None = None
    expected: Path | None = None
    prefix: str = ""

    @property
    def title(self) -> str:
        return f"{self.path.name} ({self.numerics.value})"


@dataclass(frozen=True)
class Result:
    """`verdict`: equal, differs, refused, crash, or unknown where no reference runs the model."""

    title: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0


def cases(roots: list[Path]) -> Iterator[Case]:
    for root in roots:
        files = [root] if root.is_file() else sorted(root.rglob("*"))
        for path in files:
            if path.suffix in (".onnx", ".tflite"):
                yield from _of_file(path)


def _of_file(path: Path) -> Iterator[Case]:
    stem = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    folders = [parent / "golden" for parent in path.resolve().parents if (parent / "golden").is_dir()]
    golden, tflm = (folders[0] / f"{stem}{end}" if folders else Path() for end in (".npz", ".tflm.npz"))
    contracts = (Numerics.ONNX,) if path.suffix == ".onnx" else (Numerics.TFLM, Numerics.LITERT)
    if not golden.is_file() and not tflm.is_file():
        yield from (Case(path, numerics) for numerics in contracts)
        return
    inputs = golden if golden.is_file() else tflm
    for numerics in contracts:
        expected, prefix = (tflm, "tflm") if numerics is Numerics.TFLM else (golden, "ref")
        if expected.is_file():
            yield Case(path, numerics, inputs, expected, prefix)


def _arrays(path: Path, prefix: str) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[f"{prefix}_{i}"] for i in range(sum(name.startswith(f"{prefix}_") for name in file.files))]


def survey(case: Case) -> Iterator[Result]:
    """The result so far, after each step that may end the process."""
    start = time.process_time()
    stored = _arrays(case.inputs, "in") if case.inputs else None
    try:
        artifact = _compiled(case, stored)
    except CompileError as error:
        yield Result(case.title, "refused", _reasons(error), time.process_time() - start)
        return
    seconds = time.process_time() - start
    inputs = stored if stored is not None else _random(artifact)
    found = artifact.run(inputs)
    yield Result(case.title, "unknown", "the reference stopped", seconds)
    try:
        expected = _arrays(case.expected, case.prefix) if case.expected else _reference(case, inputs)
    except ReferenceRefused as error:
        yield Result(case.title, "unknown", str(error), seconds)
        return
    difference = _difference(expected, found, _tolerance(case.path.stem))
    yield Result(case.title, "differs" if difference else "equal", difference, seconds)


def _compiled(case: Case, stored: list[np.ndarray] | None) -> Artifact:
    """Free dimensions are those of the stored inputs."""
    settings = driver.Settings(numerics=case.numerics)
    if stored is not None and case.path.suffix == ".onnx":
        shapes = {name: a.shape for name, a in zip(_input_names(case.path), stored, strict=True) if a.ndim}
        settings = driver.Settings(numerics=case.numerics, input_shapes=shapes)
    return Artifact(driver.build(driver.load(case.path, settings), settings).data)


def _input_names(path: Path) -> list[str]:
    import onnx  # noqa: PLC0415

    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [port.name for port in graph.input if port.name not in constants]


def _reasons(error: CompileError) -> str:
    problems = error.problems if isinstance(error, Problems) else (error,)
    return "; ".join(dict.fromkeys(str(problem).splitlines()[0] for problem in problems))


def _random(artifact: Artifact) -> list[np.ndarray]:
    """Full range for quantized inputs, small numbers for plain integers, which may be indices."""
    inputs = artifact.random_inputs(SEED)
    rng = np.random.default_rng(SEED)
    for index, port in enumerate(artifact.plan.inputs):
        if port.tensor.dtype.is_integer and port.tensor.dtype.bits >= 32:
            inputs[index] = rng.integers(0, 2, inputs[index].shape).astype(inputs[index].dtype)
    return inputs


def _reference(case: Case, inputs: list[np.ndarray]) -> list[np.ndarray]:
    (reference,) = (r for r in REFERENCES if r.suffix == case.path.suffix and r.exact_for is case.numerics)
    return reference.run(case.path, inputs)


def _tolerance(stem: str) -> float:
    return next((tolerance for pattern, tolerance in TOLERANCES if re.search(pattern, stem)), 1e-5)


def _difference(expected: list[np.ndarray], found: list[np.ndarray], tolerance: float) -> str:
    if len(expected) != len(found):
        return f"{len(found)} outputs instead of {len(expected)}"
    for index, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if wanted.dtype != got.dtype or wanted.shape != got.shape:
            return f"output {index} is {got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
        comparison = compare(wanted, got, tolerance)
        if not comparison.same:
            return f"output {index}: {comparison}"
    return ""


def node_cases(pattern: str) -> list[Any]:
    from onnx.backend.test import loader  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in loader.load_model_tests(kind="node") if re.search(pattern, case.name)]


def survey_node(case: Any) -> Iterator[Result]:
    """All inputs fed, else the first alone, else none: the others are bound."""
    if outside := _outside(case):
        yield Result(case.name, "outside", outside)
        return
    reason, count = "", len(case.model.graph.input)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.model.SerializeToString())
        for fed in dict.fromkeys((count, min(1, count), 0)):
            start = time.process_time()
            try:
                difference = _node_difference(case, path, fed)
            except CompileError as error:
                reason = reason or _reasons(error)
                continue
            verdict = "differs" if difference else "equal"
            yield Result(case.name, verdict, difference, time.process_time() - start)
            return
    yield Result(case.name, "refused", reason)


SCOPE = ("FLOAT", "INT8", "UINT8", "INT32", "INT64", "BOOL")
DATA_DEPENDENT = {"NonZero", "Unique", "Compress", "NonMaxSuppression"}


def _outside(case: Any) -> str:
    """Why a case is out of scope, empty where it is not."""
    import onnx  # noqa: PLC0415

    graph = case.model.graph
    for port in (*graph.input, *graph.output):
        if port.type.WhichOneof("value") != "tensor_type":
            return "sequences and optionals"
        if onnx.TensorProto.DataType.Name(port.type.tensor_type.elem_type) not in SCOPE:
            return "element types"
    if {node.op_type for node in graph.node} & DATA_DEPENDENT:
        return "the result's size depends on the data"
    if any(node.domain == "ai.onnx.preview.training" for node in graph.node) or "training" in case.name:
        return "training"
    return ""


def _node_difference(case: Any, path: Path, fed: int) -> str:
    inputs, expected = ([np.asarray(array) for array in arrays] for arrays in case.data_sets[0])
    given = list(zip([port.name for port in case.model.graph.input], inputs, strict=True))
    shapes = {name: array.shape for name, array in given[:fed] if array.ndim and all(array.shape)}
    settings = driver.Settings(input_shapes=shapes, bindings=dict(given[fed:]))
    with np.errstate(all="ignore"):
        artifact = Artifact(driver.build(driver.load(path, settings), settings).data)
        found = artifact.run(inputs[:fed])
    for wanted, got in zip(expected, found, strict=True):
        if wanted.dtype != got.dtype or wanted.shape != got.shape:
            return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
        exact = wanted.dtype.kind != "f"
        if not np.allclose(got, wanted, rtol=0 if exact else case.rtol, atol=0 if exact else 1e-6, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(got.astype(np.float64) - wanted.astype(np.float64))):g}"
    return ""


def isolated(title: str, work: Callable[[], Iterator[Result]], limit: float) -> Result:
    """The last result of `work`, in a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_send, args=(title, work, sender))
    process.start()
    sender.close()
    result = Result(title, "crash", "the process ended")
    deadline = time.monotonic() + limit
    try:
        while receiver.poll(max(0.0, deadline - time.monotonic())):
            result = receiver.recv()
    except EOFError:
        process.join()
        return result
    process.kill()
    process.join()
    return Result(title, "crash", f"takes more than {limit:g} s")


def _send(title: str, work: Callable[[], Iterator[Result]], sender: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        for result in work():
            sender.send(result)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = (
            f"{type(error).__name__} {str(error).partition(chr(10))[0]} ({Path(where.filename).name}:{where.lineno})"
        )
        sender.send(Result(title, "crash", reason))


def summarize(results: list[Result]) -> None:
    counts = Counter(result.verdict for result in results)
    counted = len(results) - counts["unknown"] - counts["outside"]
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    print(f"equal: {counts['equal']} of {counted} ({100 * counts['equal'] / max(counted, 1):.1f} %)")
    times = [result.seconds for result in results if result.verdict in ("equal", "differs", "unknown")]
    if times:
        print(f"compile time: median {statistics.median(times):.2f} s, longest {max(times):.2f} s (processor time)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FOLDER|FILE")
    parser.add_argument("--nodes", nargs="?", const="", metavar="PATTERN", help="the onnx package's node tests")
    parser.add_argument("--all", action="store_true", help="print what passes as well")
    parser.add_argument("--seconds", type=float, default=120, metavar="N", help="limit of one case")
    arguments = parser.parse_args()
    work = [(case.title, partial(survey, case)) for case in cases(arguments.paths)]
    if arguments.nodes is not None:
        work += [(case.name, partial(survey_node, case)) for case in node_cases(arguments.nodes)]
    results = []
    for title, function in work:
        result = isolated(title, function, arguments.seconds)
        results.append(result)
        if arguments.all or result.verdict in ("differs", "refused", "crash"):
            print(f"{result.verdict:8} {result.seconds:6.2f} s  {result.title}: {result.reason}", flush=True)
    summarize(results)


if __name__ == "__main__":
    main()
