"""Settings by file and by flag: passes, modules, the format of a model. A flag goes before the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from trivet.cli.configuration import Configuration
from trivet.cli.main import full_parser, main
from trivet.driver import Settings, load, passes_by_name, pipeline_for
from trivet.passes.catalog import UnknownPass, flat
from trivet.passes.options import configured, options_of

CHECKOUT = Path(__file__).resolve().parents[2]
DIGITS = CHECKOUT / "examples" / "models" / "digits_int8.tflite"


def passes_that_ran(capsys: pytest.CaptureFixture[str], config: list[str], flags: list[str]) -> set[str]:
    """Words of `--time-passes`, which names every pass that ran."""
    assert main([*config, "opt", str(DIGITS), "--elide", "--time-passes", *flags]) == 0
    return set(capsys.readouterr().err.split())


def configure(folder: Path, text: str) -> list[str]:
    file = folder / "settings.toml"
    file.write_text(text)
    return ["--config", str(file)]


STAR = '[passes."*"]\nenabled = false\n[passes.dce]\nenabled = true\n'


def test_a_star_is_the_default_of_all_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = passes_that_ran(capsys, configure(tmp_path, STAR), [])
    assert "dce" in ran and "cse" not in ran


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--disable", "cse"], {"dce": True, "cse": False, "fuse": True}),
        (["--disable", "*"], {"dce": False, "cse": False}),
        (["--disable", "*", "--enable", "cse"], {"cse": True, "dce": False}),
        (["--enable", "cse", "--disable", "*"], {"cse": True, "dce": False}),
    ],
)
def test_flags_switch_passes(flags: list[str], expected: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    ran = passes_that_ran(capsys, [], flags)
    assert {name: name in ran for name in expected} == expected


def test_a_flag_goes_before_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = passes_that_ran(capsys, configure(tmp_path, STAR), ["--enable", "cse", "--disable", "dce"])
    assert "cse" in ran and "dce" not in ran and "fuse" not in ran


def test_options_reach_their_pass_and_leave_the_order() -> None:
    graph = load(DIGITS).graph
    plain = pipeline_for(graph, Settings())
    changed = pipeline_for(graph, Settings(pass_options={"fold-qdq": {"dtypes": "i8,i16"}}))
    assert [p.name for p in flat(plain)] == [p.name for p in flat(changed)]
    fold = next(p for p in flat(changed) if p.name == "fold-qdq")
    assert options_of(fold) == {"dtypes": "i8,i16"}


def test_a_star_sets_the_option_wherever_it_is() -> None:
    passes = tuple(passes_by_name().values())
    changed = configured(passes, {"*": {"ports": "false"}, "fold-qdq": {"dtypes": "i16"}})
    found = {p.name: options_of(p) for p in flat(changed)}
    assert found["cancel-transposes"] == {"ports": "false"} and found["fold-qdq"] == {"dtypes": "i16"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold-qdq": {"dtype": "i8"}}, "pass 'fold-qdq' has no 'dtype', did you mean 'dtypes'?"),
        ({"cse": {"depth": "3"}}, "pass 'cse' has no 'depth', it has none"),
        ({"*": {"depth": "3"}}, "no pass has an option 'depth'"),
        ({"fold-qdq": {"dtypes": "int8"}}, "dtypes of pass 'fold-qdq' is 'int8', it takes element types"),
        ({"cancel-transposes": {"ports": "no"}}, "ports of pass 'cancel-transposes' is 'no', it takes true or false"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(UnknownPass) as caught:
        configured(tuple(passes_by_name().values()), options)
    assert message in str(caught.value)


REFUSED = [
    ("[passes.csse]\nenabled = false", "unknown pass 'csse', did you mean 'cse'?"),
    ("[passes.cse]\nenable = false", "unknown setting 'passes.cse.enable', did you mean 'enabled'?"),
    ('[passes.cse]\nenabled = "no"', "passes.cse.enabled: Input should be a valid boolean"),
    ("prefx = 'a'", "unknown setting 'prefx', did you mean 'prefix'?"),
    ("schedule = 'tabel'", "schedule: 'tabel' is none of static, table"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_files_that_make_no_sense(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*configure(tmp_path, text), "compile", str(DIGITS), "-o", str(tmp_path / "m")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("flag", [["--pass-option", "cse"], ["--pass-option", "cse.x"]])
def test_an_option_is_written_with_its_pass(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["opt", str(DIGITS), *flag])
    assert "write PASS.KEY=VALUE" in capsys.readouterr().err


def test_a_file_says_what_a_module_is_like(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'prefix = "eye"\nschedule = "table"\nmemory = "caller"\nexport = "zephyr"\nwith_test = true\n'
    assert main([*configure(tmp_path, text), "compile", str(DIGITS), "-o", str(tmp_path / "m"), "-q"]) == 0
    names = {path.name for path in (tmp_path / "m").rglob("*")}
    assert "eye.h" in names and "module.yml" in names
    record = json.loads((tmp_path / "m" / "build-record.json").read_text())["configuration"]
    assert (record["schedule"], record["memory"], record["export"]) == ("table", "caller", "zephyr")


def test_the_format_may_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / "model.bin"
    shutil.copy(DIGITS, odd)
    assert main(["analyze", str(odd), "-q"]) == 1
    assert "'.bin' is no model format" in capsys.readouterr().err
    assert main(["analyze", str(odd), "-q", "--format", "tflite"]) == 0
    assert main([*configure(tmp_path, 'format = "tflite"'), "analyze", str(odd), "-q"]) == 0


NOT_IN_A_FILE = {"help", "model", "output", "json", "all_targets", "pass_option", "seed"}
"""What names one file or one run, and `[passes.NAME]`, which is written otherwise."""


def test_every_setting_of_a_compilation_has_a_key() -> None:
    """A new flag of `compile` gets its key, or a reason."""
    parser = full_parser()
    commands = next(action for action in parser._actions if action.dest == "command").choices
    assert commands is not None
    flags = {action.dest for action in dict(commands)["compile"]._actions if not action.dest.startswith("print_")}
    shown = {"time_passes", "stats"}
    assert flags - NOT_IN_A_FILE - shown - set(Configuration.model_fields) == set()
