"""Every page of docs/ is true: its commands run, its code runs, its programs mean what the page says.

```console      lines after "$ " are commands; the lines below must be in what they print; "# exits N" says how
```python       run in order, the blocks of a page together
```tiny         a program that compiles, or one that begins with "# Rejected at LINE:COLUMN: message"
```tir          cases as in tests/passes/cases
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from trivet.cli.main import main
from trivet.errors import CompileError
from trivet.frontends.tiny.convert import parse
from trivet.passes.catalog import graph_pipeline
from trivet.passes.manager import PassManager

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = sorted((CHECKOUT / "docs").glob("*.md"))
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, without their indentation."""
    found = BLOCK.findall(page.read_text())
    return [re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, kind, body in found if kind == language]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def name(page: Path) -> str:
    return page.stem


@pytest.fixture
def workplace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory with the examples, as a user has it."""
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", pages_with("console"), ids=name)
def test_its_commands_do_what_it_says(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(page, "console"):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = session.rstrip().splitlines()
            command, _, comment = command.partition("   # exits ")
            program, *arguments = shlex.split(command)
            assert program == "trivet"
            capsys.readouterr()
            try:
                code = main(arguments)
            except SystemExit as stop:
                code = int(stop.code or 0)
            printed = "".join(capsys.readouterr())
            assert code == int(comment or 0), f"{command}\n{printed}"
            for line in expected:
                assert line.rstrip() in printed, f"{command}\n{printed}"


@pytest.mark.parametrize("page", pages_with("python"), ids=name)
def test_its_code_runs(page: Path, workplace: Path) -> None:
    module = f"docs_{page.stem.replace('-', '_')}"
    scope: dict[str, object] = {"__name__": module}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), scope)


@pytest.mark.parametrize("page", pages_with("tiny"), ids=name)
def test_its_programs_compile_or_are_rejected(page: Path) -> None:
    for text in blocks(page, "tiny"):
        wanted = re.match(r"# Rejected at (.*)", text)
        try:
            PassManager().run(parse(text, "page"), graph_pipeline(1))
            found = None
        except CompileError as error:
            found = str(error).splitlines()[0]
        assert found == (f"page:{wanted[1]}" if wanted else None)


def test_every_page_is_linked() -> None:
    text = "".join(p.read_text() for p in (CHECKOUT / "README.md", *PAGES))
    assert [page.name for page in PAGES if page.name not in text] == []
