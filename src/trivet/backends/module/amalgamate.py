"""Kernels for a module: of the runtime's sources exactly the items that are reached from the kernels it calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from trivet.backends.module.csource import IDENTIFIER, Item, Source, read_source
from trivet.core.record import dataclass

RUNTIME = Path(__file__).parents[2] / "runtime"
INTERFACE = RUNTIME / "include"
STATUS = INTERFACE / "trivet" / "status.h"


@dataclass(frozen=True, slots=True)
class Amalgamation:
    """C text of the items reached: what several files need to see, and what only the kernels do."""

    system: tuple[str, ...]
    interface: str
    implementation: str


class Library:
    """All items of the runtime's portable sources; a module has statuses of its own, unless `statuses`."""

    def __init__(self, files: Iterable[Path], statuses: bool = False) -> None:
        self._left_out = None if statuses else STATUS
        self._sources: dict[Path, Source] = {}
        for file in files:
            self._read(file)
        self._everywhere: dict[str, list[Item]] = defaultdict(list)
        self._local: dict[Path, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
        for source in self._sources.values():
            for item in source.items:
                for name in item.names:
                    self._table(item)[name].append(item)
        # What such a macro defines has names that are put together.
        self._pasting = frozenset(
            name
            for source in self._sources.values()
            for item in source.items
            if item.code.startswith("#define") and "##" in item.code
            for name in item.names
        )

    def _read(self, file: Path) -> None:
        """A file after what it includes, so that every name comes before its use."""
        if file in self._sources:
            return
        source = read_source(file, (INTERFACE,))
        for included in source.includes:
            self._read(included)
        self._sources[file] = source

    def _table(self, item: Item) -> dict[str, list[Item]]:
        return self._local[item.file] if _is_local(item) else self._everywhere

    def definition(self, name: str) -> str:
        """The text that defines a name which all files see."""
        return "\n\n".join(item.text.strip("\n") for item in self._everywhere[name])

    def files(self, roots: Iterable[str]) -> list[Path]:
        """The C files that hold what `roots` need."""
        return sorted({item.file for item in self._reached(roots).values() if item.file.suffix == ".c"})

    def take(self, roots: Iterable[str], without: Iterable[str] = ()) -> Amalgamation:
        """Everything that `roots` need but what defines the names in `without`, in an order in which it compiles."""
        left_out = frozenset(without)
        reached = {key: item for key, item in self._reached(roots).items() if not item.names & left_out}
        renamed = _renamings(reached)
        parts: dict[bool, list[str]] = {True: [], False: []}
        system: list[str] = []
        for source in self._sources.values():
            items = [item for item in source.items if id(item) in reached and source.path != self._left_out]
            if not items:
                continue
            system += [name for name in source.system if name not in system]
            names = renamed.get(source.path, {})
            text = "\n\n".join(_rename(item.text.strip("\n"), names) for item in items)
            parts[INTERFACE in source.path.parents].append(text)
        return Amalgamation(tuple(sorted(system)), "\n\n".join(parts[True]), "\n\n".join(parts[False]))

    def _reached(self, roots: Iterable[str]) -> dict[int, Item]:
        reached: dict[int, Item] = {}
        pending = [item for root in roots for item in self._everywhere[root]]
        while pending:
            item = pending.pop()
            if id(item) in reached:
                continue
            reached[id(item)] = item
            pending += self._needed(item)
        return reached

    def _needed(self, item: Item) -> list[Item]:
        """What an item refers to; and what its file expands or undefines, which shows no names."""
        local = self._local[item.file]
        found: list[Item] = []
        for name in item.references():
            found += local.get(name) or self._everywhere.get(name, [])
        if _is_local(item) and item.file.suffix == ".c":
            found += [
                other
                for other in self._sources[item.file].items
                if other.is_expansion or (other.macro is not None and other.macro in self._pasting)
            ]
        return found


def _is_local(item: Item) -> bool:
    """True iff only the item's own file may use its names."""
    return item.file.suffix == ".c" and (item.is_static or item.code.startswith(("#", "typedef", "enum", "struct")))


def _renamings(reached: dict[int, Item]) -> dict[Path, dict[str, str]]:
    """New names, by file, for local ones that other files use too, if only inside of functions."""
    users: dict[str, set[Path]] = defaultdict(set)
    for item in reached.values():
        for name in item.references():
            users[name].add(item.file)
    renamed: dict[Path, dict[str, str]] = defaultdict(dict)
    for item in reached.values():
        for name in item.names if _is_local(item) else ():
            if users[name] - {item.file}:
                stem = item.file.stem.upper() if name.isupper() else item.file.stem
                renamed[item.file][name] = f"{name}_{stem}"
    return renamed


_PLAIN = re.compile(r"(?<!->)(?<!\.)" + IDENTIFIER.pattern)
_IN_STRUCT = re.compile(r"(?<=\} )[A-Za-z_]\w*|" + IDENTIFIER.pattern + r"(?!\w|\s*[;,\[])")
"""Members keep their names: they are behind an arrow or a dot, or end a declaration."""


def _rename(text: str, names: dict[str, str]) -> str:
    identifier = _IN_STRUCT if re.search(r"\bstruct\b[^;]*\{", text.partition("(")[0]) else _PLAIN
    return identifier.sub(lambda m: names.get(m[0], m[0]), text) if names else text


def kernel_library() -> Library:
    """The portable kernels, and what they share."""
    files = sorted(p for p in (RUNTIME / "src" / "kernels").glob("*.c") if not re.search(r"_avx\w*\.c$", p.name))
    return Library([RUNTIME / "src" / "kernel_table.c", *files])
