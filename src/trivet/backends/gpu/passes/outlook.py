"""What the last passes of -O2 will make of a kernel: how a pass finds out which of several forms is the best."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from trivet.backends.gpu.emit import compile_kernel, estimated_cycles, estimated_instructions, estimated_loads
from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.passes.fold import Fold
from trivet.backends.gpu.passes.kernel_dce import KernelDce
from trivet.backends.gpu.passes.sink import Sink
from trivet.backends.gpu.passes.unroll import Unroll
from trivet.core.record import dataclass
from trivet.errors import DoesNotFit
from trivet.passes.manager import FAULTS


@dataclass(frozen=True, slots=True)
class Outlook:
    """Estimates for all launches of a kernel, if every branch were executed."""

    cycles: float
    instructions: float
    loads: float
    spilled: int


HOPELESS = Outlook(float("inf"), float("inf"), float("inf"), 0)


@lru_cache(maxsize=256)
def outlook(kernel: Kernel, machine: Machine) -> Outlook:
    """After unrolling, folding and dead code; hopeless where registers or shared memory are too small.

    A pass that fails makes it hopeless as well: it fails again in its own stage, where that belongs.
    """
    ignored: Counter[str] = Counter()
    try:
        for later in (Unroll(), Fold(), KernelDce(), Sink()):
            kernel = later.run(kernel, machine, ignored)
        made = compile_kernel(kernel, machine, prune=False)
    except (DoesNotFit, *FAULTS):
        return HOPELESS
    if made.shared_words > machine.shared_words:
        return HOPELESS
    cycles, instructions = estimated_cycles(made, machine.model), estimated_instructions(made)
    return Outlook(cycles, instructions, estimated_loads(made), made.allocation.slots)
