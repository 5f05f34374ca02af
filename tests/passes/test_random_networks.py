"""Normalization of random networks: every pass keeps what it promises, and the whole ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strategies.networks import random_network
from trivet.passes.manager import PassManager
from trivet.passes.pipelines import normalize
from trivet.passes.verify_each import VerifyEach


@given(st.data())
def test_float_networks(data: st.DataObject) -> None:
    PassManager([VerifyEach()]).run(random_network(data, quantized=False), normalize())


@given(st.data())
def test_quantized_networks(data: st.DataObject) -> None:
    PassManager([VerifyEach()]).run(random_network(data, quantized=True), normalize())


@given(st.data())
def test_a_second_normalization_finds_nothing_to_remove(data: st.DataObject) -> None:
    graph = random_network(data, quantized=True)
    PassManager().run(graph, normalize())
    before = len(graph.nodes)
    PassManager().run(graph, normalize())
    assert len(graph.nodes) == before
