"""A graph as kernels on a memory plan: what every stage between lowering and emission looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.ir_interp import interpret
from trivet.backends.gpu.ir_text import print_kernel
from trivet.backends.gpu.ir_verify import violations
from trivet.backends.gpu.machine import Machine
from trivet.backends.gpu.memplan import MemoryPlan, initial_memory, plan_memory, recipes
from trivet.backends.gpu.recipe import Words
from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Array


@dataclass(frozen=True, slots=True)
class Interface:
    """The graph's inputs and outputs, whose buffers hold one element a word."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    def write(self, memory: Words, plan: MemoryPlan, arrays: Sequence[Array]) -> None:
        for value, array in zip(self.inputs, arrays, strict=True):
            buffer = plan.of(value)
            memory[buffer.address : buffer.address + buffer.words] = array.ravel()

    def read(self, memory: Words, plan: MemoryPlan) -> list[Array]:
        found: list[Array] = []
        for value in self.outputs:
            buffer = plan.of(value)
            words = memory[buffer.address : buffer.address + buffer.words]
            type_ = value.type
            assert words.size == 0 or (words.min() >= type_.dtype.min and words.max() <= type_.dtype.max), (
                f"{value.said}: a word is no {type_.dtype.name}"
            )
            found.append(words.astype(type_.dtype.numpy).reshape(type_.shape))
        return found


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """Kernels in order of execution."""

    kernels: tuple[Kernel, ...]
    memory: MemoryPlan
    interface: Interface

    def text(self) -> str:
        return "\n".join(print_kernel(kernel) for kernel in self.kernels)

    def violations(self) -> Iterable[str]:
        for kernel in self.kernels:
            yield from violations(kernel)

    def interpret(self, invocations: Sequence[Sequence[Array]]) -> list[list[Array]]:
        memory = initial_memory(self.memory)
        outputs = []
        for arrays in invocations:
            self.interface.write(memory, self.memory, arrays)
            for kernel in self.kernels:
                interpret(kernel, memory)
            outputs.append(self.interface.read(memory, self.memory))
        return outputs

    def map(self, rewrite: Callable[[Kernel], Kernel]) -> KernelProgram | None:
        """The program with every kernel rewritten; None if none changed."""
        kernels = tuple(rewrite(kernel) for kernel in self.kernels)
        changed = any(new is not old and new != old for new, old in zip(kernels, self.kernels, strict=True))
        return replace(self, kernels=kernels) if changed else None


def lower(graph: Graph, machine: Machine) -> KernelProgram:
    """One kernel for each operator, as its recipe writes it."""
    memory = plan_memory(graph)
    kernels = []
    for index, (node, recipe) in enumerate(recipes(graph)):
        name = f"k{index}_{node.op.name}"
        kernels.append(recipe.write(name, memory.addresses(node, recipe), machine))
    return KernelProgram(tuple(kernels), memory, Interface(tuple(graph.inputs), tuple(graph.outputs)))
