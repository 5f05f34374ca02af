"""What a run costs, for people and as figures."""

from __future__ import annotations

from collections.abc import Mapping

from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.timing import CAUSES, LayerTime, Timing


def summary(program: Program, timing: Timing) -> str:
    """A table of layers, then the totals."""
    array = program.machine.array
    head = f"{'cycles':>9} {'roofline':>9} {'bound by':12} {'util':>6} {'stalls':>8}  layer"
    lines = [head, *(_line(layer, array) for layer in timing.layers)]
    total = totals(program, timing)
    stalls = ", ".join(f"{sum(layer.stalls[cause] for layer in timing.layers):,} for {cause}" for cause in CAUSES)
    lines += [
        f"{timing.cycles:,} cycles on a {array} x {array} array, {total['utilization']:.1%} of it in use; "
        f"waits: {stalls}",
        f"bytes moved: activations {total['activation_read_bytes']:,} read, {total['activation_written_bytes']:,} "
        f"written; weights {total['weight_bytes']:,}; parameters {total['parameter_bytes']:,}",
    ]
    return "\n".join(lines)


def _line(layer: LayerTime, array: int) -> str:
    used = f"{layer.utilization(array):6.1%}" if layer.macs else "     -"
    stalled = sum(layer.stalls.values())
    return f"{layer.cycles:9,} {layer.roofline:9,} {layer.bound:12} {used} {stalled:8,}  {layer.name[-60:]}"


BYTES = ("activation_read_bytes", "activation_written_bytes", "weight_bytes", "parameter_bytes")


def totals(program: Program, timing: Timing) -> dict[str, float]:
    """Sums over all layers."""
    array = program.machine.array
    macs = sum(layer.macs for layer in timing.layers)
    found: dict[str, float] = {"macs": macs, "utilization": macs / (array * array * max(timing.cycles, 1))}
    return found | {name: sum(getattr(layer, name) for layer in timing.layers) for name in BYTES}


def figures(program: Program, timing: Timing) -> Mapping[str, object]:
    """Everything as JSON: totals, and one object a layer."""
    machine = program.machine
    layers = [
        {
            "name": layer.name,
            "kind": layer.kind,
            "cycles": layer.cycles,
            "roofline": layer.roofline,
            "bound": layer.bound,
            "macs": layer.macs,
            "utilization": round(layer.utilization(machine.array), 4),
            "passes": layer.passes,
            "stalls": layer.stalls,
            **{name: getattr(layer, name) for name in BYTES},
        }
        for layer in timing.layers
    ]
    return {
        "array": machine.array,
        "cycles": timing.cycles,
        "instructions": sum(layer.passes or 1 for layer in timing.layers),
        "high_water_bytes": program.used_bytes,
        **totals(program, timing),
        "layers": layers,
    }
