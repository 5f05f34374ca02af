"""Does a model fit, with which technique, where is its peak, and what would help: `analyze` as values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trivet import driver
from trivet import estimate as estimates
from trivet.analysis.cost import node_macs
from trivet.analysis.ranges import Ranges, analyze_ranges
from trivet.backends.plan.selection import Selection
from trivet.core.record import dataclass
from trivet.errors import CompileError, DoesNotFit
from trivet.estimate import Estimate
from trivet.ir.graph import Graph
from trivet.planning.front import Point, pareto_front, with_overhead
from trivet.planning.options import Objective
from trivet.planning.order import Order, find_order
from trivet.planning.plan import ExecutionPlan
from trivet.planning.planner import plan as make_plan
from trivet.report import bytes_in_use, plan_report, techniques

FRONT_OVERHEAD = 1.25
"""MACs that the choices of the front may execute at most, in relation to those of the layers."""

FRONT_NODES = 150
"""Nodes up to which the front is searched for."""


@dataclass(frozen=True, slots=True)
class Technique:
    """The smallest fast memory that a way of execution needs."""

    name: str
    fast_bytes: int


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer of the layer-by-layer plan: bytes in use while it runs, and the margin of its int32 sums in bits, least
    and of each output channel. `kernel` is the C kernel that runs it."""

    op: str
    name: str
    shape: tuple[int, ...]
    macs: int
    weight_bytes: int
    bytes_in_use: int
    margin_bits: float | None
    channel_margins: tuple[float, ...] = ()
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What `analyze` found. `reasons` say why the budgets are not met; empty: they are."""

    model: str
    operators: int
    parameters: int
    macs: int
    techniques: tuple[Technique, ...]
    layers: tuple[LayerRow, ...]
    fast_bytes: int
    flash_bytes: int
    lower_bound_bytes: int
    chosen: tuple[str, ...]
    order: Order
    reasons: tuple[CompileError, ...]
    notes: tuple[str, ...]
    front: tuple[Point, ...] = ()
    macs_overhead: float = 1.0
    slow_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    estimate: Estimate | None = None

    @property
    def fits(self) -> bool:
        return not self.reasons

    def overhead_of(self, point: Point) -> float:
        """Multiply-accumulates executed, in relation to those of the layers."""
        return round(1 + point.repeated_macs / max(1, self.macs), 4)

    def as_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "fits": self.fits,
            "fast_bytes": self.fast_bytes,
            "slow_bytes": self.slow_bytes,
            "slow_traffic": {"read_bytes": self.read_bytes, "written_bytes": self.written_bytes},
            "flash_bytes": self.flash_bytes,
            "macs": self.macs,
            "macs_overhead": round(self.macs_overhead, 4),
            "lower_bound_bytes": self.lower_bound_bytes,
            "techniques": list(self.chosen),
            "smallest": {t.name: t.fast_bytes for t in self.techniques},
            "front": [
                {
                    "fast_bytes": point.fast_bytes,
                    "macs_overhead": self.overhead_of(point),
                    "kernel_calls": point.kernel_calls,
                }
                for point in self.front
            ],
            "order": {
                "peak_bytes": self.order.peak_bytes,
                "lower_bound_bytes": self.order.lower_bound,
                "proved": self.order.proved,
            },
            "operators": self.operators,
            "parameters": self.parameters,
            "estimate": None if self.estimate is None else self.estimate.as_json(),
            "reasons": [str(r) for r in self.reasons],
            "notes": list(self.notes),
            "layers": [
                {
                    "op": row.op,
                    "name": row.name,
                    "kernel": row.kernel,
                    "shape": list(row.shape),
                    "macs": row.macs,
                    "weight_bytes": row.weight_bytes,
                    "bytes_in_use": row.bytes_in_use,
                    "margin_bits": row.margin_bits,
                    "channel_margin_bits": list(row.channel_margins),
                }
                for row in self.layers
            ],
        }


def analyze_model(path: str | Path, settings: driver.Settings) -> Analysis:
    """Run the whole pipeline in memory; budgets that are not met are reasons, not errors.

    Raises: CompileError where the model cannot be compiled for any budget.
    """
    loaded = driver.load(path, settings)
    graph = loaded.graph
    selection = driver.legal_graph(graph, settings)
    whole, small = (
        make_plan(graph, None, None, selection, driver.plan_options(settings, objective))
        for objective in (Objective.SPEED, Objective.MEMORY)
    )
    tried = [whole, small, *_with_slow_memory(graph, selection, settings)]
    reasons: list[CompileError] = []
    chosen = small if small.region_bytes("fast") < whole.region_bytes("fast") else whole
    try:
        chosen = driver.fitting_plan(graph, selection, settings)
    except DoesNotFit as error:
        reasons.append(error)
    compiled = driver.write(loaded, chosen, selection, settings)
    try:
        driver.check_flash(compiled, settings.flash_bytes)
    except DoesNotFit as error:
        reasons.append(error)
    report = plan_report(compiled)
    return Analysis(
        model=str(path),
        operators=sum(1 for n in graph.nodes if not n.op.views_input),
        parameters=sum(v.type.elements for v in graph.constants()),
        macs=report.macs,
        techniques=_techniques(tried),
        layers=tuple(_layers(graph, whole, selection)),
        fast_bytes=report.fast_bytes,
        flash_bytes=report.flash_bytes,
        lower_bound_bytes=report.lower_bound_bytes,
        chosen=report.techniques,
        order=find_order(graph),
        reasons=tuple(reasons),
        notes=loaded.notes,
        front=_front(graph, selection, settings),
        macs_overhead=report.executed_macs / max(1, report.macs),
        slow_bytes=report.slow_bytes,
        read_bytes=report.read_bytes,
        written_bytes=report.written_bytes,
        estimate=_estimate(chosen, selection, settings),
    )


def _estimate(plan: ExecutionPlan, selection: Selection, settings: driver.Settings) -> Estimate | None:
    """Instructions on the target's core, where there is one and costs are known."""
    board = driver.board(settings)
    return None if board is None else estimates.estimate_on(board.cpu, plan, selection)


def _front(graph: Graph, selection: Selection, settings: driver.Settings) -> tuple[Point, ...]:
    """What less memory costs; not for networks whose search takes long."""
    if len(graph.nodes) > FRONT_NODES:
        return ()
    options = driver.plan_options(settings, Objective.MEMORY)
    return pareto_front(graph, selection, with_overhead(options, FRONT_OVERHEAD))


def _with_slow_memory(graph: Graph, selection: Selection, settings: driver.Settings) -> list[ExecutionPlan]:
    """The plan with least fast memory beside the slow one, if there is any."""
    if settings.slow_bytes is None:
        return []
    try:
        options = driver.plan_options(settings, Objective.MEMORY)
        return [make_plan(graph, None, settings.slow_bytes, selection, options)]
    except DoesNotFit:
        return []


def _techniques(plans: Sequence[ExecutionPlan]) -> tuple[Technique, ...]:
    found = {}
    for plan in plans:
        found[", ".join(techniques(plan))] = sum(plan.region_bytes(r.name) for r in plan.memories if r.is_fast)
    return tuple(Technique(name, size) for name, size in found.items())


def _layers(graph: Graph, plan: ExecutionPlan, selection: Selection) -> list[LayerRow]:
    loads = bytes_in_use(plan)
    ranges = analyze_ranges(graph)
    rows = []
    streams = [stream for stage in plan.stages for stream in stage.streams]
    for load, stream in zip(loads, streams, strict=True):
        for step in stream.steps:
            node = step.node
            rows.append(
                LayerRow(
                    op=node.op.name,
                    name=node.outputs[0].name,
                    shape=node.outputs[0].type.shape,
                    macs=node_macs(node),
                    weight_bytes=sum(v.type.size_bytes for v in node.inputs if v.is_constant),
                    bytes_in_use=load,
                    margin_bits=_margin(ranges, id(node)),
                    channel_margins=_channel_margins(ranges, id(node)),
                    kernel=selection.call(node).kernel.name,
                )
            )
    return rows


def _margin(ranges: Ranges, node: int) -> float | None:
    sums = ranges.sums.get(node)
    return round(sums.margin_bits, 1) if sums is not None else None


def _channel_margins(ranges: Ranges, node: int) -> tuple[float, ...]:
    sums = ranges.sums.get(node)
    return tuple(round(bits, 1) for bits in sums.channel_margins) if sums is not None else ()
