"""Modules that are imported when one of their names is first used.

A command needs few of the modules that it might need, and importing takes much of its time. Whoever puts one off says
so where imports stand, so that the type checker and the import rules still see an ordinary import:

    if TYPE_CHECKING:
        from trivet.planning import streaming
    else:
        streaming = late("trivet.planning.streaming")

What others import can be put off as well, by a process that is Trivet's own: `put_off`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def late(name: str) -> ModuleType:
    """A stand-in for the module called `name`, which is imported when an attribute of it is first asked for."""
    return _Late(name)


class _Late(ModuleType):
    def __getattr__(self, name: str) -> object:
        value: object = getattr(importlib.import_module(self.__name__), name)
        return value


def put_off(modules: Mapping[str, Mapping[str, object]]) -> None:
    """From now on these modules are run when a name of them is first asked for, whoever imports them.

    A module may come with values for some of its names, which are given without running it.
    """
    sys.meta_path.insert(0, _LateFinder(modules))


class _LateFinder:
    """Finds the modules that are put off where they are, and has them loaded late."""

    def __init__(self, modules: Mapping[str, Mapping[str, object]]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self.modules else None
        if spec is not None:
            loader: Any = _LateLoader(spec.loader, self.modules[name])
            spec.loader = loader
        return spec


class _LateLoader:
    def __init__(self, loader: Any, known: Mapping[str, object]) -> None:
        self.loader = loader
        self.known = known

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _PutOff


class _PutOff(ModuleType):
    """A module that was imported and has not run. Python asks `__getattr__` for names that it does not have yet."""

    def __getattr__(self, name: str) -> object:
        spec: Any = self.__spec__
        known: Mapping[str, object] = spec.loader.known
        if name in known:
            return known[name]
        object.__setattr__(self, "__class__", ModuleType)
        self.__loader__ = spec.loader = spec.loader.loader
        spec.loader.exec_module(self)
        value: object = getattr(self, name)
        return value
