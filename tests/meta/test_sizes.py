"""Files and functions stay small enough to be read at one sitting."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "trivet"
MAX_FILE = 600
MAX_FUNCTION = 60

EXEMPT: dict[str, str] = {}
"""What may be longer, with the reason. The list may only shrink."""


def test_files_are_short() -> None:
    for path in [*SOURCES.rglob("*.py"), *SOURCES.rglob("*.[ch]")]:
        name = path.relative_to(SOURCES).as_posix()
        lines = len(path.read_text().splitlines())
        assert lines <= MAX_FILE or name in EXEMPT, f"{name} has {lines} lines"


def test_functions_are_short() -> None:
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path.relative_to(SOURCES).as_posix()}:{node.name}"
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= MAX_FUNCTION or name in EXEMPT, f"{name} has {lines} lines"


def test_exemptions_are_needed() -> None:
    for name in EXEMPT:
        assert (SOURCES / name.partition(":")[0]).is_file(), f"{name} is gone: take it off the list"
