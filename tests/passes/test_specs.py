"""Each claim of the spec `canonical` names a graph that breaks it, and accepts one that keeps it."""

from __future__ import annotations

import pytest

from trivet.ir.text.parser import parse_graph
from trivet.ops import OP_BY_NAME
from trivet.passes.check_canonical import CheckCanonical
from trivet.passes.manager import PassManager, PassVerifyError
from trivet.passes.specs import CANONICAL

BROKEN = {
    "could be computed at compile time": """graph main() {
      const %a: f32[2] = [1, 2]
      %b = neg(%a)
      return %b
    }""",
    "computes an unsigned quantized tensor": """graph main(%x: f32[2]) {
      %a = quantize{out=quant(scale=0.5, zero=3), dtype=u8, numerics=onnx}(%x)
      return %a
    }""",
    "is unsigned and quantized": """graph main(%x: f32[2]) {
      const %k: u8[2]{scale=0.5, zero=3} = [1, 2]
      %a = dequantize(%k)
      %b = add(%a, %x)
      return %b
    }""",
    "stands between dequantize and quantize": """graph main(%x: i8[2]{scale=1, zero=3}, %y: i8[2]{scale=1, zero=3}) {
      %a = dequantize(%x)
      %b = dequantize(%y)
      %c = add(%a, %b)
      %d = quantize{out=quant(scale=0.5, zero=3), numerics=onnx}(%c)
      return %d
    }""",
    "reads a transpose": """graph main(%x: f32[2, 3]) {
      %a = transpose{perm=(1, 0)}(%x)
      %b = transpose{perm=(1, 0)}(%a)
      return %b
    }""",
}

KEPT = """graph main(%x: u8[2]{scale=0.5, zero=131}, %f: f32[2]) {
  %a = requantize{out=quant(scale=0.5, zero=3), numerics=onnx}(%x)
  %b = dequantize(%a)
  %c = exp(%b)
  %d = add(%c, %f)
  %e = quantize{out=quant(scale=0.5, zero=3), numerics=onnx}(%d)
  return %e
}"""


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_claim_is_named(sentence: str) -> None:
    graph = parse_graph(BROKEN[sentence], OP_BY_NAME)
    assert any(sentence in violation for violation in CANONICAL.violations(graph))


def test_a_float_section_and_an_unsigned_border_are_canonical() -> None:
    assert not list(CANONICAL.violations(parse_graph(KEPT, OP_BY_NAME)))


def test_the_manager_checks_what_normalization_ensures() -> None:
    graph = parse_graph(BROKEN["reads a transpose"], OP_BY_NAME)
    with pytest.raises(PassVerifyError, match=r"canonical: .* reads a transpose"):
        PassManager().run(graph, (CheckCanonical(),))
