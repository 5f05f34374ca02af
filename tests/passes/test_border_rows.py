"""Inputs and outputs that go by rows, in the graph."""

from __future__ import annotations

import numpy as np
import pytest

from int8_networks import Builder, expected, random_inputs
from trivet.errors import Unsupported
from trivet.ops.border import Receive, Send
from trivet.passes.border_rows import BorderRows


def test_every_reader_reads_what_was_received() -> None:
    b = Builder()
    x = b.input(1, 6, 4, 4)
    graph = b.finish(b.add(b.conv(x, 4), x))
    inputs = random_inputs(graph)
    before = expected(graph, inputs)
    assert BorderRows(inputs=True).run(graph)
    assert [type(use.node.op) for use in graph.inputs[0].uses] == [Receive]
    assert not BorderRows(inputs=True).run(graph)
    for got, want in zip(expected(graph, inputs), before, strict=True):
        assert np.array_equal(got, want)


def test_an_output_is_sent_under_its_own_name() -> None:
    b = Builder()
    graph = b.finish(b.conv(b.input(1, 6, 4, 4), 4))
    name = graph.outputs[0].name
    assert BorderRows(outputs=True).run(graph)
    sent = graph.outputs[0]
    assert sent.name == name
    assert sent.producer is not None and isinstance(sent.producer.op, Send)
    assert not BorderRows(outputs=True).run(graph)


def test_vectors_of_dense_layers_go_in_chunks() -> None:
    b = Builder()
    graph = b.finish(b.dense(b.dense(b.input(1, 40), 12), 20))
    inputs = random_inputs(graph)
    before = expected(graph, inputs)
    assert BorderRows(True, True).run(graph)
    assert [n.op for n in graph.nodes if isinstance(n.op, Receive | Send)] == [Receive(0, 5), Send(0, 5)]
    assert (graph.inputs[0].type.shape, graph.outputs[0].type.shape) == ((1, 40), (1, 20))
    assert not BorderRows(True, True).run(graph)
    for got, want in zip(expected(graph, inputs), before, strict=True):
        assert np.array_equal(got, want)


def test_vectors_that_others_take_or_give_stay_whole() -> None:
    b = Builder()
    graph = b.finish(b.clamp(b.dense(b.clamp(b.input(1, 40)), 20)))
    for sides in ((True, False), (False, True)):
        with pytest.raises(Unsupported, match="or a vector of a dense layer"):
            BorderRows(*sides).run(graph)


def test_what_has_one_row_is_refused() -> None:
    b = Builder()
    graph = b.finish(b.dense(b.reshape(b.input(1, 1, 1, 64), 1, 64), 10))
    with pytest.raises(Unsupported, match="no input is one image of several rows"):
        BorderRows(inputs=True).run(graph)
    with pytest.raises(Unsupported, match="no output is one image of several rows"):
        BorderRows(outputs=True).run(graph)
