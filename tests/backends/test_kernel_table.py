"""Which kernel a target gets: by what it can do, what was asked for, and what a kernel says of the node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trivet import driver, exporting
from trivet.backends.plan.selection import Selection
from trivet.backends.table import KernelTable, NoKernel, Rejection
from trivet.core.dtype import F32
from trivet.errors import Unsupported
from trivet.ir.graph import Graph, Node
from trivet.ir.types import TensorType
from trivet.ops.mathematics import Abs, Neg

DSP = frozenset({"dsp"})


def node_of(op: Abs | Neg) -> Node:
    graph = Graph()
    return graph.append(op, [graph.add_input("x", TensorType(F32, (4,)))])


def table() -> KernelTable[str]:
    made: KernelTable[str] = KernelTable("test")

    @made.kernel(Neg, requires=("dsp", "mve"))
    def vectors(node: Node) -> str:
        return "vectors"

    @made.kernel(Neg, requires=("dsp",))
    def pairs(node: Node) -> str:
        if node.inputs[0].type.elements % 8:
            raise NoKernel("takes multiples of 8 elements")
        return "pairs"

    @made.kernel(Neg)
    def portable(node: Node) -> str:
        return "portable"

    @made.kernel(Abs, requires=("dsp",))
    def alone(node: Node) -> str:
        return "alone"

    return made


def test_the_first_kernel_that_the_target_can_run() -> None:
    assert table().select(node_of(Neg()), frozenset({"dsp", "mve", "fpu"})) == "vectors"
    assert table().select(node_of(Neg())) == "portable"


def test_every_rejected_candidate_has_a_reason() -> None:
    decision = table().decide(node_of(Neg()), DSP)
    assert decision.code == "portable"
    assert decision.rejected == (
        Rejection("vectors", "needs mve, which the target lacks"),
        Rejection("pairs", "takes multiples of 8 elements"),
    )


def test_an_operator_that_only_other_targets_run() -> None:
    assert table().select(node_of(Abs()), DSP) == "alone"
    with pytest.raises(NoKernel, match="on this target: alone needs dsp") as caught:
        table().select_or_say(node_of(Abs()))
    assert caught.value.hint is not None and "--target" in caught.value.hint


def test_features_are_those_of_the_target() -> None:
    assert driver.kernel_features(driver.Settings()) == frozenset()
    assert driver.kernel_features(driver.Settings(target="host")) == frozenset()
    assert driver.kernel_features(driver.Settings(target="cortex-m4")) == {"dsp", "fpu"}
    assert driver.kernel_features(driver.Settings(target="cortex-m4", portable_kernels=True)) == frozenset()
    with pytest.raises(Unsupported, match="no target 'cortex-m44'"):
        driver.kernel_features(driver.Settings(target="cortex-m44"))


def test_a_selection_remembers_what_was_rejected() -> None:
    node, other = node_of(Neg()), node_of(Neg())
    selection = Selection(DSP)
    selection.adopt(other, node)
    assert selection.rejected(other) == selection.rejected(node)


def test_a_module_records_every_decision(tmp_path: Path) -> None:
    model = Path(__file__).parents[2] / "examples/models/digits_int8.tflite"
    exporting.compile_module(model, tmp_path / "net", driver.Settings(), exporting.ModuleRequest())
    decisions = json.loads((tmp_path / "net/plan.json").read_text())["decisions"]
    assert all(d["kernel"] for d in decisions)
    assert all(r.keys() == {"candidate", "reason"} and r["reason"] for d in decisions for r in d["rejected"])
