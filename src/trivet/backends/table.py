"""Which code runs which operator on a target."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

from trivet.core.record import dataclass
from trivet.ir.graph import Node
from trivet.ir.op import Op

CodeT = TypeVar("CodeT")
Kernel = Callable[[Node], CodeT | None]

NO_FEATURES: frozenset[str] = frozenset()
"""Of a target that runs portable kernels only."""


class NoKernel(Exception):
    """A kernel would run a node but for one thing: which, and a way out. Raised instead of giving None."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Rejection:
    """A candidate that does not run a node, or a family of them that the target does not, and why."""

    candidate: str
    reason: str


NOT_APPLICABLE = "takes no such node"
"""The reason of a candidate that gives none."""


@dataclass(frozen=True)
class Decision(Generic[CodeT]):
    """What was found for a node: its code, None where nothing runs it, and what was rejected before that.

    `refusal` is the first reason that a kernel raised, one that runs everywhere before others; without any kernel that
    applies, it is why there is none.
    """

    code: CodeT | None
    rejected: tuple[Rejection, ...]
    refusal: NoKernel | None


@dataclass(frozen=True)
class _Candidate(Generic[CodeT]):
    rank: tuple[bool, int]
    make: Kernel[CodeT]
    requires: frozenset[str]

    @property
    def name(self) -> str:
        return self.make.__name__


class KernelTable(Generic[CodeT]):
    """Kernels by operator class, in order of priority; one that does not apply gives None, or says why as NoKernel.

    `families` declares the modules that register kernels, first come first, each with the operators that it has kernels
    for. A family is imported when one of its operators is met, so that a compilation pays for no other. Within a family
    the order of registration counts; a fallback takes what the kernels of all families leave.

    A kernel may require features of the target, such as an instruction set extension. `requires` states those that all
    kernels of a family require: without them the family is not even imported.
    """

    def __init__(
        self,
        name: str,
        families: Mapping[str, Sequence[type[Op]]] | None = None,
        requires: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.name = name
        self._order = {module: index for index, module in enumerate(families or {})}
        self._requires = dict(requires or {})
        self._families: dict[type[Op], list[str]] = {}
        self._imported: set[str] = set()
        self._kernels: dict[type[Op], list[_Candidate[CodeT]]] = {}
        self._refusals: dict[type[Op], str] = {}
        for module, ops in (families or {}).items():
            for op in ops:
                self._families.setdefault(op, []).append(module)

    def kernel(
        self, *ops: type[Op], fallback: bool = False, requires: Collection[str] = ()
    ) -> Callable[[Kernel[CodeT]], Kernel[CodeT]]:
        """Decorator: the function makes the code for a node of one of these classes, or says None.

        It is asked only for targets that have all features in `requires`.
        """

        def register(function: Kernel[CodeT]) -> Kernel[CodeT]:
            needed = frozenset(requires)
            assert self._requires.get(function.__module__, frozenset()) <= needed, "a family states what all require"
            rank = (fallback, self._order.get(function.__module__, 0))
            for op in ops:
                kernels = self._kernels.setdefault(op, [])
                kernels.append(_Candidate(rank, function, needed))
                kernels.sort(key=attrgetter("rank"))
            return function

        return register

    def refuse(self, op: type[Op], reason: str) -> None:
        """State that the target does not run `op`, and why."""
        self._refusals[op] = reason

    def candidates(self, op: type[Op]) -> tuple[Kernel[CodeT], ...]:
        """All kernels of an operator in order of priority, fallbacks last, whatever they require."""
        return tuple(candidate.make for candidate in self._candidates(op, None))

    def requirements(self, op: type[Op]) -> dict[str, frozenset[str]]:
        """The features that each kernel of an operator requires, by its name."""
        return {candidate.name: candidate.requires for candidate in self._candidates(op, None)}

    def refusal(self, op: type[Op]) -> str | None:
        return self._refusals.get(op)

    def select(self, node: Node, features: frozenset[str] = NO_FEATURES) -> CodeT | None:
        """The code of the first kernel that applies, or None."""
        return self.decide(node, features).code

    def select_or_say(self, node: Node, features: frozenset[str] = NO_FEATURES) -> CodeT | None:
        """The same.

        Raises: NoKernel, the first that a kernel raised, where none applies.
        """
        decision = self.decide(node, features)
        if decision.code is None and decision.refusal is not None:
            raise decision.refusal
        return decision.code

    def decide(self, node: Node, features: frozenset[str] = NO_FEATURES) -> Decision[CodeT]:
        """The first kernel that applies on a target with these features, and every one that was rejected before it."""
        op = type(node.op)
        rejected = [
            Rejection(module.rpartition(".")[2], _lacking(self._requires[module] - features))
            for module in self._families.get(op, ())
            if not self._has_features(module, features)
        ]
        refusal = special = None
        for candidate in self._candidates(op, features):
            reason = NOT_APPLICABLE
            if not candidate.requires <= features:
                reason = _lacking(candidate.requires - features)
            else:
                try:
                    code = candidate.make(node)
                except NoKernel as said:
                    reason = said.reason
                    if candidate.requires:
                        special = special or said
                    else:
                        refusal = refusal or said
                else:
                    if code is not None:
                        return Decision(code, tuple(rejected), refusal or special)
            rejected.append(Rejection(candidate.name, reason))
        return Decision(None, tuple(rejected), refusal or special or _only_elsewhere(rejected))

    def _has_features(self, module: str, features: frozenset[str]) -> bool:
        return self._requires.get(module, NO_FEATURES) <= features

    def _candidates(self, op: type[Op], features: frozenset[str] | None) -> list[_Candidate[CodeT]]:
        """Those of all families, or of those that the features allow, which are imported first."""
        for module in self._families.get(op, ()):
            if module not in self._imported and (features is None or self._has_features(module, features)):
                importlib.import_module(module)
                self._imported.add(module)
        kernels = self._kernels.get(op, [])
        return [k for k in kernels if features is None or self._has_features(k.make.__module__, features)]


def _lacking(features: frozenset[str]) -> str:
    return f"needs {' and '.join(sorted(features))}, which the target lacks"


def _only_elsewhere(rejected: Sequence[Rejection]) -> NoKernel | None:
    """Why no kernel runs a node, where some would on another target."""
    lacking = [rejection for rejection in rejected if rejection.reason.startswith("needs ")]
    if not lacking:
        return None
    names = ", ".join(f"{rejection.candidate} {rejection.reason}" for rejection in lacking)
    return NoKernel(
        f"no kernel runs it on this target: {names}", "choose a --target that has it, or leave out --kernels portable"
    )
