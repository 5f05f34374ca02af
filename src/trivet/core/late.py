"""Modules that are imported when one of their names is first used.

A command needs few of the modules that it might need, and importing takes much of its time. Whoever puts one off says
so where imports stand, so that the type checker and the import rules still see an ordinary import:

    if TYPE_CHECKING:
        from trivet.planning import streaming
    else:
        streaming = late("trivet.planning.streaming")
"""

from __future__ import annotations

import importlib
from types import ModuleType


def late(name: str) -> ModuleType:
    """A stand-in for the module called `name`, which is imported when an attribute of it is first asked for."""
    return _Late(name)


class _Late(ModuleType):
    def __getattr__(self, name: str) -> object:
        value: object = getattr(importlib.import_module(self.__name__), name)
        return value
