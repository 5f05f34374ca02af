"""What the machine does not take. Each rule's docstring is what the user reads in the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.memplan import conservative_words
from trivet.backends.gpu.recipe import RECIPES
from trivet.core.record import dataclass
from trivet.errors import CompileError, DoesNotFit, Unsupported
from trivet.ir.graph import Graph, Value


@dataclass(frozen=True, slots=True)
class Limits:
    """The machine, and whether it has the extended instructions."""

    machine: Machine
    extended: bool


Rule = Callable[[Graph, Limits], Iterator[CompileError]]


def words_hold_integers(graph: Graph, limits: Limits) -> Iterator[CompileError]:
    """A word of memory holds one integer of up to 32 bits; there are no floats."""
    for value in _values(graph):
        dtype = value.type.dtype
        if not dtype.is_integer or dtype.bits > 32 or dtype.min < -(1 << 31) or dtype.max >= 1 << 31:
            yield Unsupported(f"{value.said}: the gpu's words hold no {value.type}", where=value.loc)


def no_states(graph: Graph, limits: Limits) -> Iterator[CompileError]:
    """A program keeps nothing from one run to the next."""
    for state in graph.states:
        yield Unsupported(f"%{state.read.name}: the gpu has no states", where=state.read.loc)


def operators_have_kernels(graph: Graph, limits: Limits) -> Iterator[CompileError]:
    """Every operator has a kernel; requantized ones have one on the extended machine."""
    for node in graph.nodes:
        if node.op.views_input:
            continue
        recipe = RECIPES.select(node)
        operands = ", ".join(map(str, node.input_types))
        if recipe is None:
            reason = RECIPES.refusal(type(node.op)) or f"the gpu has no kernel for ({operands})"
            yield Unsupported(f"{node.op.name}: {reason}", where=node.loc, hint="compile for --target plan")
        elif recipe.extended and not limits.extended:
            reason = f"({operands}) needs instructions that the public machine does not have"
            yield Unsupported(f"{node.op.name}: {reason}", where=node.loc, hint="give --isa extended")


def memory_suffices(graph: Graph, limits: Limits) -> Iterator[CompileError]:
    """All values together fit memory, whether or not some could share their words."""
    words = conservative_words(graph)
    if words > limits.machine.mem_words:
        yield DoesNotFit(
            f"the program's values have {words:,} words, the gpu's memory {limits.machine.mem_words:,}",
            where=graph.name,
            hint="describe a larger machine with --machine",
        )


RULES: tuple[Rule, ...] = (no_states, words_hold_integers, operators_have_kernels, memory_suffices)


def problems(graph: Graph, limits: Limits) -> list[CompileError]:
    """Everything that no rule lets pass; sizes are looked at only where all else is right."""
    found = [problem for rule in RULES[:-1] for problem in rule(graph, limits)]
    return found or list(memory_suffices(graph, limits))


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from graph.constants()
    for node in graph.nodes:
        yield from node.outputs
