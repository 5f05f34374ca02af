"""Transposes at the model's border."""

from __future__ import annotations

from typing import ClassVar

from trivet.core.record import dataclass
from trivet.ir.rewriter import Rewriter
from trivet.ops.movement import Transpose
from trivet.passes.base import Pass, Preserves, Relative
from trivet.passes.layout import lift_transpose
from trivet.passes.lift import Lift, Ports
from trivet.passes.patterns import made_by
from trivet.passes.remove_identities import joins_border


@dataclass(frozen=True, slots=True)
class TransposesIntoPorts(Pass):
    """return transpose(%y)  -->  return %y, with the permutation in the output's port;
    transpose(%input)  -->  %input stored in that order, whichever it is, with the inverse in the input's port.

    Runs once all others have cancelled: what is left at the border costs nothing there. A permutation only renames
    axes, so an artifact's inputs and outputs are in storage order while the declared order is kept beside them. A
    transpose that is all between an input and an output stays: something has to compute the output.
    """

    name: ClassVar[str] = "transposes-into-ports"
    preserves: ClassVar[Preserves] = Relative(1e-6)

    def rewrite(self, rw: Rewriter) -> None:
        _outputs(rw)
        lift = Lift(rw, Ports.OPEN)
        for node in list(rw.graph.nodes):
            if isinstance(node.op, Transpose) and not joins_border(rw.graph, node):
                lift_transpose(rw, node, lift)


def _outputs(rw: Rewriter) -> None:
    """A transpose in front of a model output becomes the permutation of its port."""
    graph = rw.graph
    for index, value in enumerate(list(graph.outputs)):
        transpose = made_by(value, Transpose)
        if transpose is None or transpose.inputs[0].producer is None:
            continue
        assert isinstance(transpose.op, Transpose)
        rw.set_output(index, transpose.inputs[0], transpose.op.perm)
        rw.erase_dead_producers(value)
        rw.count("transpose into output port")
