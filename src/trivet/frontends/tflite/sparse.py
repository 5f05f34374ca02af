"""Sparse constants: a tree over the axes of a tensor, whose leaves are the stored elements."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.frontends.tflite.flatbuffer import Table
from trivet.ir.op import Array

_FORMS = {1: "i", 2: "H", 3: "B"}
"""Element forms of the index vectors by tag."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the tree: every node has `size` children, or those that its segment of `indices` names."""

    size: int
    segments: tuple[int, ...] | None
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sparsity:
    """Levels in the order of `axes`; those from the tensor's rank on run inside blocks along the axes `blocked`."""

    axes: tuple[int, ...]
    blocked: tuple[int, ...]
    levels: tuple[Level, ...]


def read_sparsity(table: Table) -> Sparsity:
    """The record of a SparsityParameters table.

    Raises: InvalidModel.
    """
    return Sparsity(table.integers(0), table.integers(1), tuple(_level(entry) for entry in table.tables(2)))


def _level(table: Table) -> Level:
    if table.integer(0, "b") == 0:
        return Level(table.integer(1, "i"), None, ())
    return Level(0, _numbers(table, 2), _numbers(table, 4))


def _numbers(table: Table, tag: int) -> tuple[int, ...]:
    """A union of index vectors: its tag, and the table behind it."""
    form, found = _FORMS.get(table.integer(tag, "B")), table.table(tag + 1)
    return () if form is None or found is None else found.integers(0, form)


def scatter(stored: Array, sparsity: Sparsity, shape: tuple[int, ...], name: str) -> Array:
    """The dense tensor of stored elements; all others are zero.

    Raises: InvalidModel.
    """
    rank = len(shape)
    block = _block(sparsity, rank, name)
    coordinates: list[Array] = []
    nodes = 1
    for level in sparsity.levels:
        parents, children = _expanded(level, nodes, math.prod(shape), name)
        coordinates = [c[parents] for c in coordinates]
        coordinates.append(children)
        nodes = len(children)
    if nodes != stored.size:
        raise InvalidModel(f"tensor '{name}' lists {nodes} elements and holds {stored.size}")
    place = [np.zeros(nodes, np.int64) for _ in shape]
    for axis, where in zip(sparsity.axes, coordinates, strict=True):
        if axis < rank:
            place[axis] = place[axis] + where * block[axis]
        else:
            target = sparsity.blocked[axis - rank]
            place[target] = place[target] + where
    if any(((p < 0) | (p >= size)).any() for p, size in zip(place, shape, strict=True)):
        raise InvalidModel(f"tensor '{name}' {list(shape)} lists elements outside of it")
    dense = np.zeros(shape, stored.dtype)
    dense[tuple(place)] = stored
    return dense


def _block(sparsity: Sparsity, rank: int, name: str) -> list[int]:
    """The extent of a block along every axis.

    Raises: InvalidModel.
    """
    axes, blocked = sparsity.axes, sparsity.blocked
    sound = sorted(axes) == list(range(rank + len(blocked))) and len(axes) == len(sparsity.levels)
    if not sound or not all(0 <= axis < rank for axis in blocked) or len(set(blocked)) != len(blocked):
        raise InvalidModel(f"tensor '{name}' is stored sparse along the axes {axes}, blocks along {blocked}")
    extents = [1] * rank
    for axis, level in zip(axes, sparsity.levels, strict=True):
        if axis >= rank:
            extents[blocked[axis - rank]] = level.size
    return extents


def _expanded(level: Level, nodes: int, limit: int, name: str) -> tuple[Array, Array]:
    """The parent and the coordinate of every child of `nodes` nodes; there are at most `limit` (the tensor's elements).

    Raises: InvalidModel.
    """
    if level.segments is None:
        if level.size < 1 or nodes * level.size > limit:
            raise InvalidModel(f"tensor '{name}' lists more than its {limit} elements")
        return np.repeat(np.arange(nodes), level.size), np.tile(np.arange(level.size), nodes)
    counts: npt.NDArray[np.int64] = np.diff(np.asarray(level.segments, np.int64)).astype(np.int64)
    sound = len(counts) == nodes and level.segments[0] == 0 and level.segments[-1] == len(level.indices)
    if not sound or (counts < 0).any():
        raise InvalidModel(f"tensor '{name}' has segments of indices that do not follow each other")
    return np.repeat(np.arange(nodes), counts), np.asarray(level.indices, np.int64)
