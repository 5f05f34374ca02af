"""A fault among many pass runs is found by prefixes, whatever kind of fault it is."""

from __future__ import annotations

from typing import ClassVar

import pytest

from trivet.core.record import dataclass
from trivet.errors import MayOverflow
from trivet.frontends.tiny.convert import parse
from trivet.ir.graph import Graph
from trivet.ir.rewriter import Rewriter
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.passes.base import Pass, Relative
from trivet.passes.bisect import Bisection, Bisector, VerifyWhole
from trivet.passes.catalog import OPTIMIZE
from trivet.passes.fuse import Fuse
from trivet.passes.manager import Pipeline
from trivet.passes.range_check import RangeCheck
from trivet.passes.shape_infer import ShapeInfer

PROGRAM = """
input x: i8[2, 3]
const w: i8[3, 4] = random(seed=1)
const b: i32[4] = [1, 2, 3, 4]
const c: i32[4] = [1, 2, 3, 4]
let y = relu(relu(x @ w + b)) + relu(x @ w + c)
output y
"""


@dataclass(frozen=True)
class DropsRelu(Pass):
    """relu(%x)  -->  %x, which is wrong."""

    name: ClassVar[str] = "drops-relu"

    def rewrite(self, rw: Rewriter) -> None:
        for node in [n for n in rw.graph.nodes if isinstance(n.op, Relu)]:
            rw.replace_value(node.output, node.inputs[0])
            rw.erase(node)


@dataclass(frozen=True)
class LosesUses(Pass):
    """Breaks the structure."""

    name: ClassVar[str] = "loses-uses"

    def rewrite(self, rw: Rewriter) -> None:
        rw.changed = True
        rw.graph.nodes[0].output.uses.clear()


@dataclass(frozen=True)
class Crashes(Pass):
    """Raises."""

    name: ClassVar[str] = "crashes"

    def rewrite(self, rw: Rewriter) -> None:
        raise LookupError("no such thing")


@dataclass(frozen=True)
class SwapsAdds(Pass):
    """add(%a, %b)  -->  add(%b, %a), granted more than it needs."""

    name: ClassVar[str] = "swaps-adds"
    preserves: ClassVar[Relative] = Relative(1e-6)

    def rewrite(self, rw: Rewriter) -> None:
        for node in rw.graph.nodes:
            if isinstance(node.op, Add):
                rw.set_operands(node, node.inputs[::-1])


def bisect(*pipeline: Pass, text: str = PROGRAM) -> Bisection:
    def load() -> Graph:
        return parse(text)

    whole: Pipeline = (ShapeInfer(), OPTIMIZE, *pipeline, Fuse(), RangeCheck())
    return Bisector(load, whole, frozenset(), VerifyWhole).run()


@pytest.mark.parametrize("wrong", [DropsRelu(), LosesUses(), Crashes()], ids=lambda p: p.name)
def test_the_wrong_pass_is_found(wrong: Pass) -> None:
    found = bisect(SwapsAdds(), wrong, SwapsAdds())
    assert found.fault is not None and found.fault.pass_name == wrong.name
    assert "%" in found.fault.before and found.fault.before != ""
    assert wrong.name in str(found)
    assert found.tried <= 8


def test_the_difference_is_told() -> None:
    found = bisect(DropsRelu())
    assert found.fault is not None and "%y at [0, 2] was 0 and is -1694" in found.fault.reason
    assert "relu" in found.fault.before and "relu" not in found.fault.after


def test_a_right_pipeline_is_right() -> None:
    assert str(bisect(SwapsAdds())).startswith("bisect: none of the ")


def test_a_fault_before_a_rejection_is_found() -> None:
    text = "input x: i32[4]\nconst w: i32[4, 2] = 2000000000\nlet y = relu(x) @ w\noutput y"
    with pytest.raises(MayOverflow):
        RangeCheck().run(parse(text))
    found = bisect(DropsRelu(), text=text)
    assert found.fault is not None and found.fault.pass_name == "drops-relu"
