"""What a machine other than the C runtime offers to the driver: a backend, configured, makes artifacts that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trivet.core.record import dataclass
from trivet.ir.graph import Graph, Port
from trivet.ir.op import Array
from trivet.passes.base import Pass

if TYPE_CHECKING:
    from trivet.passes.stages import StageManager


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """What the user says of the machine.

    `argument` is what follows the colon of `--target tpu:16`, `machine` a file that describes the machine, `isa` the
    name of an instruction set, `level` that of -O.
    """

    argument: str | None = None
    machine: Path | None = None
    isa: str | None = None
    level: int = 1


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run does beside computing: `trace` names a file for a Chrome trace, `check_races` looks for data races."""

    trace: Path | None = None
    check_races: bool = False


@dataclass(frozen=True, slots=True)
class Emitted:
    """An artifact: the bytes of every file by suffix, its main one first, and what it needs in words and figures."""

    files: Mapping[str, bytes]
    summary: str
    figures: Mapping[str, object]


class Machine(Protocol):
    """A backend that knows its machine."""

    def legalize(self) -> tuple[Pass, ...]:
        """Passes after which a graph is legal for the machine, or refused with every reason."""
        ...

    def emit(self, graph: Graph, stages: StageManager) -> Emitted:
        """The artifact of a legal graph, made stage by stage.

        Raises: CompileError, PassVerifyError.
        """
        ...


class Runnable(Protocol):
    """An artifact, ready to run on its simulator."""

    @property
    def input_ports(self) -> Sequence[Port]:
        """What it takes, as the model declares it, with what i32 inputs accept: the artifact must record that."""
        ...

    @property
    def output_ports(self) -> Sequence[Port]:
        """What it gives, as the model declares it."""
        ...

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs for inputs, both in storage order; states live on from run to run.

        Raises: CompileError where the machine traps.
        """
        ...

    def reset(self) -> None:
        """States get their initial values."""
        ...

    def summary(self) -> str:
        """What the last run cost, for people: one or several lines."""
        ...

    def figures(self) -> Mapping[str, object]:
        """What the last run cost, as JSON-ready figures."""
        ...


class Backend(Protocol):
    """A kind of machine; the module that the driver's registry names holds one as `BACKEND`.

    `stages` names everything below the graph that can be dumped, and disabled where it is a rewrite.
    """

    name: str
    stages: tuple[str, ...]

    def configure(self, options: MachineOptions) -> Machine:
        """The machine that the options describe.

        Raises: CompileError for an argument, a file or an instruction set that is none.
        """
        ...

    def read(self, path: Path, options: RunOptions) -> Runnable:
        """An artifact from its main file.

        Raises: InvalidModel with what is wrong, where.
        """
        ...
