"""What stands beside the C of a module for machines: decisions, memory, and how it was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from trivet.backends.module.header import KERNELS_VERSION
from trivet.backends.module.options import ModuleOptions
from trivet.backends.plan.format import VERSION
from trivet.backends.plan.reader import PlanInfo, PortInfo
from trivet.backends.plan.selection import Selection
from trivet.core.version import __version__
from trivet.ir.graph import Node
from trivet.planning.plan import ExecutionPlan


def plan_record(info: PlanInfo, plan: ExecutionPlan, selection: Selection, options: ModuleOptions, name: str) -> bytes:
    """`plan.json`: interface, layers, and which kernel was chosen for each operator before which others."""
    return _json(
        {
            "name": name,
            "prefix": options.prefix,
            "style": options.style.value,
            "schedule": options.schedule.value,
            "memory": options.memory.value,
            "inputs": [_port(port) for port in info.inputs],
            "outputs": [_port(port) for port in info.outputs],
            "regions": [{"name": r.name, "bytes": r.size_bytes, "alignment": r.alignment} for r in info.regions],
            "layers": [{"name": step.name, "kernel": step.kernel, "firings": step.firings} for step in info.steps],
            "features": sorted(selection.features),
            "decisions": [_decision(step.node, selection) for step in plan.steps()],
        }
    )


def _port(port: PortInfo) -> dict[str, object]:
    return {
        "name": port.name,
        "dtype": port.tensor.dtype.name,
        "shape": list(port.tensor.shape),
        "scale": port.scale,
        "zero_point": port.zero_point,
        "by_rows": port.by_rows,
        "permutation": None if port.perm is None else list(port.perm),
    }


def _decision(node: Node, selection: Selection) -> dict[str, object]:
    """The kernel of a node; `rejected` are candidates of higher priority, and why they do not run it."""
    rejected = [{"candidate": r.candidate, "reason": r.reason} for r in selection.rejected(node)]
    value = node.outputs[0].name if node.outputs else None
    return {"value": value, "operator": node.op.name, "kernel": selection.call(node).kernel.name, "rejected": rejected}


def residency_record(plan: ExecutionPlan, info: PlanInfo, data: bytes) -> bytes:
    """`residency.json`: every buffer with its place, size and life, counted in streams; constants; hashes."""
    buffers: list[dict[str, object]] = [
        {
            "name": b.name,
            "kind": b.kind.value,
            "region": b.region,
            "offset": b.offset,
            "bytes": b.size_bytes,
            "alignment": b.alignment,
            "birth": b.birth,
            "death": b.death,
        }
        for b in plan.buffers
    ]
    regions = [
        {"name": r.name, "bytes": plan.region_bytes(r.name), "fast": r.is_fast, "limit": r.size_bytes}
        for r in plan.regions
    ]
    warm = None if info.warm_region is None else info.regions[info.warm_region]
    if warm is not None:
        regions.append({"name": warm.name, "bytes": warm.size_bytes, "fast": False, "limit": None})
    constants = {"bytes": len(info.constants), "copied_to": None if warm is None else warm.name}
    layout = json.dumps([buffers, regions], sort_keys=True).encode()
    hashes = {"plan_sha256": _sha256(data), "layout_sha256": _sha256(layout)}
    return _json({"regions": regions, "buffers": buffers, "constants": constants, **hashes})


def build_record(model_sha256: Mapping[str, str], configuration: Mapping[str, object]) -> bytes:
    """`build-record.json`: from what, how, and by which versions the module was made; nothing of when or where."""
    versions = {"trivet": __version__, "plan_format": VERSION, "kernels_interface": KERNELS_VERSION}
    return _json({"models": dict(model_sha256), "configuration": dict(configuration), "versions": versions})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=True) + "\n").encode()
