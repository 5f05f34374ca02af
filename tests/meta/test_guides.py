"""The commands in the guides run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from trivet.cli.main import main
from trivet.frontends.tiny.convert import parse
from trivet.ir.verify import verify

CHECKOUT = Path(__file__).resolve().parents[2]
GUIDES = ["architecture.md", "adding-a-pass.md", "adding-a-backend.md", "adding-an-operator.md", "tiny.md"]


def commands(guide: str) -> list[str]:
    """Indented lines that call `trivet`, without shell redirections."""
    lines = [line.strip() for line in (CHECKOUT / "docs" / guide).read_text().splitlines() if line.startswith("    ")]
    return [line.partition(">")[0] for line in lines if line.startswith("trivet ")]


@pytest.mark.parametrize("guide", GUIDES)
def test_commands_run(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    monkeypatch.chdir(tmp_path)
    found = commands(guide)
    assert found, f"{guide} shows no command"
    for command in found:
        assert main(shlex.split(command)[1:]) == 0, command


def test_programs_in_the_reference_of_tiny_are_programs() -> None:
    programs = re.findall(r"```tiny\n(.*?)```", (CHECKOUT / "docs" / "tiny.md").read_text(), re.DOTALL)
    assert programs
    for program in programs:
        verify(parse(program))
