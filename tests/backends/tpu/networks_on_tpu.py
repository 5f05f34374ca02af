"""What the TPU's tests share: graphs, programs at every level, and the networks beside the checkout."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from networks import Network, networks
from trivet import driver
from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.lower import lower
from trivet.backends.tpu.machine import Machine, reference
from trivet.backends.tpu.target import TILE_PASSES
from trivet.frontends.tiny.convert import parse
from trivet.ir.graph import Graph
from trivet.ir.op import Array

CHECKOUT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((CHECKOUT / "examples" / "tiny").glob("*.tiny"))

NETWORKS = {
    "ad01": "tiny__ad01_int8",
    "kws": "tiny__kws_ref_model",
    "resnet8": "tiny__pretrainedResnet_quant",
    "vww": "tiny__vww_96_int8",
}


def network(name: str) -> Network:
    """One of the four networks by its short name; the `shared` fixture has made sure that they are there."""
    return next(n for n in networks("tflite") if n.name == NETWORKS[name])


def legal(graph: Graph, level: int = 1) -> Graph:
    """A graph that the TPU runs, through its own pipeline.

    Raises: CompileError.
    """
    settings = driver.Settings(level=level, target="tpu")
    driver.optimize(graph, settings, legalize=driver.legalization(settings))
    return graph


def tiny(text: str, level: int = 1) -> Graph:
    return legal(parse(text), level)


def optimized(program: Program, *without: str) -> Program:
    """Through every tile pass but those named."""
    for pass_ in TILE_PASSES:
        if pass_.name not in without:
            program = pass_.run(program, Counter()) or program
    return program


def compiled(graph: Graph, array: int, level: int, machine: Machine | None = None) -> Program:
    """A legal graph as a program."""
    program = lower(graph, machine or reference(array))
    return optimized(program) if level else program


@cache
def compiled_network(name: str, array: int, level: int = 1) -> Program:
    return compiled(legal(driver.load(network(name).path).graph), array, level)


def random_inputs(graph: Graph, seed: int = 1) -> list[Array]:
    """Over the whole range of 8-bit inputs, small integers for i32, normal floats."""
    random = np.random.default_rng(seed)
    arrays = []
    for value in graph.inputs:
        dtype = value.type.dtype
        if dtype.is_float:
            arrays.append((8 * random.standard_normal(value.type.shape)).astype(np.float32))
            continue
        lo, hi = (dtype.min, dtype.max) if dtype.bits == 8 else (-1000, 1000)
        arrays.append(random.integers(lo, hi, value.type.shape, endpoint=True).astype(dtype.numpy))
    return arrays
