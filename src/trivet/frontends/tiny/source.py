"""Places in a `.tiny` file, and errors that show them."""

from __future__ import annotations

from trivet.core.record import dataclass
from trivet.core.source import TextSpan
from trivet.errors import InvalidModel

SHOWN = 100
"""Characters of a line that an error shows at most."""


@dataclass(frozen=True, slots=True)
class TinySource:
    """The text of a program; `file` is its name in messages."""

    file: str
    text: str

    def span(self, start: int, end: int) -> TextSpan:
        """The stretch of characters [start, end) as lines and columns."""
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        return TextSpan(self.file, line, column, end_line, end_column)

    def error(self, message: str, start: int, end: int | None = None) -> InvalidModel:
        """An error with the line and a caret under the stretch [start, end)."""
        begin = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", start)
        stop = len(self.text) if stop < 0 else stop
        left = max(begin, start - SHOWN // 2)
        shown = self.text[left : min(stop, left + SHOWN)].replace("\t", " ")
        width = max(1, min((end or start + 1) - start, len(shown) - (start - left)))
        caret = " " * (start - left) + "^" * width
        return InvalidModel(f"{message}\n    {shown}\n    {caret}", where=self.span(start, end or start + 1))

    def _place(self, at: int) -> tuple[int, int]:
        return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
