"""The Python reader: what the writer wrote, and `InvalidModel` for anything else, never another exception."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loader_cases import Case, base, cases
from patches import patched

from trivet.backends.plan import format as f
from trivet.backends.plan.reader import read, read_file
from trivet.backends.plan.writer import seal
from trivet.errors import InvalidModel


def test_it_reads_what_was_written() -> None:
    plan = read(base("stream"))
    assert [(t.name, t.dtype.name, t.shape, t.depth) for t in plan.tensors] == [
        ("x", "i8", (1, 9, 5, 3), 9),
        ("conv0", "i8", (1, 9, 5, 4), 3),
        ("conv1", "i8", (1, 5, 3, 4), 1),
        ("y", "i8", (1, 5, 3, 4), 5),
    ]
    assert [(s.name, s.kernel, s.inputs, s.outputs, s.firings) for s in plan.steps] == [
        ("conv0", "conv_s8", (0,), (1,), 9),
        ("conv1", "conv_s8", (1,), (2,), 5),
        ("y", "lookup_s8", (2,), (3,), 5),
    ]
    assert (plan.streams, plan.stages) == ((range(3),), (range(1),))
    assert [r.name for r in plan.regions] == ["sram"]
    assert [p.name for p in (*plan.inputs, *plan.outputs)] == ["x", "y"]


def test_a_ring_takes_its_depth_of_memory() -> None:
    assert [t.size_bytes for t in read(base("stream")).tensors] == [135, 60, 12, 60]


def harmless(data: bytes) -> None:
    try:
        read(data)
    except InvalidModel as error:
        assert str(error)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.title) for case in cases()])
def test_what_the_loader_refuses_does_no_harm(case: Case) -> None:
    harmless(case.data())


def test_every_length_and_every_damaged_byte_is_refused() -> None:
    data = base("layers")
    for size in range(len(data)):
        with pytest.raises(InvalidModel):
            read(data[:size])
    for byte in range(len(data)):
        with pytest.raises(InvalidModel):
            read(data[:byte] + bytes([data[byte] ^ 0x40]) + data[byte + 1 :])


@given(st.data())
def test_mutants_with_a_right_checksum_do_no_harm(data: st.DataObject) -> None:
    mutant = bytearray(base(data.draw(st.sampled_from(("layers", "states", "stream")))))
    words = st.tuples(st.integers(0, len(mutant) // 4 - 1), st.integers(0, 2**32 - 1) | st.integers(0, 300))
    for word, value in data.draw(st.lists(words, min_size=1, max_size=4)):
        mutant[4 * word : 4 * word + 4] = value.to_bytes(4, "little")
    harmless(seal(bytes(mutant)))


@given(st.binary(max_size=400))
def test_any_bytes_with_a_right_header_do_no_harm(body: bytes) -> None:
    data = f.MAGIC.to_bytes(4, "little") + body
    if len(data) >= f.HEADER.size_bytes:
        data = patched(data, ("header", 0, "version", f.VERSION), ("header", 0, "size_bytes", len(data)))
    harmless(data)


def test_a_file_that_is_absent_or_no_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"absent\.tgrs: cannot read the plan: No such file"):
        read_file(tmp_path / "absent.tgrs")
    (tmp_path / "text.tgrs").write_text("hello")
    with pytest.raises(InvalidModel, match=r"text\.tgrs: this is no \.tgrs plan"):
        read_file(tmp_path / "text.tgrs")
