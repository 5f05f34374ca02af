"""From a legal graph to programs: which kernel passes run at which level, and what is kept of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from trivet.backends.gpu.artifact import EmittedProgram, emit
from trivet.backends.gpu.emit import compile_kernel, estimated_cycles, estimated_instructions
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.passes.coarsen import Coarsen
from trivet.backends.gpu.passes.fold import Fold
from trivet.backends.gpu.passes.kernel_dce import KernelDce
from trivet.backends.gpu.passes.kernel_pass import KernelPass
from trivet.backends.gpu.passes.licm import Licm
from trivet.backends.gpu.passes.shared_tile import SharedTile
from trivet.backends.gpu.passes.sink import Sink
from trivet.backends.gpu.passes.strength_reduce import StrengthReduce
from trivet.backends.gpu.passes.unroll import Unroll
from trivet.backends.gpu.program import KernelProgram, lower
from trivet.ir.graph import Graph
from trivet.passes.stages import StageManager

LOWER, KEEP, EMIT = "lower-to-kernel", "keep-cheapest", "regalloc-emit"

MOVING: tuple[KernelPass, ...] = (Licm(), StrengthReduce())
"""What makes loops cheap; where all of them are unrolled anyway, code may be better without."""

LEVELS: tuple[tuple[KernelPass, ...], ...] = (
    (),
    (*MOVING, KernelDce()),
    (*MOVING, SharedTile(), Coarsen(), Unroll(), Fold(), KernelDce(), Sink()),
)
"""The kernel passes of each level, in order."""

STAGES = (LOWER, *dict.fromkeys(p.name for level in LEVELS for p in level), KEEP, EMIT)


def compile_graph(graph: Graph, machine: Machine, level: int, stages: StageManager) -> EmittedProgram:
    """The programs of a legal graph, stage by stage.

    Raises: CompileError, PassVerifyError.
    """
    lowered = stages.lower(LOWER, lambda: lower(graph, machine))
    program = _run(lowered, LEVELS[level], machine, stages, True)

    def keep(last: KernelProgram, fired: Counter[str]) -> KernelProgram | None:
        """The other forms are made only now: what is wrong with a pass shows in its own stage."""
        lower_levels = [lowered] + [_run(lowered, passes, machine, stages) for passes in LEVELS[1:level]]
        others = [_run(lowered, LEVELS[level][len(MOVING) :], machine, stages)] if level > 1 else []
        return _cheapest(last, lower_levels, others, machine, fired)

    if level:
        program = stages.rewrite(KEEP, program, keep)
    return stages.lower(EMIT, lambda: _emit(program, graph, machine), program)


def _run(
    program: KernelProgram, passes: Sequence[KernelPass], machine: Machine, stages: StageManager, shown: bool = False
) -> KernelProgram:
    """Passes one after the other, watched if they are `shown`; disabled ones are left out."""
    for kernel_pass in passes:
        if shown:
            program = stages.rewrite(kernel_pass.name, program, partial(_apply, kernel_pass, machine))
        elif not stages.is_disabled(kernel_pass.name):
            program = _apply(kernel_pass, machine, program, Counter()) or program
    return program


def _apply(
    kernel_pass: KernelPass, machine: Machine, program: KernelProgram, fired: Counter[str]
) -> KernelProgram | None:
    return program.map(lambda kernel: kernel_pass.run(kernel, machine, fired))


def _cheapest(
    program: KernelProgram,
    lower_levels: Sequence[KernelProgram],
    others: Sequence[KernelProgram],
    machine: Machine,
    fired: Counter[str],
) -> KernelProgram | None:
    """Each kernel in the form that costs the fewest cycles, its own if there are several.

    `others` are in the running only where they execute no more instructions.
    """
    kernels = []
    for index, kernel in enumerate(program.kernels):
        most = estimated_instructions(compile_kernel(kernel, machine))
        forms = [kernel, *(form.kernels[index] for form in reversed(lower_levels))]
        made = [(form, compile_kernel(form, machine)) for form in (*forms, *(o.kernels[index] for o in others))]
        fit = [pair for pair in made if pair[0] in forms or estimated_instructions(pair[1]) <= most]
        best = min(fit, key=lambda pair: estimated_cycles(pair[1], machine.model))[0]
        fired["kept"] += best is not kernel
        kernels.append(best)
    return replace(program, kernels=tuple(kernels)) if fired["kept"] else None


def _emit(program: KernelProgram, graph: Graph, machine: Machine) -> EmittedProgram:
    compiled = [compile_kernel(kernel, machine) for kernel in program.kernels]
    return emit(compiled, graph, program.memory, machine)
