"""What the user says of a module."""

from __future__ import annotations

from enum import Enum

from trivet.core.record import dataclass


class Style(Enum):
    """`code`: the schedule is C. `plan`: the plan is an array that the runtime reads, to be replaced in the field."""

    CODE = "code"
    PLAN = "plan"


class ScheduleStyle(Enum):
    """`static`: straight calls and loops. `table`: a table that a small loop walks, with a callback around calls."""

    STATIC = "static"
    TABLE = "table"


class Memory(Enum):
    """Who owns the memory that a network works in: the module, statically, or its caller."""

    STATIC = "static"
    CALLER = "caller"


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """`prefix` begins every C name; `export` is one of the kinds of build files in `glue.EXPORTS`."""

    prefix: str
    style: Style = Style.CODE
    schedule: ScheduleStyle = ScheduleStyle.STATIC
    memory: Memory = Memory.STATIC
    export: str = "cmake"

    @property
    def has_callback(self) -> bool:
        return self.schedule is ScheduleStyle.TABLE and self.style is Style.CODE
