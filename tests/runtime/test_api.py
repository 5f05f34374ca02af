"""The C interface refuses wrong arguments, and does nothing before memory is bound."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
from loader_cases import base
from patches import STATUSES, patched

from trivet.backends.plan.host import aligned


class Port(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 128)]


@dataclass
class Opened:
    """A model and memory of its own; functions give the name of their status."""

    library: ctypes.CDLL
    data: bytes

    def __post_init__(self) -> None:
        self.plan = aligned(len(self.data), 16)
        self.plan[:] = np.frombuffer(self.data, np.uint8)
        self.memory = aligned(self.library.trivet_host_model_bytes(), 16)
        self.model = ctypes.c_void_p(self.memory.ctypes.data)
        assert self.call("open", self.address(self.plan), ctypes.c_size_t(len(self.data))) == "OK"
        self.arena = aligned(self.library.trivet_arena_bytes(self.model), 64)

    @staticmethod
    def address(array: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    def call(self, name: str, *arguments: object) -> str:
        return STATUSES[getattr(self.library, f"trivet_{name}")(self.model, *arguments)]

    def bind(self, extra: int = 0) -> str:
        size = ctypes.c_size_t(self.arena.size + extra)
        return self.call("bind_arena", self.address(self.arena), size)


@pytest.fixture
def opened(library: ctypes.CDLL) -> Opened:
    return Opened(library, base("layers"))


@pytest.fixture
def data() -> np.ndarray:
    return np.arange(72, dtype=np.uint8)


def test_opening_nothing_is_refused(library: ctypes.CDLL, opened: Opened) -> None:
    size = ctypes.c_size_t(opened.plan.size)
    assert STATUSES[library.trivet_open(None, Opened.address(opened.plan), size)] == "ERR_ARGUMENT"
    assert opened.call("open", None, size) == "ERR_ARGUMENT"


def test_less_than_a_header_is_not_read(opened: Opened) -> None:
    assert opened.call("open", Opened.address(opened.plan), ctypes.c_size_t(8)) == "ERR_TRUNCATED"


def test_a_plan_that_was_refused_cannot_be_bound(opened: Opened) -> None:
    assert opened.call("open", Opened.address(opened.plan), ctypes.c_size_t(8)) == "ERR_TRUNCATED"
    assert opened.bind() == "ERR_ARGUMENT"


def test_binding_needs_every_memory(library: ctypes.CDLL, opened: Opened) -> None:
    memory = (ctypes.c_size_t * 4)(opened.arena.ctypes.data, opened.arena.size, opened.arena.ctypes.data, 1)
    assert opened.call("bind", memory, 0) == "ERR_ARGUMENT"
    assert opened.call("bind", memory, 2) == "ERR_ARGUMENT"
    assert opened.call("bind", None, 1) == "ERR_ARGUMENT"
    assert STATUSES[library.trivet_bind(None, memory, 1)] == "ERR_ARGUMENT"
    assert opened.call("bind_arena", None, ctypes.c_size_t(1000)) == "ERR_ARGUMENT"


def test_the_arena_must_be_large_enough(opened: Opened) -> None:
    assert opened.bind(-1) == "ERR_MEMORY"
    assert opened.bind() == "OK"


def test_the_arena_must_be_aligned_as_the_plan_says(library: ctypes.CDLL) -> None:
    opened = Opened(library, patched(base("layers"), ("regions", 0, "alignment", 32)))
    block = aligned(opened.arena.size + 64, 64)
    size = ctypes.c_size_t(opened.arena.size)
    assert opened.call("bind_arena", Opened.address(block[16:]), size) == "ERR_ALIGNMENT"
    assert opened.call("bind_arena", Opened.address(block[32:]), size) == "OK"


def test_nothing_runs_before_memory_is_bound(library: ctypes.CDLL, opened: Opened, data: np.ndarray) -> None:
    assert opened.call("run") == "ERR_UNBOUND"
    assert opened.call("reset") == "ERR_UNBOUND"
    assert opened.call("set_input", 0, Opened.address(data), ctypes.c_size_t(72)) == "ERR_UNBOUND"
    assert opened.call("get_output", 0, Opened.address(data), ctypes.c_size_t(72)) == "ERR_UNBOUND"
    assert STATUSES[library.trivet_run(None)] == STATUSES[library.trivet_reset(None)] == "ERR_UNBOUND"


def test_binding_that_fails_unbinds(opened: Opened) -> None:
    assert opened.bind() == "OK"
    assert opened.bind(-1) == "ERR_MEMORY"
    assert opened.call("run") == "ERR_UNBOUND"


@pytest.mark.parametrize("function", ["set_input", "get_output"])
def test_ports_take_exactly_their_bytes(opened: Opened, data: np.ndarray, function: str) -> None:
    opened.bind()
    assert opened.call(function, 0, Opened.address(data), ctypes.c_size_t(72)) == "OK"
    assert opened.call(function, 0, Opened.address(data), ctypes.c_size_t(71)) == "ERR_ARGUMENT"
    assert opened.call(function, 0, None, ctypes.c_size_t(72)) == "ERR_ARGUMENT"
    assert opened.call(function, 1, Opened.address(data), ctypes.c_size_t(72)) == "ERR_ARGUMENT"


@pytest.mark.parametrize("function", ["input", "output"])
def test_ports_that_are_not_there_are_refused(library: ctypes.CDLL, opened: Opened, function: str) -> None:
    port = Port()
    assert opened.call(function, 0, ctypes.byref(port)) == "OK"
    assert opened.call(function, 1, ctypes.byref(port)) == "ERR_ARGUMENT"
    assert opened.call(function, 0, None) == "ERR_ARGUMENT"
    describe = getattr(library, f"trivet_{function}")
    assert STATUSES[describe(None, 0, ctypes.byref(port))] == "ERR_ARGUMENT"


def test_every_status_has_a_text(library: ctypes.CDLL) -> None:
    library.trivet_status_text.restype = ctypes.c_char_p
    texts = {library.trivet_status_text(status) for status in range(len(STATUSES) + 1)}
    assert len(texts) == len(STATUSES) + 1
