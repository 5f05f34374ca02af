"""On which boards does a model fit, how, and how fast: `analyze --all-targets` as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from trivet import driver
from trivet.core.record import dataclass
from trivet.driver import Compiled, Settings
from trivet.errors import CompileError, DoesNotFit
from trivet.estimate import Estimate, estimate_on
from trivet.planning.options import Objective
from trivet.planning.plan import FAST
from trivet.planning.planner import plan as make_plan
from trivet.report import PlanReport, plan_report
from trivet.targets import Target, read_target, target_names


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model fits one target. `budgets` are bytes by kind of memory. `plan` is the quickest that fits, else the
    smallest there is; `reasons` say what is missing. `smallest_bytes` is the smallest fast memory that a plan for the
    target's kernels needs."""

    target: Target
    budgets: Mapping[str, int | None]
    plan: PlanReport
    smallest_bytes: int
    estimate: Estimate | None = None
    reasons: tuple[CompileError, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.reasons

    @property
    def milliseconds(self) -> float | None:
        """Of one run at one instruction a cycle, which cores with caches and slow flash do not reach."""
        if self.estimate is None or self.target.clock_hz is None:
            return None
        return round(self.estimate.instructions / self.target.clock_hz * 1e3, 3)

    def as_json(self) -> dict[str, object]:
        target = self.target
        return {
            "target": target.name,
            "cpu": target.cpu,
            "fits": self.fits,
            "techniques": list(self.plan.techniques),
            "fast_bytes": self.plan.fast_bytes,
            "fast_memory_bytes": self.budgets["fast"],
            "slow_bytes": self.plan.slow_bytes,
            "slow_memory_bytes": self.budgets["slow"],
            "flash_bytes": self.plan.flash_bytes,
            "flash_memory_bytes": self.budgets["flash"],
            "smallest_fast_bytes": self.smallest_bytes,
            "instructions": None if self.estimate is None else self.estimate.instructions,
            "assumed_kernels": [] if self.estimate is None else list(self.estimate.assumed),
            "milliseconds": self.milliseconds,
            "reasons": [str(reason) for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """A model on every target that has memories."""

    model: str
    macs: int
    fits: tuple[Fit, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "macs": self.macs,
            "notes": list(self.notes),
            "targets": [fit.as_json() for fit in self.fits],
        }


def survey(path: str | Path, settings: Settings) -> Survey:
    """Plan a model for every board, within its own memories; a budget of the settings goes before those of the boards.

    Raises: CompileError where the model cannot be compiled for any budget.
    """
    makers: dict[frozenset[str], _Maker] = {}
    fits = []
    for target in boards():
        features = frozenset(target.features)
        if features not in makers:
            makers[features] = _Maker(path, replace(settings, target=target.name))
        fits.append(makers[features].fit(target))
    first = next(iter(makers.values()))
    return Survey(str(path), first.quickest.report.macs, tuple(fits), first.loaded.notes)


def boards() -> Iterable[Target]:
    """Targets with fast memory, in alphabetical order."""
    return (target for name in target_names() if (target := read_target(name)).budget("fast") is not None)


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan as a file, and what it needs."""

    compiled: Compiled
    report: PlanReport


class _Maker:
    """Plans of one model for targets that have the same kernels; what several boards ask for is made once."""

    def __init__(self, path: str | Path, settings: Settings) -> None:
        self.settings = settings
        self.loaded = driver.load(path, settings)
        self._selection = driver.legal_graph(self.loaded.graph, settings)
        self.quickest = self._make(None, None, Objective.SPEED)
        self._smallest = self._make(None, None, Objective.MEMORY)
        self._tried: dict[tuple[int | None, int | None], _Made | DoesNotFit] = {}

    def fit(self, target: Target) -> Fit:
        budgets = self._budgets(target)
        made = self._within(budgets["fast"], budgets["slow"])
        reasons: list[CompileError] = []
        if isinstance(made, DoesNotFit):
            reasons.append(made)
            made = self._smallest
        try:
            driver.check_flash(made.compiled, budgets["flash"])
        except DoesNotFit as error:
            reasons.append(error)
        smallest = min(self._smallest.report.fast_bytes, self.quickest.report.fast_bytes)
        found = estimate_on(target.cpu, made.compiled.plan, self._selection)
        return Fit(target, budgets, made.report, smallest, found, tuple(reasons))

    def _budgets(self, target: Target) -> Mapping[str, int | None]:
        settings = self.settings
        given = {"fast": settings.fast_bytes, "slow": settings.slow_bytes, "flash": settings.flash_bytes}
        return {kind: target.budget(kind) if size is None else size for kind, size in given.items()}

    def _within(self, fast: int | None, slow: int | None) -> _Made | DoesNotFit:
        """The quickest plan within the memories; the slow one is used where the fast one alone is too small."""
        if _takes(self.quickest, fast):
            return self.quickest
        key = (fast, None if _takes(self._smallest, fast) else slow)
        if key not in self._tried:
            try:
                self._tried[key] = self._make(*key, self.settings.objective)
            except DoesNotFit as error:
                self._tried[key] = error
        return self._tried[key]

    def _make(self, fast: int | None, slow: int | None, objective: Objective) -> _Made:
        options = driver.plan_options(self.settings, objective)
        plan = make_plan(self.loaded.graph, fast, slow, self._selection, options)
        compiled = driver.write(self.loaded, plan, self._selection, self.settings)
        return _Made(compiled, plan_report(compiled))


def _takes(made: _Made, fast: int | None) -> bool:
    """True iff a plan without slow memory takes at most `fast` bytes."""
    return fast is None or made.compiled.plan.region_bytes(FAST) <= fast
