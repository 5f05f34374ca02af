"""Where a value comes from in the user's file, for messages."""

from __future__ import annotations

from trivet.core.record import dataclass


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of an imported network: its index in the file, its foreign kind, its name (may be empty)."""

    file: str
    index: int
    kind: str
    name: str = ""

    def __str__(self) -> str:
        label = f" '{self.name}'" if self.name else ""
        return f"{self.file}: operator {self.index} {self.kind}{label}"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A stretch of a text file; lines and columns count from 1, the end is exclusive.

    `shown` is its line with a caret below, as messages show it.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    shown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


Location = Operator | TextSpan


def excerpt(loc: Location | None) -> list[str]:
    """Indented lines of the source with a caret, where the place has some."""
    return [f"    {line}" for line in loc.shown] if isinstance(loc, TextSpan) else []
