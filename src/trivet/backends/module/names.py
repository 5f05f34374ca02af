"""C identifiers for what a module holds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trivet.errors import Unsupported

KEYWORDS = frozenset({
    "alignas", "alignof", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const",
    "constexpr", "continue", "default", "delete", "do", "double", "else", "enum", "explicit", "export",
    "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace",
    "new", "noexcept", "nullptr", "operator", "private", "protected", "public", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true",
    "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "while",
})  # fmt: skip
"""Words of C and C++."""

LONGEST = 24
"""Characters of a layer's name that its identifier keeps."""


def default_prefix(name: str) -> str:
    """A prefix for the model in a file of that name."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"
    return f"model_{words}" if words[0].isdigit() or words in KEYWORDS else words


def check_prefix(prefix: str) -> str:
    """The prefix, if C takes it at the start of every name.

    Raises: Unsupported.
    """
    if re.fullmatch(r"[a-z][a-z0-9_]*", prefix) is None or prefix in KEYWORDS or prefix == "trivet":
        raise Unsupported(
            f"'{prefix}' cannot be the prefix of C names",
            hint="give a word of small letters, digits and _ that begins with a letter and is no keyword",
        )
    return prefix


def unique_identifiers(names: Iterable[str]) -> list[str]:
    """An identifier for each name, in order, all different."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        word = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower()[-LONGEST:].strip("_") or "layer"
        word = f"layer_{word}" if word[0].isdigit() or word in KEYWORDS else word
        seen[word] = seen.get(word, 0) + 1
        found.append(word if seen[word] == 1 else f"{word}_{seen[word]}")
    return found


def namespaced(text: str, prefix: str) -> str:
    """The runtime's C text with the module's prefix on every name."""
    text = re.sub(r"\btrivet_", f"{prefix}_", text)
    return re.sub(r"\bTRIVET_", f"{prefix.upper()}_", text)
