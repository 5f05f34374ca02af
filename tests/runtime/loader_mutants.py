"""The loader with one of its checks taken out at a time, for the test that every check is tested.

A check is an operand of `||` in a condition that ends in a refusal, an operand of `&&` in a returned conjunction, or a
whole refusing condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_REFUSES = re.compile(r"return (false|TRIVET_ERR_\w+);")
_IF = re.compile(r"^( *)if \(", re.M)
_RETURN = re.compile(r"^( *)return ", re.M)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """What was taken out, and the source without it."""
    for match in _IF.finditer(source):
        end = _closing(source, match.end())
        if not _REFUSES.search(source[end : source.index("}", end)]):
            continue
        condition = source[match.end() : end]
        for start, stop in _parts(condition, "||"):
            part = condition[start:stop]
            yield _title(source, match.end(), part), _spliced(source, match.end() + start, match.end() + stop, "false")
    for match in _RETURN.finditer(source):
        end = source.index(";", match.end())
        expression = source[match.end() : end]
        parts = list(_parts(expression.split(" ? ")[0], "&&"))
        if len(parts) < 2 or "(void)" in expression:
            continue
        for start, stop in parts:
            part = expression[start:stop]
            yield _title(source, match.end(), part), _spliced(source, match.end() + start, match.end() + stop, "true")


def _closing(source: str, start: int) -> int:
    """Where the parenthesis that was opened before `start` closes."""
    depth = 1
    for index in range(start, len(source)):
        depth += {"(": 1, ")": -1}.get(source[index], 0)
        if depth == 0:
            return index
    raise AssertionError("unbalanced")


def _parts(expression: str, operator: str) -> Iterator[tuple[int, int]]:
    """Spans of the operands of an operator outside of parentheses."""
    depth, start = 0, 0
    for index, char in enumerate(expression):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0 and expression.startswith(operator, index):
            yield start, index
            start = index + len(operator)
    yield start, len(expression)


def _title(source: str, at: int, part: str) -> str:
    return f"line {source.count(chr(10), 0, at) + 1}: {' '.join(part.split())}"


def _spliced(source: str, start: int, stop: int, text: str) -> str:
    return source[:start] + f" ({text}) " + source[stop:]
