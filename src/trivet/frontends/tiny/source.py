"""Places in a `.tiny` file, and errors that show them."""

from __future__ import annotations

import re
from bisect import bisect_right

from trivet.core.source import TextSpan, excerpt
from trivet.errors import InvalidModel

SHOWN = 100
"""Characters of a line that an error shows at most."""


class TinySource:
    """The text of a program; `file` is its name in messages."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> TextSpan:
        """The stretch of characters [start, end) as lines and columns."""
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        return TextSpan(self.file, line, column, end_line, end_column, self._shown(start, end))

    def error(self, message: str, start: int, end: int | None = None) -> InvalidModel:
        """An error with the line and a caret under the stretch [start, end)."""
        where = self.span(start, end or start + 1)
        return InvalidModel("\n".join([message, *excerpt(where)]), where=where)

    def _shown(self, start: int, end: int) -> tuple[str, str]:
        begin = self._starts[self._place(start)[0] - 1]
        left = max(begin, start - SHOWN // 2)
        stop = self.text.find("\n", left, left + SHOWN)
        shown = self.text[left : left + SHOWN if stop < 0 else stop].replace("\t", " ")
        width = max(1, min(end - start, len(shown) - (start - left)))
        return shown, " " * (start - left) + "^" * width

    def _place(self, at: int) -> tuple[int, int]:
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1
