"""The manager against deliberately wrong passes: each kind of fault is caught, and the pass is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from normal_form import normal_form
from trivet.core.dtype import F32
from trivet.core.numerics import Overflow
from trivet.ir.graph import Graph
from trivet.ir.rewriter import Rewriter
from trivet.ir.text.parser import parse_graph
from trivet.ops import OP_BY_NAME
from trivet.ops.elementwise import Add
from trivet.ops.movement import Reshape, Transpose
from trivet.passes.base import Pass
from trivet.passes.instruments import Dump, Stats, Timings
from trivet.passes.manager import Fixpoint, PassManager, PassVerifyError
from trivet.passes.snapshot import Snapshot
from trivet.passes.specs import IMPORTED, Spec
from trivet.passes.verify_each import VerifyEach

PROGRAM = """graph main(%x: i32[2, 3]) {
  %a = transpose{perm=(1, 0)}(%x)
  %b = transpose{perm=(1, 0)}(%a)
  %c = reshape{shape=(6,)}(%b)
  return %c
}"""


def program() -> Graph:
    return parse_graph(PROGRAM, OP_BY_NAME)


@dataclass(frozen=True)
class CancelTransposes(Pass):
    """%b = transpose(transpose(%x)) --> %x, when the permutations cancel."""

    name: ClassVar[str] = "cancel-transposes"

    def rewrite(self, rw: Rewriter) -> None:
        for node in list(rw.graph.nodes):
            first = node.inputs[0].producer
            if isinstance(node.op, Transpose) and first is not None and first.op == node.op == Transpose((1, 0)):
                rw.replace_value(node.output, first.inputs[0])
                rw.count("cancel")
                rw.erase_dead_producers(node.output)


def wrong(rewrite: Callable[[Rewriter], None], ensures: Spec | None = None) -> Pass:
    """A pass called `wrong` that does what `rewrite` says."""

    @dataclass(frozen=True)
    class Wrong(Pass):
        name: ClassVar[str] = "wrong"

        def rewrite(self, rw: Rewriter) -> None:
            rewrite(rw)

    Wrong.ensures = ensures
    return Wrong()


def wrong_value(rw: Rewriter) -> None:
    x = rw.graph.inputs[0]
    rw.replace_node(rw.graph.nodes[2], Reshape((6,)), [rw.insert_before(rw.graph.nodes[0], Transpose((1, 0)), [x])])


def wrong_type(rw: Rewriter) -> None:
    value = rw.graph.nodes[2].output
    rw.retype(value, replace(value.type, dtype=F32))


def dangling_use(rw: Rewriter) -> None:
    rw.changed = True
    rw.graph.nodes.remove(rw.graph.nodes[1])


def use_before_definition(rw: Rewriter) -> None:
    rw.changed = True
    rw.graph.nodes.reverse()


def forgotten_use_list(rw: Rewriter) -> None:
    rw.changed = True
    rw.graph.nodes[0].output.uses.clear()


def doubled_use(rw: Rewriter) -> None:
    """One use listed twice in the place of another."""
    rw.changed = True
    x = rw.graph.inputs[0]
    rw.insert_before(rw.graph.nodes[0], Add(overflow=Overflow.EXACT), [x, x])
    x.uses[0] = x.uses[1]


def claims_no_change(rw: Rewriter) -> None:
    CancelTransposes().rewrite(rw)
    rw.changed = False


def lost_output(rw: Rewriter) -> None:
    rw.changed = True
    rw.graph.outputs.clear()


def raises(rw: Rewriter) -> None:
    raise KeyError("no such thing")


def other_data_unsaid(rw: Rewriter) -> None:
    """Another array in the place of a constant's, and no word about it."""
    for value in rw.graph.constants():
        assert value.data is not None
        value.data = value.data + 1


def data_in_place(rw: Rewriter) -> None:
    """The constant's own array, changed under everybody's feet."""
    for value in rw.graph.constants():
        assert value.data is not None
        value.data.flags.writeable = True
        value.data += 1


def reshapes_remain(graph: Graph):  # type: ignore[no-untyped-def]
    yield from (f"{node!r} remains" for node in graph.nodes if isinstance(node.op, Reshape))


FAULTS = [
    (wrong_value, None, r"%c at \[1\] was"),
    (wrong_type, None, "declared"),
    (dangling_use, None, "before it is defined"),
    (use_before_definition, None, "before it is defined"),
    (forgotten_use_list, None, "use lists"),
    (doubled_use, None, "use lists"),
    (claims_no_change, None, "claims it did not"),
    (lost_output, None, "ports"),
    (raises, None, "it raised KeyError: 'no such thing'"),
    (lambda rw: None, Spec("no reshapes", (reshapes_remain,)), "no reshapes: .* remains"),
]


@pytest.mark.parametrize(("rewrite", "ensures", "reason"), FAULTS, ids=lambda f: getattr(f, "__name__", None))
def test_a_wrong_pass_is_named(rewrite: Callable[[Rewriter], None], ensures: Spec | None, reason: str) -> None:
    manager = PassManager(instruments=[VerifyEach()])
    with pytest.raises(PassVerifyError, match=reason) as caught:
        manager.run(program(), (CancelTransposes(), wrong(rewrite, ensures)) if ensures else (wrong(rewrite, ensures),))
    assert caught.value.pass_name == "wrong"


def test_a_second_pass_is_judged_by_what_it_changed_itself() -> None:
    """The types of nodes that one pass left are known; another one changes what a node reads."""

    def rename(rw: Rewriter) -> None:
        rw.rename(rw.graph.nodes[0].output, "other")

    def retype_input(rw: Rewriter) -> None:
        rw.retype(rw.graph.inputs[0], replace(rw.graph.inputs[0].type, dtype=F32))

    with pytest.raises(PassVerifyError, match="declared"):
        PassManager().run(program(), (wrong(rename), wrong(retype_input)))


WITH_CONSTANT = """graph main(%x: i32[2]) {
  const %c: i32[2] = [1, 2]
  %y = add{overflow=exact}(%x, %c)
  return %y
}"""


@pytest.mark.parametrize("rewrite", [other_data_unsaid, data_in_place], ids=lambda f: f.__name__)
def test_constants_do_not_change_unsaid(rewrite: Callable[[Rewriter], None]) -> None:
    with pytest.raises(PassVerifyError, match=r"claims it did not|data of a constant") as caught:
        PassManager([VerifyEach()]).run(parse_graph(WITH_CONSTANT, OP_BY_NAME), (wrong(rewrite),))
    assert caught.value.pass_name == "wrong"


def test_other_data_is_noticed_by_the_manager_alone() -> None:
    with pytest.raises(PassVerifyError, match="claims it did not"):
        PassManager().run(parse_graph(WITH_CONSTANT, OP_BY_NAME), (wrong(other_data_unsaid),))


@pytest.mark.parametrize("rewrite", [wrong_type, dangling_use, lost_output, raises], ids=lambda f: f.__name__)
def test_the_graph_before_is_told_also_where_the_structure_broke(rewrite: Callable[[Rewriter], None]) -> None:
    with pytest.raises(PassVerifyError) as caught:
        PassManager().run(program(), (CancelTransposes(), wrong(rewrite)) if rewrite is raises else (wrong(rewrite),))
    before = program()
    if rewrite is raises:
        CancelTransposes().run(before)
    assert normal_form(parse_graph(caught.value.before, OP_BY_NAME)) == normal_form(before)
    assert caught.value.reproducer().startswith("// pass 'wrong' broke this program: ")


def test_a_right_pass_passes_and_is_counted() -> None:
    written: list[str] = []
    stats = Stats(written.append)
    manager = PassManager(instruments=[VerifyEach(), stats, Timings(written.append)])
    graph = program()
    manager.run(graph, (Fixpoint((CancelTransposes(),)),))
    assert [n.op.name for n in graph.nodes] == ["reshape"]
    assert [(r.round, r.changed) for r in manager.runs] == [(1, True), (2, False)]
    assert stats.fired["cancel-transposes"]["cancel"] == 1
    assert "cancel-transposes: cancel" in "".join(written) and "total" in "".join(written)


def test_a_group_that_never_settles_is_a_fault() -> None:
    def flip(rw: Rewriter) -> None:
        rw.retype(rw.graph.inputs[0], replace(rw.graph.inputs[0].type))

    with pytest.raises(PassVerifyError, match="no fixpoint after 5 rounds"):
        PassManager().run(program(), (Fixpoint((wrong(flip),), max_rounds=5),))


def test_a_disabled_pass_does_not_run() -> None:
    graph = program()
    before = Snapshot.take(graph)
    PassManager(disabled=frozenset({"cancel-transposes"})).run(graph, (CancelTransposes(),))
    assert before.equals(graph)


def test_dumps_show_the_graph_after_the_pass() -> None:
    written: list[str] = []
    PassManager(instruments=[Dump(written.append, after=None)]).run(program(), (CancelTransposes(),))
    assert written[0].startswith("// ---- after cancel-transposes\ngraph main(%x: i32[2, 3])")
    assert "transpose" not in written[0].splitlines()[2]


def test_requirements_are_checked() -> None:
    no_reshapes = Spec("no reshapes", (reshapes_remain,), base=IMPORTED)

    @dataclass(frozen=True)
    class Demanding(Pass):
        name: ClassVar[str] = "demanding"
        requires: ClassVar[Spec] = no_reshapes

        def rewrite(self, rw: Rewriter) -> None:
            """Does nothing."""

    with pytest.raises(PassVerifyError, match=r"requires no reshapes: .* remains"):
        PassManager().run(program(), (Demanding(),))
    manager = PassManager()
    manager.run(parse_graph("graph main(%x: i32[2]) { return %x }", OP_BY_NAME), (Demanding(),))
    assert manager.holds is no_reshapes
