"""The levels' pipelines, the names of all passes, and pipelines written as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from trivet.core.interval import Interval
from trivet.core.numerics import Overflow
from trivet.ir.graph import Graph
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul
from trivet.passes.base import Pass
from trivet.passes.canonicalize import Canonicalize
from trivet.passes.cse import Cse
from trivet.passes.dce import Dce
from trivet.passes.fold_constants import FoldConstants
from trivet.passes.fuse import Fuse
from trivet.passes.manager import Fixpoint, Pipeline
from trivet.passes.pipelines import normalize
from trivet.passes.range_check import RangeCheck
from trivet.passes.shape_infer import ShapeInfer

LEVELS = (0, 1, 2)

OPTIMIZE = Fixpoint((Canonicalize(), FoldConstants(), Cse(), Dce()))


class UnknownPass(Exception):
    """A pipeline text that names no pass, or is no pipeline."""


def graph_pipeline(level: int, i32: Interval | None = None) -> Pipeline:
    """What runs on every graph after normalization. Level 2 adds passes in backends, none here."""
    check = RangeCheck() if i32 is None else RangeCheck(i32)
    return (ShapeInfer(), check) if level == 0 else (ShapeInfer(), OPTIMIZE, Fuse(), check)


def whole_pipeline(graph: Graph, level: int, i32: Interval | None = None) -> Pipeline:
    """Normalization where the graph needs it, then the level's pipeline."""
    needed = () if is_exact_program(graph) else normalize()
    return (*needed, *graph_pipeline(level, i32))


def is_exact_program(graph: Graph) -> bool:
    """True iff the graph is an integer program as `.tiny` writes them, which is canonical as it stands."""
    return all(_is_exact(node.op) for node in graph.nodes)


def _is_exact(op: object) -> bool:
    return isinstance(op, MatMul | Relu) or (isinstance(op, Add) and op.overflow is Overflow.EXACT)


def all_passes() -> dict[str, Pass]:
    """Every pass by its name, in order of first use."""
    found: dict[str, Pass] = {}
    for level in LEVELS:
        for pass_ in _flat((*normalize(), *graph_pipeline(level))):
            found.setdefault(pass_.name, pass_)
    return found


def parse_pipeline(text: str) -> Pipeline:
    """`a,b,fixpoint(c,d)` as a pipeline.

    Raises: UnknownPass.
    """
    elements: list[Pass | Fixpoint] = []
    for part in re.findall(r"[^,()]+(?:\([^()]*\))?|[(),]{2,}", text):
        name, paren, inner = part.strip().partition("(")
        if not paren:
            elements.append(_named(name))
        elif name == "fixpoint" and inner.endswith(")") and inner != ")":
            elements.append(Fixpoint(tuple(_named(n.strip()) for n in inner[:-1].split(","))))
        else:
            raise UnknownPass(f"'{part}' is no pass; groups are written fixpoint(a,b)")
    if not elements:
        raise UnknownPass("the pipeline is empty")
    return tuple(elements)


def _named(name: str) -> Pass:
    known = all_passes()
    if name not in known:
        close = get_close_matches(name, known, 1)
        raise UnknownPass(f"unknown pass '{name}'" + (f", did you mean '{close[0]}'?" if close else ""))
    return known[name]


def _flat(pipeline: Pipeline) -> Iterator[Pass]:
    for element in pipeline:
        yield from element.passes if isinstance(element, Fixpoint) else (element,)
