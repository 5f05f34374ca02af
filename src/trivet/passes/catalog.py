"""The levels' pipelines, the names of all passes, and pipelines written as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trivet.core.interval import Interval
from trivet.core.late import late
from trivet.core.numerics import Overflow
from trivet.ir.graph import Graph
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul
from trivet.passes.base import Pass
from trivet.passes.canonicalize import Canonicalize
from trivet.passes.const_fold import ConstFold
from trivet.passes.cse import Cse
from trivet.passes.dce import Dce
from trivet.passes.fuse import Fuse
from trivet.passes.manager import Fixpoint, Pipeline
from trivet.passes.pipelines import normalize
from trivet.passes.range_check import RangeCheck
from trivet.passes.shape_infer import ShapeInfer

if TYPE_CHECKING:
    import difflib
else:
    difflib = late("difflib")

LEVELS = (0, 1, 2)

ADDED: list[tuple[Pass, str]] = []
"""Passes of extensions, each with the name of the one after which it runs."""

OPTIMIZE = Fixpoint((Canonicalize(), ConstFold(), Cse(), Dce()))


class UnknownPass(Exception):
    """A pipeline text that names no pass, or is no pipeline."""


def graph_pipeline(level: int, i32: Interval | None = None) -> Pipeline:
    """What runs on every graph after normalization. Level 2 adds passes in backends, none here."""
    check = RangeCheck(i32)
    return (ShapeInfer(), check) if level == 0 else (ShapeInfer(), OPTIMIZE, Fuse(), check)


def whole_pipeline(graph: Graph, level: int, i32: Interval | None = None, ports: bool = True) -> Pipeline:
    """Normalization where the graph needs it, then the level's pipeline; `ports` as `normalize` takes it."""
    needed = () if is_exact_program(graph) else normalize(ports)
    return with_added((*needed, *graph_pipeline(level, i32)))


def with_added(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the passes of extensions; where the pass that they follow does not run, they do not either."""
    for pass_, after in ADDED:
        places = [i for i, element in enumerate(pipeline) if any(p.name == after for p in flat((element,)))]
        if places:
            pipeline = (*pipeline[: places[-1] + 1], pass_, *pipeline[places[-1] + 1 :])
    return pipeline


def is_exact_program(graph: Graph) -> bool:
    """True iff the graph is an integer program as `.tiny` writes them, which is canonical as it stands."""
    return all(_is_exact(node.op) for node in graph.nodes)


def _is_exact(op: object) -> bool:
    return isinstance(op, MatMul | Relu) or (isinstance(op, Add) and op.overflow is Overflow.EXACT)


def all_passes(i32: Interval | None = None, ports: bool = True) -> dict[str, Pass]:
    """Every pass by its name, in order of first use; `ports` as `normalize` takes it."""
    found: dict[str, Pass] = {}
    for level in LEVELS:
        for pass_ in flat((*normalize(ports), *graph_pipeline(level, i32))):
            found.setdefault(pass_.name, pass_)
    return found | {pass_.name: pass_ for pass_, _ in ADDED}


def flat(pipeline: Pipeline) -> Iterator[Pass]:
    """The passes of a pipeline, those of groups once."""
    for element in pipeline:
        yield from element.passes if isinstance(element, Fixpoint) else (element,)


def parse_pipeline(text: str, known: Mapping[str, Pass] | None = None) -> Pipeline:
    """`a,b,fixpoint(c,d)` as a pipeline of `known` passes (None: all of `all_passes`).

    Raises: UnknownPass.
    """
    passes = all_passes() if known is None else known
    elements: list[Pass | Fixpoint] = []
    for part in re.split(r",(?![^()]*\))", text):
        group = re.fullmatch(r"\s*fixpoint\s*\(([^()]*)\)\s*", part)
        if group is not None:
            elements.append(Fixpoint(tuple(_named(name, passes) for name in group[1].split(","))))
        elif "(" in part or ")" in part:
            raise UnknownPass(f"'{part.strip()}' is no pass; groups are written fixpoint(a,b)")
        else:
            elements.append(_named(part, passes))
    return tuple(elements)


def _named(text: str, known: Mapping[str, Pass]) -> Pass:
    name = text.strip()
    if not name:
        raise UnknownPass("a pass has no name; pipelines are written a,b,fixpoint(c,d)")
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        raise UnknownPass(
            f"unknown pass '{name}'" + (f", did you mean '{close[0]}'?" if close else f"; known: {', '.join(known)}")
        )
    return known[name]
