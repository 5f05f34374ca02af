"""Modules that are put off run when a name of them is first asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trivet.core.late import put_off


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of modules with the file in which they note that they have run."""
    (tmp_path / "put_off_example.py").write_text(
        f"with open({str(tmp_path / 'runs')!r}, 'a') as runs:\n    runs.write('.')\nkind = list\nvalue = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "put_off_example", raising=False)
    return tmp_path / "runs"


def test_a_module_runs_once_when_a_name_is_asked_for(counted: Path) -> None:
    put_off({"put_off_example": {}})
    module = __import__("put_off_example")
    assert __import__("put_off_example") is module and not counted.exists()
    assert module.value == 7 and module.kind is list
    assert counted.read_text() == "."


def test_a_value_that_is_known_is_given_without_running(counted: Path) -> None:
    put_off({"put_off_example": {"kind": dict}})
    module = __import__("put_off_example")
    assert module.kind is dict and not counted.exists()
    assert module.value == 7 and module.kind is list


def test_a_name_that_is_not_there_is_an_attribute_error(counted: Path) -> None:
    put_off({"put_off_example": {}})
    module = __import__("put_off_example")
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = module.other
    assert counted.read_text() == "."


def test_what_the_command_puts_off_still_works() -> None:
    code = (
        "from trivet.cli.start import UNUSED; from trivet.core.late import put_off; put_off(UNUSED)\n"
        "import numpy as np, numpy.typing as npt, pickle, platform, ctypes, textwrap\n"
        "print(pickle.loads(pickle.dumps(np.arange(3))).sum(), platform.python_implementation() != '',\n"
        "      npt.NDArray[np.int8] is not None, ctypes.sizeof(ctypes.c_int32), textwrap.dedent('  a'),\n"
        "      np.emath.sqrt(-1), np.linalg.eig(np.eye(2)).eigenvalues.sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "3 True True 4 a 1j 2.0\n", done.stderr
