"""Which code runs which operator on a target."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

from trivet.ir.graph import Node
from trivet.ir.op import Op

CodeT = TypeVar("CodeT")
Kernel = Callable[[Node], CodeT | None]


class NoKernel(Exception):
    """A kernel would run a node but for one thing: which, and a way out. Raised instead of giving None."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class KernelTable(Generic[CodeT]):
    """Kernels by operator class, in order of priority; one that does not apply gives None, or says why as NoKernel.

    `families` declares the modules that register kernels, first come first, each with the operators that it has kernels
    for. A family is imported when one of its operators is met, so that a compilation pays for no other. Within a family
    the order of registration counts; a fallback takes what the kernels of all families leave.
    """

    def __init__(self, name: str, families: Mapping[str, Sequence[type[Op]]] | None = None) -> None:
        self.name = name
        self._order = {module: index for index, module in enumerate(families or {})}
        self._families: dict[type[Op], list[str]] = {}
        self._kernels: dict[type[Op], list[tuple[tuple[bool, int], Kernel[CodeT]]]] = {}
        self._refusals: dict[type[Op], str] = {}
        for module, ops in (families or {}).items():
            for op in ops:
                self._families.setdefault(op, []).append(module)

    def kernel(self, *ops: type[Op], fallback: bool = False) -> Callable[[Kernel[CodeT]], Kernel[CodeT]]:
        """Decorator: the function makes the code for a node of one of these classes, or says None."""

        def register(function: Kernel[CodeT]) -> Kernel[CodeT]:
            rank = (fallback, self._order.get(function.__module__, 0))
            for op in ops:
                kernels = self._kernels.setdefault(op, [])
                kernels.append((rank, function))
                kernels.sort(key=itemgetter(0))
            return function

        return register

    def refuse(self, op: type[Op], reason: str) -> None:
        """State that the target does not run `op`, and why."""
        self._refusals[op] = reason

    def candidates(self, op: type[Op]) -> tuple[Kernel[CodeT], ...]:
        """Those kernels in order of priority, fallbacks last."""
        for module in self._families.pop(op, ()):
            importlib.import_module(module)
        return tuple(kernel for _, kernel in self._kernels.get(op, ()))

    def refusal(self, op: type[Op]) -> str | None:
        return self._refusals.get(op)

    def select(self, node: Node) -> CodeT | None:
        """The code of the first kernel that applies, or None."""
        try:
            return self.select_or_say(node)
        except NoKernel:
            return None

    def select_or_say(self, node: Node) -> CodeT | None:
        """The same.

        Raises: NoKernel, the first that a kernel raised, where none applies.
        """
        reason = None
        for candidate in self.candidates(type(node.op)):
            try:
                code = candidate(node)
            except NoKernel as said:
                reason = reason or said
                continue
            if code is not None:
                return code
        if reason is not None:
            raise reason
        return None
