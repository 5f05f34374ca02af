"""Tokens of the text form, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trivet.core.record import dataclass
from trivet.core.source import TextSpan
from trivet.errors import InvalidModel

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+ | //[^\n]*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<number>[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.]))
  | (?P<value>%(?:[\w.]+|"(?:[^"\\\n]|\\.)*"))
  | (?P<resource>\#(?:[\w.]+|"(?:[^"\\\n]|\\.)*"))
  | (?P<word>[A-Za-z_]\w*)
  | (?P<punct>->|[()\[\]{},:=])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is string, number, value, resource, word, punct or end; `text` is what stands in the file."""

    kind: str
    text: str
    start: int


class Source:
    """A text with a name, which can point at its own places."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    def span(self, start: int, length: int = 1) -> TextSpan:
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        return TextSpan(self.file, line, column, line, column + length)

    def error(self, message: str, start: int) -> InvalidModel:
        """An error that shows the line with a caret under `start`."""
        begin = self.text.rfind("\n", 0, start) + 1
        end = self.text.find("\n", start)
        line = self.text[begin : end if end >= 0 else len(self.text)]
        left = max(0, start - begin - 60)
        shown = line[left : left + 120]
        return InvalidModel(message, where=self.span(start), hint=f"{shown}\n  {' ' * (6 + start - begin - left)}^")


def tokenize(source: Source) -> Iterator[Token]:
    """All tokens, then one of kind `end`.

    Raises: InvalidModel at a character that begins no token.
    """
    position, text = 0, source.text
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise source.error(f"unexpected character {text[position]!r}", position)
        if match.lastgroup != "space":
            yield Token(str(match.lastgroup), match.group(), position)
        position = match.end()
    yield Token("end", "end of file", len(text))
