"""Several fast memories instead of one: their sizes, and what must lie in which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trivet.core.record import dataclass
from trivet.errors import CompileError, Problems
from trivet.planning.plan import BufferKind, Region

KINDS = {
    "@input": (BufferKind.INPUT,),
    "@output": (BufferKind.OUTPUT,),
    "@state": (BufferKind.STATE,),
    "@activation": (BufferKind.ACTIVATION, BufferKind.RING),
}
"""What may be pinned together, by the names that stand for it."""


@dataclass(frozen=True, slots=True)
class Pin:
    """`what` is the name of a tensor or one of `KINDS`, `region` where it must lie."""

    what: str
    region: str


@dataclass(frozen=True, slots=True)
class Memories:
    """Fast memories with their sizes, best first, and what must lie in which."""

    regions: tuple[Region, ...]
    pins: tuple[Pin, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(region.size_bytes or 0 for region in self.regions)

    def check(self) -> None:
        """Raises: Problems, with all that is wrong with the memories and the pins by themselves."""
        problems = [*_wrong_regions(self.regions), *_wrong_pins(self)]
        if problems:
            raise Problems("memories", problems)


def _wrong_regions(regions: Sequence[Region]) -> Iterator[CompileError]:
    names = [region.name for region in regions]
    for index, region in enumerate(regions):
        if not region.size_bytes:
            yield CompileError(f"memory {region.name} has 0 bytes", hint="leave it out, or give its size")
        if region.alignment < 1 or region.alignment & (region.alignment - 1):
            yield CompileError(
                f"memory {region.name} has an alignment of {region.alignment}, which is no power of two",
                hint="give 1, 2, 4, 8, 16, ...",
            )
        if region.name in names[:index]:
            yield CompileError(f"memory {region.name} is given twice", hint="give every memory a name of its own")


def _wrong_pins(memories: Memories) -> Iterator[CompileError]:
    known = [region.name for region in memories.regions]
    places: dict[str, str] = {}
    for pin in memories.pins:
        if pin.region not in known:
            yield CompileError(f"'{pin.what}' is pinned to '{pin.region}'", hint=f"the memories are {', '.join(known)}")
        if pin.what.startswith("@") and pin.what not in KINDS:
            yield CompileError(f"'{pin.what}' is no kind of tensor", hint=f"the kinds are {', '.join(KINDS)}")
        if places.setdefault(pin.what, pin.region) != pin.region:
            yield CompileError(
                f"'{pin.what}' is pinned to {places[pin.what]} and to {pin.region}", hint="give one of them"
            )
