"""The order of a stream's firings, from its edges: a step fires when its rows are there and its slots are free."""

from __future__ import annotations

from collections.abc import Iterator

from trivet.core.record import dataclass
from trivet.proof.plan_file import Edge, Step, Stream, Tensor


class Deadlock(Exception):
    """No step of a stream can ever fire again."""


@dataclass(frozen=True, slots=True)
class Firing:
    """Rows of one image that a step makes in one kernel call, or takes when it accumulates."""

    step: Step
    image: int
    rows: range
    is_last: bool


def rows_of(tensor: Tensor, step: Step) -> int:
    """Rows of an image of an operand or result, as the step counts them: a batch taken as one is one tall image."""
    return tensor.height * tensor.batch if step.images == 1 and not tensor.is_ring else tensor.height


def firings(stream: Stream) -> Iterator[Firing]:
    """Every kernel call of a stream in order.

    Raises: Deadlock.
    """
    for image in range(stream.steps[0].images if stream.steps else 0):
        yield from _Loop(stream, image).run()


class _Loop:
    def __init__(self, stream: Stream, image: int) -> None:
        self.steps, self.image = stream.steps, image
        self.fired = [0] * len(self.steps)
        self._lows: dict[tuple[int, int], list[int]] = {}

    def run(self) -> Iterator[Firing]:
        left = sum(step.firings for step in self.steps)
        while left:
            before = left
            for index, step in enumerate(self.steps):
                while self.fired[index] < step.firings and self._may_fire(index):
                    yield Firing(step, self.image, self._rows(index), self.fired[index] == step.firings - 1)
                    self.fired[index] += 1
                    left -= 1
            if left == before:
                stuck = [step.name for step, n in zip(self.steps, self.fired, strict=True) if n < step.firings]
                raise Deadlock(f"{stuck[0]} waits for rows that never come")

    def _rows(self, index: int) -> range:
        step = self.steps[index]
        height = rows_of(step.counted, step)
        if step.rows is None:
            return range(height)
        start = self.fired[index] * step.rows
        return range(start, min(start + step.rows, height))

    def _may_fire(self, index: int) -> bool:
        step, rows = self.steps[index], self._rows(index)
        for edge in step.edges:
            if edge.source is None:
                continue
            height = rows_of(step.inputs[edge.operand], step)
            needed = max((r.stop for row in rows if (r := edge.rows(row, height))), default=0)
            if needed > self._made(edge.source):
                return False
        return step.accumulates or all(self._is_free(index, result, rows) for result in step.outputs[:1])

    def _made(self, index: int) -> int:
        step, fired = self.steps[index], self.fired[index]
        if step.accumulates:
            return 1 << 62 if fired == step.firings else 0
        return min(rows_of(step.counted, step), fired * (step.rows or 1 << 62))

    def _is_free(self, index: int, result: Tensor, rows: range) -> bool:
        lost = rows.stop - 1 - result.depth
        if not result.is_ring or lost < 0:
            return True
        place = (result.region, result.offset)
        for reader in range(index + 1, len(self.steps)):
            step = self.steps[reader]
            for number, edge in enumerate(step.edges):
                read = step.inputs[edge.operand]
                is_read = edge.source is not None and (read.region, read.offset) == place
                if is_read and self._low(reader, number, edge) <= lost:
                    return False
        return True

    def _low(self, reader: int, number: int, edge: Edge) -> int:
        """The lowest operand row that a step still reads through an edge, from its next firing on."""
        step = self.steps[reader]
        if (reader, number) not in self._lows:
            count = min(rows_of(step.counted, step), step.firings * (step.rows or 1 << 62))
            height = rows_of(step.inputs[edge.operand], step)
            lows = [1 << 62] * (count + 1)
            for row in reversed(range(count)):
                read = edge.rows(row, height)
                lows[row] = min(lows[row + 1], read.start if read else 1 << 62)
            self._lows[reader, number] = lows
        lows = self._lows[reader, number]
        return lows[min(self.fired[reader] * (step.rows or 1 << 62), len(lows) - 1)]
