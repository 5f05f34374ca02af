"""Which code runs which operator on a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Generic, TypeVar

from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.op import Op

CodeT = TypeVar("CodeT")
Kernel = Callable[[Node], CodeT | None]


@dataclass
class KernelTable(Generic[CodeT]):
    """Kernels by operator class. The order of registration is the priority; a kernel that gives None does not apply.

    Families register in no particular order, so a kernel that takes what those of other families leave is a fallback.
    """

    name: str
    _kernels: dict[type[Op], list[Kernel[CodeT]]] = field(default_factory=dict)
    _fallbacks: dict[type[Op], list[Kernel[CodeT]]] = field(default_factory=dict)
    _refusals: dict[type[Op], str] = field(default_factory=dict)

    def kernel(self, *ops: type[Op], fallback: bool = False) -> Callable[[Kernel[CodeT]], Kernel[CodeT]]:
        """Decorator: the function makes the code for a node of one of these classes, or says None."""
        table = self._fallbacks if fallback else self._kernels

        def register(function: Kernel[CodeT]) -> Kernel[CodeT]:
            for op in ops:
                table.setdefault(op, []).append(function)
            return function

        return register

    def refuse(self, op: type[Op], reason: str) -> None:
        """State that the target does not run `op`, and why."""
        self._refusals[op] = reason

    def candidates(self, op: type[Op]) -> tuple[Kernel[CodeT], ...]:
        """Those kernels in order of priority, fallbacks last."""
        return (*self._kernels.get(op, ()), *self._fallbacks.get(op, ()))

    def refusal(self, op: type[Op]) -> str | None:
        return self._refusals.get(op)

    def select(self, node: Node) -> CodeT | None:
        """The code of the first kernel that applies, or None."""
        for candidate in self.candidates(type(node.op)):
            code = candidate(node)
            if code is not None:
                return code
        return None
