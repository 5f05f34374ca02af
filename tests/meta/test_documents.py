"""Documents and interfaces say what is true now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import trivet
from trivet.handbook import operators_markdown, support_markdown

CHECKOUT = Path(__file__).resolve().parents[2]
DIGITS = CHECKOUT / "examples" / "models" / "digits_int8.tflite"


def test_the_list_of_operators_is_fresh() -> None:
    assert (CHECKOUT / "docs" / "operators.md").read_text() == operators_markdown(), "run: trivet ops show --all"


def test_the_table_of_support_is_fresh() -> None:
    assert (CHECKOUT / "docs" / "support.md").read_text() == support_markdown(), "run: trivet ops list --markdown"


def test_the_python_interface_compiles_analyzes_and_runs() -> None:
    artifact = trivet.compile(DIGITS, trivet.Settings(fast_bytes=64 * 1024), verify_each=True)
    (scores,) = artifact.run([np.zeros((1, 32, 32, 1), np.int8)])
    assert scores.shape == (1, 10)
    assert trivet.analyze(DIGITS).fits
    assert trivet.load(DIGITS).graph.outputs[0].type.shape == (1, 10)


def imported(code: str) -> set[str]:
    """The modules and packages that are imported after `code` has run in a new process."""
    report = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"onnx", "lark", "pydantic", "rich", "yaml", "jinja2", "lz4", "onnxruntime", "ai_edge_litert", "scipy", "shtab"}


def test_help_imports_nothing_heavy() -> None:
    code = "import contextlib, io\nfrom trivet.cli.main import main\n"
    code += "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    main(['--help'])"
    assert not imported(code) & (HEAVY | {"numpy"})


def test_compiling_a_tflite_file_imports_numpy_and_little_else(tmp_path: Path) -> None:
    arguments = ["compile", str(DIGITS), "-o", str(tmp_path / "d.tgrs"), "-q"]
    code = f"from trivet.cli.main import main\nmain({arguments!r})"
    modules = imported(code)
    assert not modules & (HEAVY | {"random", "tomllib", "json", "fractions"})
    assert not [name for name in modules if name.startswith(PUT_OFF)]
    assert sum(name.startswith("trivet.") for name in modules) <= MOST_MODULES


def test_the_command_does_not_run_what_numpy_imports_for_others(tmp_path: Path) -> None:
    arguments = ["compile", str(DIGITS), "-o", str(tmp_path / "d.tgrs"), "-q"]
    code = "from trivet.cli import start\nfrom trivet.core.late import put_off\nput_off(start.UNUSED)\n"
    code += f"start.main.main({arguments!r})\nimport sys\n"
    code += "print('\\n'.join('ran:' + name for name in start.UNUSED if type(sys.modules.get(name)) is type(sys)))"
    assert not {name for name in imported(code) if name.startswith("ran:")}


MOST_MODULES = 180
"""Importing one takes about 0.2 ms, a whole compilation 80 ms beside importing numpy: `core/late.py` helps."""


PUT_OFF = (
    "trivet.frontends.onnx",
    "trivet.frontends.tiny",
    "trivet.ir.text",
    "trivet.targets",
    "trivet.interp",
    "trivet.passes.verify_each",
    "trivet.passes.bisect",
    "trivet.passes.instruments",
    "trivet.planning.stream",
    "trivet.backends.plan.host",
    "trivet.backends.plan.reader",
    "trivet.backends.plan.kernels.gather",
    "trivet.backends.plan.kernels.batch_matmul",
    "trivet.backends.plan.kernels.wide",
)
"""What the compilation of a small TFLite network that fits has no use for."""
