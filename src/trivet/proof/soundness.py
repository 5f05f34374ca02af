"""Runs a plan file on marks instead of numbers, and says what is wrong with it.

Every byte of memory knows the step, image and row that wrote it last. A kernel must find in each row that it reads
what the file's producer of that row has made, and nothing that came later: so every row is written before it is read
and not overwritten before its last read, whatever shares memory with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from trivet.proof.memory import CALLER, CONSTANTS, COUNTERS, WORK, Mark, Memory
from trivet.proof.plan_file import PlanFile, Step, Stream, Tensor, read_plan
from trivet.proof.schedule import Deadlock, Firing, firings, rows_of


def violations(data: bytes) -> list[str]:
    """What is wrong with a plan file, one sentence each; empty iff it is sound. Stops at the first wrong byte.

    Raises: InvalidModel, where the bytes are no plan.
    """
    plan = read_plan(data)
    misplaced = list(dict.fromkeys(_misplaced(plan)))
    if misplaced:
        return misplaced
    machine = _Machine(plan)
    try:
        machine.run()
    except (_Wrong, Deadlock) as problem:
        return [str(problem)]
    return list(machine.wrong_claims())


class _Wrong(Exception):
    """Memory does not hold what is read from it."""


def _misplaced(plan: PlanFile) -> Iterator[str]:
    """Places outside of their memories, or where their elements may not stand, and steps that refer to none."""
    for tensor in (*plan.given, *plan.taken, *(t for step in plan.steps() for t in (*step.inputs, *step.outputs))):
        yield from _misplaced_tensor(plan, tensor)
    arena = plan.regions[0][1] if plan.regions else 0
    for step in plan.steps():
        if step.scratch.stop > arena:
            yield f"the work space of {step.name} ends at {step.scratch.stop} of {arena} bytes"
        if any(edge.operand >= len(step.inputs) for edge in step.edges):
            yield f"{step.name} has rows of an operand that it lacks"
        if not step.inputs and not step.outputs:
            yield f"{step.name} has no operands"
    if plan.reserved_bytes > arena or (plan.warm is not None and plan.warm >= len(plan.regions)):
        yield "constants lie in no region"
    for stream in plan.streams:
        yield from _misplaced_stream(plan, stream, arena)


def _misplaced_stream(plan: PlanFile, stream: Stream, arena: int) -> Iterator[str]:
    if stream.decoded_bytes > plan.reserved_bytes:
        yield f"the constants of {stream.steps[0].name} take more than what is reserved for them"
    if stream.counters.stop > arena:
        yield f"counters end at {stream.counters.stop} of {arena} bytes"
    if any(e.source is not None and e.source >= len(stream.steps) for s in stream.steps for e in s.edges):
        yield f"{stream.steps[0].name} waits for a step that its stream lacks"


def _misplaced_tensor(plan: PlanFile, tensor: Tensor) -> Iterator[str]:
    if tensor.region >= len(plan.regions):
        yield f"{tensor.name} lies in no region"
        return
    name, size = plan.regions[tensor.region]
    if tensor.extent.stop > size:
        yield f"{tensor.name} ends at {tensor.extent.stop} of {size} bytes of {name}"
    if tensor.offset % tensor.element_bytes:
        yield f"{tensor.name} at {tensor.offset} splits elements of {tensor.element_bytes} bytes"
    if not min(1, tensor.height) <= tensor.depth <= tensor.height or (tensor.is_ring and tensor.batch != 1):
        yield f"{tensor.name} keeps {tensor.depth} of {tensor.height} rows of {tensor.batch} images"


class _Machine:
    def __init__(self, plan: PlanFile) -> None:
        self.plan = plan
        self.memories = [Memory() for _ in plan.regions]
        self.makers = {step.index: step for step in plan.steps()}

    def run(self) -> None:
        """Raises: _Wrong, Deadlock."""
        if self.plan.warm is not None:
            self.memories[self.plan.warm].write(range(self.plan.warm_bytes), Mark(CONSTANTS))
        for tensor in self.plan.given:
            self.memories[tensor.region].write(tensor.extent, Mark(CALLER))
        for number, stream in enumerate(self.plan.streams):
            self._stream(number, stream)
        for tensor in self.plan.taken:
            self._expect_whole(tensor, "the caller")

    def wrong_claims(self) -> Iterator[str]:
        """Regions whose size is not the end of what is written in them."""
        for (name, size), memory in zip(self.plan.regions, self.memories, strict=True):
            if memory.end != size:
                yield f"region {name} claims {size} bytes, {memory.end} are used"

    def _stream(self, number: int, stream: Stream) -> None:
        counters, constants = Mark(COUNTERS, row=number), Mark(CONSTANTS, row=number)
        decoded = range(stream.decoded_bytes)
        if decoded:
            self.memories[0].write(decoded, constants)
        if stream.counters:
            self.memories[0].write(stream.counters, counters)
        for firing in firings(stream):
            self._fire(firing)
            if any(mark != counters for mark in self.memories[0].read(stream.counters)):
                raise _Wrong(f"{firing.step.name} overwrites the counters of its stream")
            if any(mark != constants for mark in self.memories[0].read(decoded)):
                raise _Wrong(f"{firing.step.name} overwrites the constants of its stream")

    def _fire(self, firing: Firing) -> None:
        step = firing.step
        read = [(operand, self._read(firing, index)) for index, operand in enumerate(step.inputs)]
        for operand, rows in read:
            for row in rows:
                self._expect(operand, step, firing.image, row)
        self._work(firing, read)
        if step.accumulates and not firing.is_last:
            return
        for result in step.outputs:
            rows = range(rows_of(result, step)) if step.accumulates or step.rows is None else firing.rows
            self._check_apart(firing, result, rows, read)
            for row in rows:
                mark = Mark(step.index, firing.image, row)
                self.memories[result.region].write(_place(result, step, firing.image, row, True), mark)

    def _work(self, firing: Firing, read: list[tuple[Tensor, range]]) -> None:
        """Work space is a kernel's own while it runs; sums over rows must survive from firing to firing."""
        step = firing.step
        if not step.scratch:
            return
        spans = [(t.region, _extent(t, step, firing.image, rows, False)) for t, rows in read if rows]
        if not step.accumulates or firing.is_last:
            spans += self._written_apart(firing)
        if any(region == 0 and _meet(span, step.scratch) for region, span in spans):
            raise _Wrong(f"the work space of {step.name} lies over its operands or results")
        mine = Mark(WORK, firing.image, step.index)
        memory = self.memories[0]
        if step.accumulates and firing.rows.start and any(mark != mine for mark in memory.read(step.scratch)):
            raise _Wrong(f"the sums of {step.name} are overwritten")
        memory.write(step.scratch, mine)

    def _written_apart(self, firing: Firing) -> Iterator[tuple[int, range]]:
        """Where a firing writes what may not meet its work space."""
        step = firing.step
        rows = firing.rows if step.rows is not None and not step.accumulates else None
        for result in step.outputs:
            span = _extent(result, step, firing.image, rows or range(rows_of(result, step)), True)
            if not step.over_sums or span.start > step.scratch.start:
                yield result.region, span

    def _read(self, firing: Firing, index: int) -> range:
        """Rows of an operand that a firing reads: from the first to past the last of them."""
        step = firing.step
        height = rows_of(step.inputs[index], step)
        edges = [edge for edge in step.edges if edge.operand == index]
        if not edges:
            return range(height)
        spans = [span for edge in edges for row in firing.rows if (span := edge.rows(row, height))]
        return range(min((s.start for s in spans), default=0), max((s.stop for s in spans), default=0))

    def _expect(self, operand: Tensor, step: Step, image: int, row: int) -> None:
        """Raises: _Wrong, where a row is not what its producer made."""
        span = _place(operand, step, image, row, False)
        for mark in self.memories[operand.region].read(span):
            if not self._is_right(operand, mark, image if operand.batch > 1 or operand.is_ring else None, row, step):
                raise _Wrong(f"{step.name} reads row {row} of {operand.name}: {self._found(mark)}")

    def _expect_whole(self, tensor: Tensor, reader: str) -> None:
        for mark in self.memories[tensor.region].read(tensor.extent):
            if not self._may_hold(tensor, mark):
                raise _Wrong(f"{reader} reads {tensor.name}: {self._found(mark)}")

    def _is_right(self, operand: Tensor, mark: Mark, image: int | None, row: int, step: Step) -> bool:
        maker = None if operand.producer is None else self.makers.get(operand.producer)
        made = None if maker is None else next((t for t in maker.outputs if _same_rows(t, operand)), None)
        if made is None or maker is None or maker.images != step.images:
            return self._may_hold(operand, mark)
        return (mark.writer, mark.row) == (maker.index, row) and (image is None or mark.image == image)

    def _may_hold(self, tensor: Tensor, mark: Mark) -> bool:
        """True iff a byte of a view, which several steps may have made, can be from the writer of `mark`."""
        if mark.writer == CALLER:
            return any(_nested(tensor, other) for other in self.plan.given)
        if mark.writer < 0 or tensor.producer is None or mark.writer > tensor.producer:
            return False
        return any(_nested(tensor, other) for other in self.makers[mark.writer].outputs)

    def _check_apart(self, firing: Firing, result: Tensor, rows: range, read: list[tuple[Tensor, range]]) -> None:
        """Raises: _Wrong, where a kernel would write over what it reads, unless it is the same rows in place."""
        step = firing.step
        written = _extent(result, step, firing.image, rows, True)
        for operand, operand_rows in read:
            if operand.region != result.region or not operand_rows or not rows:
                continue
            span = _extent(operand, step, firing.image, operand_rows, False)
            if span != written and _meet(span, written):
                raise _Wrong(f"{step.name} writes {result.name} over what it reads of {operand.name}")

    def _found(self, mark: Mark) -> str:
        match mark.writer:
            case -1:
                return "nobody has written it"
            case -2:
                return "an input or a state is there"
            case -3 | -4 | -5:
                return "work space, counters or constants are there"
        maker = self.makers[mark.writer]
        return f"row {mark.row} of {maker.name} is there"


def _meet(a: range, b: range) -> bool:
    return max(a.start, b.start) < min(a.stop, b.stop)


def _same_rows(made: Tensor, read: Tensor) -> bool:
    """True iff two places have the same rows, so that marks can be compared row by row."""
    return (made.region, made.offset, made.row_bytes, made.height, made.depth, made.batch) == (
        read.region, read.offset, read.row_bytes, read.height, read.depth, read.batch
    )  # fmt: skip


def _nested(a: Tensor, b: Tensor) -> bool:
    """True iff one place lies within the other."""
    if a.region != b.region:
        return False
    first, second = a.extent, b.extent
    return (first.start <= second.start and second.stop <= first.stop) or (
        second.start <= first.start and first.stop <= second.stop
    )


def _place(tensor: Tensor, step: Step, image: int, row: int, is_result: bool) -> range:
    """Bytes of a row of an image, as a step sees them."""
    start, row_bytes = _image(tensor, step, image, is_result)
    slot = row % tensor.depth if tensor.is_ring else row
    return range(start + slot * row_bytes, start + (slot + 1) * row_bytes)


def _extent(tensor: Tensor, step: Step, image: int, rows: range, is_result: bool) -> range:
    """Bytes from the first to the last of some rows; all of a ring, whose rows wrap around."""
    start, row_bytes = _image(tensor, step, image, is_result)
    held = range(tensor.depth) if tensor.is_ring else rows
    return range(start + held.start * row_bytes, start + held.stop * row_bytes)


def _image(tensor: Tensor, step: Step, image: int, is_result: bool) -> tuple[int, int]:
    """Where an image starts, and the bytes of its rows. What is not of rank 4 is one row, shared by all images if it
    is an operand and divided among them if it is a result."""
    if len(tensor.shape) == 4:
        stride = tensor.height * tensor.row_bytes if tensor.batch > 1 and step.images > 1 else 0
        return tensor.offset + image * stride, tensor.row_bytes
    if is_result and step.images > 1:
        row_bytes = tensor.row_bytes // step.images
        return tensor.offset + image * row_bytes, row_bytes
    return tensor.offset, tensor.row_bytes
