"""C sources as lists of top-level items, so that a module can take the ones it needs.

This reads the runtime's own sources, which are formatted: a directive, a definition or a declaration begins in the
first column. Conditionals on macros whose value is known are resolved; others stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from trivet.core.record import dataclass

IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")
_SKIPPED = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
_INCLUDE = re.compile(r'#include\s+(?:"([^"]+)"|(<[^>]+>))')
_CONDITION = re.compile(r"#\s*(ifdef|ifndef)\s+(\w+)|#\s*if\s+(.*)")

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)")
_EXPANDED = re.compile(r"([A-Z][A-Z0-9_]*)\(\s*(\w*)")

UNDEFINED = frozenset({"TRIVET_X86"})
"""Macros that are not defined in a module: what needs them is left out."""


@dataclass(frozen=True, slots=True)
class Item:
    """A definition, declaration or directive at the top level of a file, with the comment above it.

    `names` is what it defines; an item without any, which is no directive either, makes names out of sight: a macro
    that is expanded.
    """

    file: Path
    text: str
    names: frozenset[str]
    is_static: bool = False

    @property
    def is_expansion(self) -> bool:
        return not self.names and not self.code.startswith("#")

    @property
    def macro(self) -> str | None:
        """The macro that is expanded, None where the item is something else."""
        expanded = _EXPANDED.match(self.code)
        return expanded[1] if expanded is not None else None

    @property
    def code(self) -> str:
        """The text without comments and literals."""
        return _SKIPPED.sub(" ", self.text).strip()

    def references(self) -> set[str]:
        """Every identifier in it."""
        return set(IDENTIFIER.findall(self.code))


@dataclass
class Source:
    """A file: its items, what it includes of our own, and of the system."""

    path: Path
    items: list[Item] = field(default_factory=list)
    includes: list[Path] = field(default_factory=list)
    system: list[str] = field(default_factory=list)


def read_source(path: Path, include_directories: tuple[Path, ...]) -> Source:
    """The items of a file in order; include guards are left out."""
    source = Source(path)
    for text in _pieces(path.read_text(encoding="utf-8"), path.suffix == ".h"):
        code = _SKIPPED.sub(lambda m: m[0] if m[0].startswith('"') else " ", text).strip()
        included = _INCLUDE.match(code)
        if included is None:
            if code:
                source.items.append(_item(path, text))
        elif included[2]:
            source.system.append(included[2])
        else:
            source.includes.append(_found(included[1], (path.parent, *include_directories)))
    return source


def _found(name: str, directories: tuple[Path, ...]) -> Path:
    return next(d / name for d in directories if (d / name).is_file())


def _item(path: Path, text: str) -> Item:
    code = _SKIPPED.sub(" ", text).strip()
    if code.startswith("#if"):
        pieces = (_directive(piece) for piece in _split(text))
        return Item(path, text, frozenset(name for piece in pieces if piece for name in _names(piece)[0]))
    names, is_static = _names(code)
    return Item(path, text, frozenset(names), is_static)


def _pieces(text: str, is_header: bool) -> Iterator[str]:
    """Top-level items as text, of which known conditionals keep the branch that holds."""
    pieces = list(_split(text))
    if is_header and len(pieces) > 2 and _directive(pieces[0]).startswith("#ifndef"):
        pieces = pieces[2:-1]
    yield from _resolved(pieces)


def _resolved(pieces: list[str]) -> Iterator[str]:
    at = 0
    while at < len(pieces):
        if not _directive(pieces[at]).startswith("#if"):
            yield pieces[at]
            at += 1
            continue
        branches, end = _branches(pieces, at)
        known = _known(_directive(pieces[at]))
        if known is None:
            yield "\n".join(pieces[at : end + 1])
        else:
            chosen = branches[0] if known else branches[1] if len(branches) > 1 else []
            yield from _resolved(chosen)
        at = end + 1


def _directive(piece: str) -> str:
    return _SKIPPED.sub(" ", piece).strip()


def _branches(pieces: list[str], start: int) -> tuple[list[list[str]], int]:
    """What stands between the directives of the conditional at `start`, and the index of its #endif."""
    branches: list[list[str]] = [[]]
    depth = 1
    for index in range(start + 1, len(pieces)):
        directive = _directive(pieces[index])
        depth += directive.startswith("#if") - directive.startswith("#endif")
        if depth == 0:
            return branches, index
        if depth == 1 and directive.startswith("#el"):
            branches.append([])
        else:
            branches[-1].append(pieces[index])
    raise AssertionError("a conditional without #endif")


def _known(directive: str) -> bool | None:
    """Whether the first branch of a conditional holds, None where the compiler has to decide."""
    condition = _CONDITION.match(directive)
    assert condition is not None, directive
    if condition[2] in UNDEFINED:
        return condition[1] == "ifndef"
    if condition[3] is not None and "TRIVET_PORTABLE" in condition[3]:
        return False
    return None


def _split(text: str) -> Iterator[str]:
    """Items as text: each ends with its directive line, its semicolon, its body or its expansion."""
    at = start = 0
    depth = 0
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            at = skipped.end()
            continue
        char = text[at]
        if char == "#" and depth == 0 and not _SKIPPED.sub(" ", text[start:at]).strip():
            at = _end_of_directive(text, at)
            yield text[start:at].strip("\n")
            start = at
            continue
        depth += (char in "({[") - (char in ")}]")
        at += 1
        if depth == 0 and (char == ";" or (char == "}" and _is_body(text[start:at])) or _is_expanded(text, start, at)):
            yield text[start:at].strip("\n")
            start = at
    if text[start:].strip():
        yield text[start:].strip("\n")


def _end_of_directive(text: str, at: int) -> int:
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        # A comment may go on behind the line, a backslash continues it.
        comment = text.rfind("/*", at, end)
        if comment >= 0 and text.find("*/", comment, end) < 0:
            at = text.find("*/", comment)
            continue
        if text[end - 1] != "\\":
            return end + 1
        at = end + 1


def _is_body(text: str) -> bool:
    """True iff the braces that end an item are those of a function."""
    head = _SKIPPED.sub(" ", text).partition("{")[0].rstrip()
    return head.endswith(")")


def _is_expanded(text: str, start: int, at: int) -> bool:
    """True iff a macro has been expanded as an item of its own: no semicolon follows."""
    if text[at - 1] != ")":
        return False
    head = _SKIPPED.sub(" ", text[start:at]).strip()
    return re.match(r"[A-Z][A-Z0-9_]*\(", head) is not None and re.match(r"\s*\n", text[at:]) is not None


def _names(code: str) -> tuple[set[str], bool]:
    """What an item defines, and whether only its own file sees it."""
    if code.startswith("#define"):
        return {IDENTIFIER.findall(code)[1]}, False
    if code.startswith("#"):
        return set(re.findall(r"#\s*define\s+(\w+)", code)), False
    expanded = _EXPANDED.match(code)
    if expanded is not None:
        return ({expanded[2]} if expanded[2].islower() else set()), True
    code = _ATTRIBUTE.sub("", code).strip()
    names = set(re.findall(r"\b(?:struct|enum|union)\s+(\w+)\s*\{", code))
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", code):
        names |= {m[0] for entry in body.split(",") if (m := IDENTIFIER.search(entry))}
    is_static = code.startswith("static")
    if code.startswith("typedef"):
        pointer = re.search(r"\(\*(\w+)\)\s*\(", code)
        names.add(pointer[1] if pointer else IDENTIFIER.findall(re.sub(r"\[[^\]]*\]", "", code))[-1])
        return names, is_static
    head = code.partition("{")[0] if "=" not in code.partition("{")[0] else code.partition("=")[0]
    function = re.search(r"(\w+)\s*\(", head)
    if function is not None and function[1] not in ("__attribute__",):
        names.add(function[1])
    elif not re.match(r"(?:struct|enum|union)\b[^=]*\{.*\}\s*;$", code, re.DOTALL):
        plain = IDENTIFIER.findall(re.sub(r"\[[^\]]*\]", "", head.rstrip("; ")))
        names |= set(plain[-1:])
    return names, is_static
