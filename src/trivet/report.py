"""What a plan needs and where every byte goes, as numbers for people and machines."""

from __future__ import annotations

from collections import Counter

from trivet.analysis.cost import node_macs
from trivet.backends.plan.weights import Weights
from trivet.core.record import dataclass
from trivet.driver import Compiled
from trivet.ops.block import Block
from trivet.ops.dense_rows import DenseOfRows, DenseToRows
from trivet.planning.plan import CALLER, BufferKind, ExecutionPlan
from trivet.planning.traffic import traffic


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Bytes and multiply-accumulates of one plan.

    `fast_bytes` is the whole arena: activations, rings, scratch, counters, input and output. `lower_bound_bytes` is
    what no placement of the same buffers can go below. `read_bytes` and `written_bytes` are the traffic of slow memory.
    """

    fast_bytes: int
    slow_bytes: int
    flash_bytes: int
    weight_bytes: int
    macs: int
    executed_macs: int
    lower_bound_bytes: int
    layers: int
    techniques: tuple[str, ...]
    bytes_by_kind: dict[str, int]
    stages: int = 1
    read_bytes: int = 0
    written_bytes: int = 0

    def as_json(self) -> dict[str, object]:
        return {
            "fast_bytes": self.fast_bytes,
            "slow_bytes": self.slow_bytes,
            "flash_bytes": self.flash_bytes,
            "weight_bytes": self.weight_bytes,
            "macs": self.macs,
            "macs_overhead": round(self.executed_macs / self.macs, 4) if self.macs else 1.0,
            "lower_bound_bytes": self.lower_bound_bytes,
            "fits": True,
            "techniques": list(self.techniques),
            "bytes_by_kind": self.bytes_by_kind,
            "stages": self.stages,
            "slow_traffic": {"read_bytes": self.read_bytes, "written_bytes": self.written_bytes},
        }

    def summary(self) -> str:
        technique = ", ".join(self.techniques)
        repeated = self.executed_macs - self.macs
        again = f" and {repeated:,} again ({self.executed_macs / self.macs:.3f}x)" if repeated else ""
        slow = ""
        if self.slow_bytes:
            slow = f", slow {self.slow_bytes:,} (reads {self.read_bytes:,}, writes {self.written_bytes:,})"
        return (
            f"fast memory {self.fast_bytes:,} bytes{slow}, flash {self.flash_bytes:,} bytes "
            f"({self.weight_bytes:,} of them weights), {self.layers} layers, {self.macs:,} MACs{again}; {technique}"
        )


def plan_report(compiled: Compiled) -> PlanReport:
    """Counts of a compiled plan."""
    plan = compiled.plan
    fast = sum(plan.region_bytes(r.name) for r in plan.memories if r.is_fast)
    macs = sum(node_macs(node) for node in compiled.graph.nodes)
    moved = traffic(plan)
    kinds: Counter[str] = Counter()
    for buffer in plan.buffers:
        kinds[buffer.kind.value] += buffer.size_bytes if buffer.region != CALLER else 0
    if compiled.weights.reserved_bytes:
        kinds["decoded weights"] = compiled.weights.reserved_bytes
    return PlanReport(
        fast_bytes=fast + compiled.weights.reserved_bytes,
        slow_bytes=sum(plan.region_bytes(r.name) for r in plan.memories if not r.is_fast),
        flash_bytes=len(compiled.data),
        weight_bytes=sum(value.type.size_bytes for value in compiled.graph.constants()),
        macs=macs,
        executed_macs=macs + repeated_macs(plan),
        lower_bound_bytes=max((load for load in bytes_in_use(plan)), default=0),
        layers=sum(1 for _ in plan.steps()),
        techniques=(*techniques(plan), *_weight_techniques(compiled.weights)),
        bytes_by_kind=dict(kinds),
        stages=len(plan.stages),
        read_bytes=moved.read_bytes,
        written_bytes=moved.written_bytes,
    )


def repeated_macs(plan: ExecutionPlan) -> int:
    """Multiply-accumulates beyond those of the layers, as blocks compute rows again instead of keeping them."""
    blocks = [step.node for step in plan.steps() if isinstance(step.node.op, Block)]
    return sum(node.op.repeated_macs(node.input_types) for node in blocks if isinstance(node.op, Block))


def _weight_techniques(weights: Weights) -> tuple[str, ...]:
    if weights.is_warm:
        return ("weights copied to memory",)
    count = len(weights.packed_streams)
    return (f"{count} compressed block{'' if count == 1 else 's'} of weights",) if count else ()


def bytes_in_use(plan: ExecutionPlan) -> list[int]:
    """Bytes of live buffers in fast memory during each stream, overlaps counted once."""
    count = sum(len(stage.streams) for stage in plan.stages)
    fast = {region.name for region in plan.regions if region.is_fast}
    held = [b for b in plan.buffers if b.region in fast]
    loads = [sum(b.size_bytes for b in held if b.birth <= now <= b.death) for now in range(count)]
    for overlap in plan.overlaps:
        if plan.buffers[overlap.lower].region not in fast:
            continue
        lower, upper = plan.buffers[overlap.lower], plan.buffers[overlap.upper]
        shared = min(lower.size_bytes, upper.size_bytes, max(0, lower.size_bytes - overlap.distance))
        for now in range(max(lower.birth, upper.birth), min(lower.death, upper.death) + 1):
            loads[now] -= shared
    return loads


def techniques(plan: ExecutionPlan) -> tuple[str, ...]:
    """Names of what the plan does to fit, `layer by layer` if it does nothing."""
    found = []
    if any(view.is_ring for view in plan.views.values()):
        found.append("row streaming")
    if plan.overlaps:
        found.append("partial overlap")
    blocks = [step.node.op for step in plan.steps() if isinstance(step.node.op, Block)]
    if any(block.expand is not None and block.keeps_lines for block in blocks):
        found.append("line buffers")
    if any(block.expand is None for block in blocks):
        found.append("strips")
    if any(block.expand is not None and not block.keeps_lines for block in blocks):
        found.append("recomputed rows")
    if any(isinstance(step.node.op, DenseToRows | DenseOfRows) for step in plan.steps()):
        found.append("channel split")
    if len(plan.memories) < len(plan.regions):
        found.append("input or output by rows")
    if any(not region.is_fast for region in plan.memories):
        found.append(f"slow memory in {len(plan.stages)} stage{'s' if len(plan.stages) > 1 else ''}")
    if any(b.kind is BufferKind.STATE for b in plan.buffers):
        found.append("persistent state")
    return tuple(found) or ("layer by layer",)
