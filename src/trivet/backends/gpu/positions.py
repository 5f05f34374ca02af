"""Where the parts of a JSON text stand, for messages."""

from __future__ import annotations

import json
import re

Path = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def line_of(text: str, path: Path) -> int:
    """The line at which the value of a path begins; that of the last part that is there if not all is."""
    best, best_depth = 1, 0
    stack: list[str | int] = []
    key: str | None = None
    line = at = 0
    for token in _TOKEN.finditer(text):
        word = token.group()
        line, at = line + text.count("\n", at, token.start()), token.start()
        depth = _shared(stack, path)
        if word not in ",:]}" and depth > best_depth:
            best, best_depth = line + 1, depth
        if word in "{[":
            stack.append("" if word == "{" else 0)
        elif word in "}]" and stack:
            stack.pop()
        elif word == "," and stack and isinstance(stack[-1], int):
            stack[-1] += 1
        elif word == ":" and stack and key is not None:
            stack[-1] = key
        key = json.loads(word) if word.startswith('"') else None
    return best


def _shared(stack: list[str | int], path: Path) -> int:
    """How much of the path leads to the place of the stack."""
    depth = 0
    while depth < min(len(stack), len(path)) and stack[depth] == path[depth]:
        depth += 1
    return depth if depth == len(stack) or depth == len(path) else 0
