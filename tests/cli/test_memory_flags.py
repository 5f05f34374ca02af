"""What the flags about memory, weights and proofs do, and what they say when they make no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_commands import DIGITS, trivet

from trivet.backends.plan import format as f
from trivet.backends.plan.writer import seal


def test_analyze_says_whether_the_order_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert "at the peak, no order needs less" in trivet(capsys, "analyze", DIGITS)[1]
    order = json.loads(trivet(capsys, "analyze", DIGITS, "--json")[1])["order"]
    assert order == {"peak_bytes": 6144, "lower_bound_bytes": 6144, "proved": True}


def test_several_memories_and_a_pin(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "d.tgrs"
    memories = ["--region", "dtcm=1800", "--region", "sram=8K:32", "--pin", "@output=sram"]
    assert trivet(capsys, "compile", DIGITS, *memories, "-o", plan)[0] == 0
    regions = json.loads(trivet(capsys, "inspect", plan, "--json")[1])["regions"]
    assert [region["name"] for region in regions] == ["dtcm", "sram"]
    assert trivet(capsys, "run", plan, "--check", DIGITS)[0] == 0


@pytest.mark.parametrize(
    ("flags", "code", "complaint"),
    [
        (["--pin", "image=dtcm"], 2, "--pin needs memories"),
        (["--region", "dtcm=4K", "-m", "4K"], 2, "give either"),
        (["--region", "dtcm"], 2, "is no memory"),
        (["--region", "dtcm=0"], 1, "has 0 bytes"),
        (["--region", "dtcm=4K:3"], 1, "no power of two"),
        (["--region", "dtcm=8K", "--pin", "imag=dtcm"], 1, "did you mean 'image'?"),
        (["--region", "dtcm=512", "--region", "sram=512"], 1, "needs"),
        (["--compress", "zip"], 2, "lz4"),
        (["--compress", "lz4", "--no-xip"], 2, "not allowed with"),
    ],
)
def test_memory_flags_that_make_no_sense(
    flags: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "d.tgrs"
    found, _, said = trivet(capsys, "compile", DIGITS, *flags, "-o", plan)
    assert found == code and complaint in said
    assert not plan.exists()


@pytest.mark.parametrize("flags", [["--compress", "lz4"], ["--no-xip"]])
def test_weights_elsewhere(flags: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "d.tgrs"
    assert "weights" in trivet(capsys, "compile", DIGITS, *flags, "-o", plan)[1]
    assert trivet(capsys, "run", plan, "--check", DIGITS)[0] == 0
    assert trivet(capsys, "verify", plan)[0] == 0


def test_verify_proves_a_plan_by_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "d.tgrs"
    trivet(capsys, "compile", DIGITS, "-m", "2560", "-o", plan)
    code, out, _ = trivet(capsys, "verify", plan, "--json")
    assert code == 0 and json.loads(out)[0]["verdicts"][0]["authority"] == "proof"
    data = bytearray(plan.read_bytes())
    offset = int.from_bytes(data[f.HEADER.offset_of("regions") :][:4], "little") + f.REGION.offset_of("size_bytes")
    data[offset] += 16
    plan.write_bytes(seal(bytes(data)))
    code, out, _ = trivet(capsys, "verify", plan)
    assert code == 1 and out.startswith("FAIL") and "claims" in out


def test_verify_refuses_what_is_no_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.tgrs"
    path.write_bytes(b"no plan at all")
    code, _, said = trivet(capsys, "verify", path)
    assert code == 1 and "no .tgrs plan" in said
