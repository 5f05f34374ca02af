"""`trivet opt`: what goes where, which exit code, and what happens when a pass is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from test_commands import DENSE, DIGITS, trivet

from trivet.ir.graph import Node, Value
from trivet.ir.rewriter import Rewriter
from trivet.ops.matmul import MatMul
from trivet.passes.base import Pass

DIGITS_QDQ = DIGITS.with_name("digits_qdq.onnx")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def wrong_fuse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`fuse` absorbs a bias and forgets it; the working directory is a fresh one."""

    def fused(node: Node, step: Node) -> tuple[MatMul, list[Value]] | None:
        return (MatMul(), list(node.inputs[:2])) if step.op.name == "add" else None

    monkeypatch.setattr("trivet.passes.fuse._fused", fused)
    monkeypatch.chdir(tmp_path)


def test_the_final_ir_is_all_that_stdout_gets(capsys: Capture) -> None:
    flags = ["--print-after-all", "--verify-each", "--time-passes", "--stats", "--print-ranges", "--bisect"]
    code, out, err = trivet(capsys, "opt", DENSE, *flags, "--print-before", "fuse", "--target", "plan")
    assert code == 0 and out == trivet(capsys, "opt", DENSE)[1]
    assert re.findall(r"// ---- after (\S+?)[, \n]", err) == [
        "shape-infer",
        "canonicalize",
        "const-fold",
        "cse",
        "dce",
        "fuse",
        "range-check",
        "legalize-plan",
    ]
    assert "// ---- before fuse" in err and "fuse: bias" in err and "bits of int32 to spare" in err


def test_level_0_does_not_optimize(capsys: Capture) -> None:
    _, _, err = trivet(capsys, "opt", DENSE, "-O0", "--print-after-all", "--target", "host")
    assert re.findall(r"// ---- after (\S+)", err) == ["shape-infer", "range-check", "legalize-plan"]


def test_only_changes_are_printed(capsys: Capture) -> None:
    _, _, err = trivet(capsys, "opt", DENSE, "--print-changed")
    assert re.findall(r"// ---- after (\S+)", err) == ["fuse"]


def test_a_program_that_may_overflow_exits_1_with_place_and_chain(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "big.tiny"
    path.write_text("input x: i32[4]\nconst w: i32[4, 2] = 2000000000\nlet y = relu(x @ w)\noutput y\n")
    for level in ("-O0", "-O1"):
        code, out, err = trivet(capsys, "opt", path, level)
        assert code == 1 and out == ""
        assert f"error: {path}:3:" in err and "^^^" in err and "[-8388608000000000, 8388608000000000]" in err
        assert "matmul of x in [-1048576, 1048576], w in [2000000000, 2000000000]" in err
    assert trivet(capsys, "opt", path, "--i32-range", "0")[0] == 0
    assert "in [0, 0]" in trivet(capsys, "opt", path, "--i32-range", "0", "--print-ranges")[2]


def test_the_stated_range_stays_with_the_program(capsys: Capture, tmp_path: Path) -> None:
    """It is in the IR, which compiles and replays with it, and in the plan, which refuses what lies outside."""
    source, ir, plan, x = (tmp_path / name for name in ("sum.tiny", "sum.tir", "sum.tgrs", "x.npy"))
    source.write_text("input x: i32[2, 2]\nlet y = x + x\noutput y\n")
    code, text, _ = trivet(capsys, "opt", source, "--i32-range", "-3:5")
    assert code == 0 and 'port input 0 "x": i32[2, 2] accepts=(-3, 5)' in text
    ir.write_text(text)
    assert trivet(capsys, "opt", ir)[1] == text
    assert "%x: i32[2, 2] in [-3, 5]" in trivet(capsys, "opt", ir, "--print-ranges", "--verify-each")[2]
    assert "accepts=(-7, 7)" in trivet(capsys, "opt", ir, "--i32-range", "7")[1], "what is asked for wins"
    assert trivet(capsys, "compile", ir, "-o", plan)[0] == 0
    assert "input x: i32[2, 2] in [-3, 5]" in trivet(capsys, "inspect", plan)[1]
    for seed in range(3):
        assert trivet(capsys, "run", plan, "--random", seed, "--check", ir)[0] == 0
    np.save(x, np.array([[5, -3], [6, -4]], np.int32))
    code, out, err = trivet(capsys, "run", plan, "-i", x)
    assert code == 1 and out == "" and "error: input 'x' holds 6 at [1, 0], the program accepts [-3, 5]" in err


def test_level_0_states_the_range_too(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "same.tiny"
    source.write_text("input x: i32[2]\noutput x\n")
    assert "accepts=(-1048576, 1048576)" in trivet(capsys, "opt", source, "-O0")[1]


def test_a_constant_that_overflows_exits_1_with_its_place(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "big.tiny"
    path.write_text("const a: i32[2] = 2000000000\nlet y = a + a\noutput y\n")
    code, _, err = trivet(capsys, "opt", path)
    assert (
        code == 1
        and f"{path}:2:9: this constant add overflows i32" in err
        and "    let y = a + a\n            ^^^^^" in err
    )


USAGE = [
    (["--target", "plam"], "unknown target 'plam', did you mean 'plan'?"),
    (["--passes", "csee"], "unknown pass 'csee', did you mean 'cse'?"),
    (["--passes", "fixpoint(cse,dec)"], "unknown pass 'dec', did you mean 'dce'?"),
    (["--passes", "fixpoint(cse"], "groups are written fixpoint(a,b)"),
    (["--passes", "cse,,dce"], "a pass has no name"),
    (["--passes", ""], "a pass has no name"),
    (["--disable", "constfold"], "did you mean 'const-fold'?"),
    (["--print-after", "legalize-plant"], "did you mean 'legalize-plan'?"),
    (["--print-afterall"], "did you mean --print-after-all?"),
    (["-O3"], "-O3"),
    (["--i32-range", "2:1"], "no range"),
]


@pytest.mark.parametrize(("flags", "message"), USAGE, ids=lambda v: v if isinstance(v, str) else None)
def test_wrong_usage_exits_2_with_a_suggestion(capsys: Capture, flags: list[str], message: str) -> None:
    code, out, err = trivet(capsys, "opt", DENSE, *flags)
    assert code == 2 and message in err and out == ""


def test_a_wrong_pass_exits_3_and_leaves_a_reproducer(capsys: Capture, wrong_fuse: None, tmp_path: Path) -> None:
    code, out, err = trivet(capsys, "opt", DENSE, "--verify-each", "--seed", 3)
    assert code == 3 and out == ""
    assert "pass 'fuse' broke the program: %y at [0, 0] was" in err
    assert "---- before fuse" in err and "---- after fuse" in err and "Traceback" not in err
    replay = re.search(r"^  trivet (opt trivet-fuse.tir --passes fuse --verify-each --seed 3)$", err, re.MULTILINE)
    assert replay is not None and [p.name for p in tmp_path.iterdir()] == ["trivet-fuse.tir"]
    code, _, again = trivet(capsys, *replay[1].split())
    assert code == 3 and "pass 'fuse' broke the program: %4 at [0, 0] was" in again
    assert sorted(p.name for p in tmp_path.iterdir()) == ["trivet-fuse-1.tir", "trivet-fuse.tir"]


def test_a_reproducer_says_for_which_machine_and_layout(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wrong(pass_: Pass, rw: Rewriter) -> None:
        if not getattr(pass_, "ports", True):
            raise KeyError("of the wrong pass")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trivet.passes.layout.CancelTransposes.rewrite", wrong)
    assert trivet(capsys, "opt", DIGITS_QDQ)[0] == 0
    code, _, err = trivet(capsys, "opt", DIGITS_QDQ, "--io-layout", "model", "--target", "gpu")
    replay = re.search(r"^  trivet (opt \S+ --passes cancel-transposes --target gpu --io-layout model)$", err, re.M)
    assert code == 3 and replay is not None
    code, _, err = trivet(capsys, *replay[1].split())
    assert code == 3 and "pass 'cancel-transposes' broke the program: it raised KeyError" in err


def test_a_wrong_pass_is_bisected(capsys: Capture, wrong_fuse: None) -> None:
    code, _, err = trivet(capsys, "opt", DENSE, "--bisect")
    assert code == 3 and "bisect: pass run 6 of 7, fuse, breaks the program" in err


def test_unwatched_it_goes_unnoticed_and_can_be_disabled(capsys: Capture, wrong_fuse: None) -> None:
    assert trivet(capsys, "opt", DENSE)[0] == 0
    assert trivet(capsys, "opt", DENSE, "--verify-each", "--disable", "fuse")[0] == 0


def test_a_network_is_verified_and_legalized(capsys: Capture) -> None:
    code, out, err = trivet(capsys, "opt", DIGITS, "--verify-each", "--target", "plan", "--print-ranges")
    assert code == 0 and "conv2d" in out and "bits of int32 to spare" in err
