"""Which C kernel runs each node of a graph, found once: planning asks for needs, the writer for the calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trivet.backends.ckernels import Call
from trivet.backends.plan import format as f
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.table import NO_FEATURES, NoKernel, Rejection
from trivet.errors import Problems, Unsupported
from trivet.ir.graph import Graph, Node, Value
from trivet.planning.plan import Step
from trivet.planning.rows import reduces_rows


class Selection:
    """Calls of the C kernels by node, for a target with certain features; a `KernelNeeds` for planning."""

    def __init__(self, features: frozenset[str] = NO_FEATURES) -> None:
        self.features = features
        self._calls: dict[int, tuple[Node, Call | None]] = {}
        self._reasons: dict[int, NoKernel] = {}
        self._rejected: dict[int, tuple[Rejection, ...]] = {}

    def find(self, node: Node) -> Call | None:
        """The call that runs the node, None where no kernel takes it."""
        entry = self._calls.get(id(node))
        if entry is None:
            decision = KERNELS.decide(node, self.features)
            self._rejected[id(node)] = decision.rejected
            reason = decision.refusal
            try:
                call = _within_limits(decision.code, node)
            except NoKernel as beyond:
                call, reason = None, beyond
            if call is None and reason is not None:
                self._reasons[id(node)] = reason
            entry = self._calls[id(node)] = (node, call)
        return entry[1]

    def rejected(self, node: Node) -> tuple[Rejection, ...]:
        """Candidates of higher priority than the kernel that runs the node, and why they do not."""
        self.find(node)
        return self._rejected.get(id(node), ())

    def call(self, node: Node) -> Call:
        """The call of a node that `check` has accepted."""
        call = self.find(node)
        assert call is not None, f"no C kernel takes {node!r}"
        return call

    def with_calls(self, calls: Iterable[tuple[Step, Call]]) -> Selection:
        """The same kernels, with other calls for some steps."""
        other = Selection(self.features)
        other._calls, other._reasons, other._rejected = dict(self._calls), self._reasons, self._rejected
        other._calls.update((id(step.node), (step.node, call)) for step, call in calls)
        return other

    def scratch_bytes(self, node: Node, rows: int) -> int:
        return self.call(node).scratch(rows)

    def computes_rows(self, node: Node) -> bool:
        call = self.call(node)
        return call.streams and call.accumulates == reduces_rows(node)

    def overwrites(self, node: Node) -> bool:
        call = self.find(node)
        return call is not None and call.overwrites

    def keeps_scratch(self, node: Node) -> bool:
        return self.call(node).keeps_scratch

    def over_sums(self, node: Node) -> bool:
        return self.call(node).over_sums

    def runs(self, node: Node) -> bool:
        return self.find(node) is not None

    def adopt(self, node: Node, other: Node) -> None:
        call = self.find(other)
        if call is not None:
            new = {id(old): value for old, value in zip(other.inputs, node.inputs, strict=True)}
            call = replace(call, operands=tuple(new[id(value)] for value in call.operands))
        self._calls[id(node)] = (node, call)
        self._rejected[id(node)] = self.rejected(other)

    def check(self, graph: Graph) -> None:
        """Raises: Problems, with every tensor that no plan can hold, and every node that no kernel takes."""
        problems = [problem for value in graph.inputs if (problem := _unplaceable(value, None))]
        for node in graph.nodes:
            limits = [problem for value in node.outputs if (problem := _unplaceable(value, node))]
            if not limits and not node.op.views_input and self.find(node) is None:
                limits = [_refusal(node, self._reasons.get(id(node)))]
            problems += limits
        if problems:
            raise Problems("the C runtime does not run this model", problems)


def _unplaceable(value: Value, node: Node | None) -> Unsupported | None:
    """Why a tensor cannot lie in a plan's memory."""
    type_ = value.type
    if type_.dtype in f.DTYPES and type_.elements > 0 and type_.rank <= f.MAX_RANK:
        return None
    dtypes = ", ".join(dtype.name for dtype in f.DTYPES)
    text = f"{value.said}: a plan holds no {type_}; it takes {dtypes}, ranks to {f.MAX_RANK}, at least one element"
    return Unsupported(text, where=node.loc if node else None)


def _within_limits(call: Call | None, node: Node) -> Call | None:
    """The call, if the runtime's loader accepts it.

    Raises: NoKernel.
    """
    if call is None:
        return None
    count = len(call.operands) + len(node.outputs)
    if count > f.MAX_OPERANDS:
        raise NoKernel(f"{count} operands and results, a kernel takes {f.MAX_OPERANDS}")
    field = call.kernel.beyond(call.params)
    if field is not None and field.limits is not None:
        least, most = field.limits
        reason = f"its scales are too far apart: `{field.name}` of {call.kernel.name} must lie in {least:g} to {most:g}"
        raise NoKernel(reason, "quantize again, with data that is like what the network will see")
    return call


def _refusal(node: Node, reason: NoKernel | None) -> Unsupported:
    operands = ", ".join(str(type_) for type_ in node.input_types)
    if reason is None:
        reason = NoKernel(KERNELS.refusal(type(node.op)) or f"no kernel takes ({operands}) as it is used here")
    hint = reason.hint or "`trivet ops show` lists what its kernels take"
    return Unsupported(f"{node.op.name}: {reason.reason}", where=node.loc, hint=hint)
