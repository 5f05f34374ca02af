"""Runs one node's C kernel directly, and compares it with `Op.evaluate`: whole, in bands of rows, and through rings.

    check_node(node, arrays)                 # bit for bit
    check_node(node, arrays, relative=1e-5)  # floats

`check` must accept the call, and every way of cutting the rows must give the same bytes as the whole.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trivet.backends.ckernels import Call
from trivet.backends.plan.format import DTYPES
from trivet.backends.plan.kernels.table import KERNELS
from trivet.backends.plan.pool import ConstantPool, pack_params
from trivet.core.access import Span
from trivet.ir.graph import Graph, Node, Value
from trivet.ir.op import Array, Op
from trivet.ir.types import TensorType

GUARD = 64
"""Bytes on either side of every result and of the scratch that must not change."""


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("row_bytes", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
    ]


class CallStruct(ctypes.Structure):
    _fields_ = [
        ("params", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("inputs", ctypes.POINTER(View)),
        ("outputs", ctypes.POINTER(View)),
        ("scratch", ctypes.c_void_p),
        ("border", ctypes.c_void_p),
    ]


class TensorInfo(ctypes.Structure):
    _fields_ = [
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("rank", ctypes.c_uint32),
        ("dtype", ctypes.c_uint32),
        ("row_bytes", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
    ]


class CheckStruct(ctypes.Structure):
    _fields_ = [
        ("params", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("inputs", ctypes.POINTER(TensorInfo)),
        ("outputs", ctypes.POINTER(TensorInfo)),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32),
        ("images", ctypes.c_uint32),
        ("rows", ctypes.c_uint32),
        ("accumulates", ctypes.c_bool),
    ]


@dataclass
class Memory:
    """Bytes at a multiple of 16 between two guards, all poisoned at first."""

    size: int

    def __post_init__(self) -> None:
        self.raw = np.full(self.size + 2 * GUARD + 16, 0xA5, np.uint8)
        self.start = GUARD + -(self.raw.ctypes.data + GUARD) % 16
        self.address = self.raw.ctypes.data + self.start

    @property
    def bytes(self) -> np.ndarray:
        return self.raw[self.start : self.start + self.size]

    def guards_are_intact(self) -> bool:
        return bool((self.raw[: self.start] == 0xA5).all() and (self.raw[self.start + self.size :] == 0xA5).all())

    @staticmethod
    def of(data: bytes) -> Memory:
        memory = Memory(max(len(data), 1))
        memory.bytes[: len(data)] = np.frombuffer(data, np.uint8)
        return memory


def node_of(op: Op, *operands: TensorType | tuple[Array, TensorType]) -> Node:
    """A node on its own; an operand with an array is a constant."""
    graph = Graph()
    values = [
        graph.add_input(f"x{i}", o) if isinstance(o, TensorType) else graph.constant(o[0], o[1])
        for i, o in enumerate(operands)
    ]
    return graph.append(op, values)


def rows_of(type_: TensorType) -> tuple[int, int]:
    """Rows of an image, and bytes of a row."""
    if type_.rank == 4:
        return type_.shape[1], type_.shape[2] * type_.shape[3] * type_.dtype.size_bytes(1)
    return 1, type_.size_bytes


def images_of(call: Call, node: Node) -> int:
    if call.images is not None:
        return call.images
    return node.outputs[0].type.shape[0] if node.outputs[0].type.rank == 4 else 1


class KernelRun:
    """One call of a kernel on arrays: `arrays` are those of the call's operands."""

    def __init__(self, library: ctypes.CDLL, node: Node, arrays: Sequence[Array], call: Call | None = None) -> None:
        call = call or KERNELS.select(node)
        assert call is not None, f"no kernel takes {node!r}"
        self.library, self.node, self.call = library, node, call
        pool = ConstantPool()
        self.params = Memory.of(pack_params(call, pool))
        self.constants = Memory.of(pool.bytes())
        self.images = images_of(call, node)
        self.arrays = [np.ascontiguousarray(a) for a in arrays]
        counted = (call.operands if call.accumulates else node.outputs)[0]
        self.height = image_view(counted.type, self.images, not call.accumulates)[1]

    def run(self, rows: int | None = None, rings: bool = False) -> list[bytes]:
        """The results' bytes when each firing makes `rows` rows (None: all), optionally through least rings."""
        rows = rows or self.height
        results = [Memory(v.type.size_bytes) for v in self.node.outputs]
        scratch = Memory(self.call.scratch(rows))
        assert self.check(rows) == 0, "the kernel's check refuses the call"
        for image in range(self.images):
            inputs = [self.view(v, a.ctypes.data, image, False) for v, a in self.operands()]
            outputs = [self.view(v, m.address, image, True) for v, m in zip(self.node.outputs, results, strict=True)]
            for row in range(0, self.height, rows):
                count = min(rows, self.height - row)
                if rings:
                    self.fire_through_rings(inputs, outputs, scratch, row, count)
                else:
                    self.fire(inputs, outputs, scratch, row, count)
        assert scratch.guards_are_intact(), "the kernel wrote outside its scratch"
        assert all(m.guards_are_intact() for m in results), "the kernel wrote outside its results"
        return [m.bytes.tobytes() for m in results]

    def operands(self) -> list[tuple[Value, Array]]:
        return list(zip(self.call.operands, self.arrays, strict=True))

    def fire_through_rings(self, inputs: list[View], outputs: list[View], scratch: Memory, row: int, rows: int) -> None:
        """One firing that sees only the rows that the operator's axis rules say it reads."""
        spans = [self.reads(value, row, rows) for value in self.call.operands]
        rings = [ring_of(view, span) for view, span in zip(inputs, spans, strict=True)]
        made = Span(row, row + rows)
        targets = outputs if self.call.accumulates else [ring_of(v, made, copy=False) for v in outputs]
        self.fire([r.view for r in rings], [t if isinstance(t, View) else t.view for t in targets], scratch, row, rows)
        for whole, target in zip(outputs, targets, strict=True):
            if isinstance(target, Ring):
                for r in range(row, row + rows):
                    ctypes.memmove(whole.data + r * whole.row_bytes, target.row(r), whole.row_bytes)
        assert all(t.memory.guards_are_intact() for t in targets if isinstance(t, Ring)), "wrote outside a ring"

    def reads(self, value: Value, row: int, rows: int) -> Span:
        """Rows of an operand that output rows [row, row + rows) need."""
        if value.type.rank != 4:
            return Span(0, 1)
        if self.call.accumulates and value is self.call.operands[0]:
            return Span(row, row + rows)
        index = next(i for i, v in enumerate(self.node.inputs) if v is value)
        rule = self.node.op.access(self.node.input_types)[index][1]
        return rule.reads(Span(row, row + rows))

    def status_of(self, rows: int) -> int:
        """What `run` returns for the first rows of the first image."""
        results = [Memory(v.type.size_bytes) for v in self.node.outputs]
        inputs = [self.view(v, a.ctypes.data, 0, False) for v, a in self.operands()]
        outputs = [self.view(v, m.address, 0, True) for v, m in zip(self.node.outputs, results, strict=True)]
        return self.launch(inputs, outputs, Memory(self.call.scratch(rows)), 0, rows)

    def fire(self, inputs: list[View], outputs: list[View], scratch: Memory, row: int, rows: int) -> None:
        assert self.launch(inputs, outputs, scratch, row, rows) == 0

    def launch(self, inputs: list[View], outputs: list[View], scratch: Memory, row: int, rows: int) -> int:
        call = CallStruct(
            self.params.address,
            self.constants.address,
            (View * max(len(inputs), 1))(*inputs),
            (View * len(outputs))(*outputs),
            scratch.address if scratch.size else None,
        )
        run = getattr(self.library, f"trivet_{self.call.kernel.name}_run")
        return int(run(ctypes.byref(call), ctypes.c_uint32(row), ctypes.c_uint32(rows)))

    def check(self, rows: int) -> int:
        inputs = [tensor_info(v, self.images, False) for v in self.call.operands]
        outputs = [tensor_info(v, self.images, True) for v in self.node.outputs]
        check = CheckStruct(
            self.params.address,
            self.constants.address,
            (TensorInfo * max(len(inputs), 1))(*inputs),
            (TensorInfo * len(outputs))(*outputs),
            len(inputs),
            len(outputs),
            self.call.scratch(rows),
            self.images,
            rows,
            self.call.accumulates,
        )
        return int(getattr(self.library, f"trivet_{self.call.kernel.name}_check")(ctypes.byref(check)))

    def view(self, value: Value, address: int, image: int, is_result: bool) -> View:
        row_bytes, height, stride = image_view(value.type, self.images, is_result)
        return View(address + image * stride, row_bytes, height, height)


@dataclass
class Ring:
    """A view that keeps `depth` rows, with its memory."""

    view: View
    memory: Memory

    def row(self, row: int) -> int:
        return int(self.view.data) + row % self.view.depth * self.view.row_bytes


def ring_of(view: View, span: Span, copy: bool = True) -> Ring:
    """A ring just deep enough for a span of rows, which it holds if `copy`; poison in every other byte."""
    depth = max(span.size, 1)
    memory = Memory(depth * view.row_bytes)
    ring = Ring(View(memory.address, view.row_bytes, view.height, depth), memory)
    if copy:
        for r in range(span.start, span.stop):
            ctypes.memmove(ring.row(r), view.data + r * view.row_bytes, view.row_bytes)
    return ring


def image_view(type_: TensorType, images: int, is_result: bool) -> tuple[int, int, int]:
    """Row bytes and height of one image, and the bytes from image to image (0: shared)."""
    height, row_bytes = rows_of(type_)
    if images == 1:
        batch = type_.shape[0] if type_.rank == 4 else 1
        return row_bytes, batch * height, 0
    if type_.rank == 4:
        return row_bytes, height, 0 if type_.shape[0] == 1 else height * row_bytes
    return (row_bytes // images, 1, row_bytes // images) if is_result else (row_bytes, 1, 0)


def tensor_info(value: Value, images: int, is_result: bool) -> TensorInfo:
    type_ = value.type
    row_bytes, height, _ = image_view(type_, images, is_result)
    shape = (ctypes.c_uint32 * max(type_.rank, 1))(*type_.shape)
    return TensorInfo(shape, type_.rank, DTYPES[type_.dtype], row_bytes, height, height)


def check_node(
    library: ctypes.CDLL, node: Node, arrays: Sequence[Array], relative: float | None = None, call: Call | None = None
) -> None:
    """The kernel gives what the operator means, and the same bytes for 1 to 3 rows at a time, also through rings."""
    every = iter(arrays)
    operands = [v.data if v.data is not None else next(every) for v in node.inputs]
    run = KernelRun(library, node, arrays, call)
    whole = run.run()
    for value, data, expected in zip(
        node.outputs, whole, node.op.evaluate(tuple(operands), node.input_types), strict=True
    ):
        actual = np.frombuffer(data, value.type.dtype.numpy).reshape(value.type.shape)
        if relative is None:
            np.testing.assert_array_equal(actual, expected, err_msg=repr(node))
        else:
            np.testing.assert_allclose(actual, expected, rtol=relative, atol=relative, err_msg=repr(node))
    if run.call.streams:
        for rows in (1, 2, 3):
            assert run.run(rows) == whole, f"{node!r}: {rows} rows at a time differ from the whole"
            assert run.run(rows, rings=True) == whole, f"{node!r}: {rows} rows through rings differ from the whole"
