"""What a user sees: exit codes, one message, no traceback, no half-written file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trivet.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "models" / "digits_int8.tflite"
DENSE = EXAMPLES / "tiny" / "mm_bias_relu.tiny"


def trivet(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_model_compiles_runs_and_is_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "digits.tgrs"
    code, out, _ = trivet(capsys, "compile", DIGITS, "-o", plan, "--json")
    report = json.loads(out)
    assert code == 0 and plan.stat().st_size == report["flash_bytes"]
    code, out, _ = trivet(capsys, "run", plan, "--check", DIGITS, "-o", tmp_path / "out", "--json")
    measured = json.loads(out)
    assert code == 0 and measured["check"][0]["differing"] == [0]
    assert measured["high_water_bytes"] <= report["fast_bytes"] == measured["arena_bytes"]
    assert np.load(tmp_path / "out" / "output_0.npy").shape == (1, 10)


def test_an_input_may_come_by_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "digits.tgrs"
    code, out, _ = trivet(capsys, "compile", DIGITS, "-o", plan, "--input-rows", "-m", "2400", "--json")
    report = json.loads(out)
    assert code == 0 and "input or output by rows" in report["techniques"]
    code, out, _ = trivet(capsys, "run", plan, "--check", DIGITS, "--json")
    measured = json.loads(out)
    assert code == 0 and measured["check"][0]["differing"] == [0]
    assert measured["high_water_bytes"] <= report["fast_bytes"]


def test_inputs_are_taken_by_position_and_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "digits.tgrs"
    trivet(capsys, "compile", DIGITS, "-o", plan)
    np.save(tmp_path / "x.npy", np.full((1, 32, 32, 1), 5, np.int8))
    results = []
    for given in (tmp_path / "x.npy", f"image={tmp_path / 'x.npy'}"):
        assert trivet(capsys, "run", plan, "-i", given, "-o", tmp_path / "o")[0] == 0
        results.append(np.load(tmp_path / "o" / "output_0.npy"))
    np.testing.assert_array_equal(*results)


def test_a_budget_that_is_too_small_is_refused_with_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "digits.tgrs"
    code, _, err = trivet(capsys, "compile", DIGITS, "-o", plan, "-m", "100")
    assert code == 1 and "more than the budget of 100" in err and not plan.exists()
    code, _, err = trivet(capsys, "compile", DIGITS, "-o", plan, "-f", "1K")
    assert code == 1 and "of flash" in err and not plan.exists()
    code, _, err = trivet(capsys, "compile", DIGITS, "-o", plan, "-m", "0")
    assert code == 1 and "budget of 0" in err and not plan.exists()


def test_analyze_shows_margins_channel_by_channel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "tight.tiny"
    path.write_text("input x: i8[2]\nconst w: i32[2, 3] = [[1, 100000, 0], [1, 2, 8000000]]\nlet y = x @ w\noutput y\n")
    few, every = (trivet(capsys, "analyze", path, flag)[1] for flag in ("-v", "-vv"))
    assert (
        "1.1 bits" in few
        and "  channels with less than 8 bits of int32 to spare:\n    matmul y: 1: 7.4, 2: 1.1\n" in few
    )
    assert "  bits of int32 to spare in each channel:\n    matmul y: 0: 23.0, 1: 7.4, 2: 1.1\n" in every
    assert "to spare" not in trivet(capsys, "analyze", path)[1]
    (layer,) = json.loads(trivet(capsys, "analyze", path, "--json")[1])["layers"]
    assert (layer["margin_bits"], layer["channel_margin_bits"]) == (1.1, [23.0, 7.4, 1.1])
    assert "no channels with less than 8 bits" in trivet(capsys, "analyze", DIGITS, "-v")[1]


def test_analyze_answers_and_exits_0_even_if_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = trivet(capsys, "analyze", DIGITS, "-m", "100", "--json")
    analysis = json.loads(out)
    assert code == 0 and analysis["fits"] is False and "budget of 100" in analysis["reasons"][0]
    for key in ("fast_bytes", "slow_bytes", "flash_bytes", "macs", "macs_overhead", "lower_bound_bytes", "techniques"):
        assert key in analysis


def test_a_target_gives_the_budgets_that_no_flag_gives(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "d.tgrs"
    assert trivet(capsys, "compile", DIGITS, "-o", plan, "--target", "stm32vldiscovery")[0] == 0
    code, _, err = trivet(capsys, "compile", DIGITS, "-o", plan, "--target", "stm32vldiscovery", "-m", "1K")
    assert code == 1 and "budget of 1,024" in err


def test_the_smallest_plan_may_be_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = {}
    for objective in ("speed", "memory"):
        out = trivet(capsys, "compile", DIGITS, "-o", tmp_path / "d.tgrs", "--optimize", objective, "--json")[1]
        sizes[objective] = json.loads(out)["fast_bytes"]
    assert sizes["memory"] < sizes["speed"] == 6144


def test_the_model_s_own_layout_may_be_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model, results = tmp_path / "m.onnx", []
    save_two_channel_convolution(model)
    for layout in ("storage", "model"):
        plan = tmp_path / f"{layout}.tgrs"
        assert trivet(capsys, "compile", model, "-o", plan, "--io-layout", layout)[0] == 0
        assert trivet(capsys, "run", plan, "--check", model, "-o", tmp_path / layout)[0] == 0
        results.append(np.load(tmp_path / layout / "output_0.npy"))
        perms = json.loads(trivet(capsys, "inspect", plan, "--json")[1])["inputs"][0]["perm"]
        assert (perms is None) == (layout == "model")
    np.testing.assert_array_equal(*results)
    assert results[0].shape == (1, 3, 5, 6)


def save_two_channel_convolution(path: Path) -> None:
    """A float network whose only layer is a convolution: [1, 2, 5, 6] -> [1, 3, 5, 6]."""
    weights = np.random.default_rng(0).normal(size=(3, 2, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 5, 6]), ("y", [1, 3, 5, 6]))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_opt_prints_ir_that_opt_reads_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, text, err = trivet(capsys, "opt", DENSE, "--time-passes", "--print-after-all")
    assert code == 0 and text.startswith("graph mm_bias_relu(") and "after fuse" in err
    (tmp_path / "again.tir").write_text(text)
    code, again, _ = trivet(capsys, "opt", tmp_path / "again.tir")
    assert code == 0 and again == text


def test_opt_switches_passes_off_and_picks_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert " = relu(" in trivet(capsys, "opt", DENSE, "--disable", "fuse")[1]
    assert " = relu(" in trivet(capsys, "opt", DENSE, "-O0")[1]
    assert " = relu(" not in trivet(capsys, "opt", DENSE, "--passes", "fixpoint(canonicalize,cse),fuse")[1]


USAGE = [
    (["compile", DIGITS, "-o", "x.tgrs", "-m", "abc"], "no size"),
    (["compile", DIGITS, "-o", "x.tgrs", "-m", "9" * 400], "no size"),
    (["compile", DIGITS, "-o", "x.tgrs", "-m", "\u0663"], "no size"),
    (["run", "x.tgrs", "--random", "-1"], "no integer from 0"),
    (["run", "x.tgrs", "--repeat", "0"], "no integer from 1"),
    (["verify", DIGITS, "--seed", "-1"], "no integer from 0"),
    (["compile", DIGITS, "-o", "x.foo"], "the suffix decides"),
    (["compil", DIGITS], "did you mean 'compile'?"),
    (["opt", DENSE, "--disable", "fuze"], "did you mean 'fuse'?"),
    (["opt", DENSE, "--passes", "fuze"], "did you mean 'fuse'?"),
    (["opt", DENSE, "--no-such-flag"], "unrecognized arguments"),
    (["ops", "show", "conv2"], "did you mean 'conv2d'?"),
    (["targets", "show", "hots"], "did you mean 'host'?"),
    (["compile", DIGITS, "-o", "x.tgrs", "--target", "hots"], "did you mean 'host'?"),
    (["compile", DIGITS, "-o", "x.tgrs", "--input-shape", "image"], "NAME:1x3x96x96"),
    ([], "usage"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=lambda v: v if isinstance(v, str) else None)
def test_wrong_usage_exits_2(capsys: pytest.CaptureFixture[str], arguments: list[object], message: str) -> None:
    code, _, err = trivet(capsys, *arguments)
    assert code == 2 and message in err and "Traceback" not in err


def damaged(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["x.tflite", "x.onnx", "x.tiny", "x.tir"])
@pytest.mark.parametrize("data", [b"", b"hello world\n", b"\x00" * 100, b"\xff\xfe\x80" * 50], ids=repr)
def test_a_file_that_is_something_else_exits_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, data: bytes
) -> None:
    output = tmp_path / "out.tgrs"
    code, _, err = trivet(capsys, "compile", damaged(tmp_path, name, data), "-o", output)
    assert code == 1 and err.startswith("error: ") and "Traceback" not in err and not output.exists()


def test_absent_and_unwritable_files_exit_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (
        ["compile", tmp_path / "no.tflite", "-o", tmp_path / "x.tgrs"],
        ["compile", DIGITS, "-o", tmp_path / "no" / "x.tgrs"],
        ["compile", DIGITS, "-o", DIGITS / "x.tgrs"],
        ["compile", DIGITS, "-o", tmp_path / f"{'a' * 300}.tgrs"],
        ["run", tmp_path / "no.tgrs"],
        ["run", damaged(tmp_path, "x.tgrs", b"TGRS" + bytes(100))],
    ):
        code, _, err = trivet(capsys, *arguments)
        assert code == 1 and err.startswith("error: ") and len(err.splitlines()) <= 3
    assert list(tmp_path.glob(".*")) == []


def test_a_flipped_byte_in_a_plan_is_noticed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "digits.tgrs"
    trivet(capsys, "compile", DIGITS, "-o", plan)
    data = bytearray(plan.read_bytes())
    data[len(data) // 2] ^= 1
    plan.write_bytes(bytes(data))
    code, _, err = trivet(capsys, "run", plan)
    assert code == 1 and "refuses the plan" in err


def test_a_plan_is_checked_against_its_own_model_only(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "digits.tgrs"
    trivet(capsys, "compile", DIGITS, "-o", plan)
    code, _, err = trivet(capsys, "run", plan, "--check", DENSE)
    assert code == 1 and "the artifact has i8[1, 32, 32, 1]" in err


def test_settings_come_from_a_file_and_flags_win(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('fast = "100"\n')
    assert "FAIL" in trivet(capsys, "--config", config, "analyze", DIGITS, "-q")[1]
    assert "PASS" in trivet(capsys, "--config", config, "analyze", DIGITS, "-q", "-m", "1M")[1]


WRONG_SETTINGS = {
    "unknown key": ("fsat = 100\n", "did you mean 'fast'?"),
    "no TOML": ("garbage\n", "does not parse"),
    "no size": ('fast = "abc"\n', "'abc' is no size"),
    "negative size": ("fast = -1\n", "'-1' is no size"),
    "wrong kind": ("numerics = 3\n", "numerics: "),
    "no such choice": ('numerics = "foo"\n', "'foo' is none of tflm, litert, onnx"),
    "no such level": ("level = 7\n", "'7' is none of 0, 1, 2"),
    "no such pass": ('disable = ["fuze"]\n', "did you mean 'fuse'?"),
    "no shape": ('input_shape = ["image"]\n', "NAME:1x3x96x96"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS)
def test_wrong_settings_of_a_file_are_wrong_usage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(text)
    code, _, err = trivet(capsys, "--config", config, "compile", DIGITS, "-o", tmp_path / "x.tgrs")
    assert code == 2 and message in err and "Traceback" not in err


def test_every_command_lists_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("analyze", "compile", "run", "opt", "inspect", "verify", "bench", "ops", "targets"):
        code, out, _ = trivet(capsys, command, "--help")
        assert code == 0 and f"usage: trivet {command}" in out
    code, out, _ = trivet(capsys, "--print-completion", "bash")
    assert code == 0 and "--print-after-all" in out


def test_slow_memory_from_compiling_to_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "digits.tgrs"
    assert main(["compile", str(DIGITS), "-m", "1K", "--slow", "64K", "-o", str(plan), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    moved = report["slow_traffic"]
    assert report["fast_bytes"] <= 1024
    assert moved["read_bytes"] > 0
    assert moved["written_bytes"] > 0
    assert main(["run", str(plan), "--check", str(DIGITS), "--json"]) == 0
    fast, slow = json.loads(capsys.readouterr().out)["memories"]
    assert (fast["name"], fast["high_water_bytes"]) == ("fast", report["fast_bytes"])
    assert (slow["name"], slow["high_water_bytes"]) == ("slow", report["slow_bytes"])
    assert main(["analyze", str(DIGITS), "-m", "1K", "--slow", "64K", "--json"]) == 0
    analysis = json.loads(capsys.readouterr().out)
    assert (analysis["slow_bytes"], analysis["slow_traffic"]) == (report["slow_bytes"], moved)
    assert any("slow memory" in technique for technique in analysis["smallest"])
    assert main(["compile", str(DIGITS), "-m", "16", "--slow", "64K", "-o", str(plan)]) == 1
    assert "over the budget by themselves" in capsys.readouterr().err
