"""What can go wrong with a user's model, file or budget.

Every error here is the *user's* to act on: the command line prints it without a traceback and exits 1. Faults of the
compiler itself are assertions or `PassVerifyError`, which is raised by the pass manager and exits 3.
"""

from __future__ import annotations

from collections.abc import Sequence


class CompileError(Exception):
    """A model, file or budget that cannot be compiled.

    `message` says what was found and what is accepted, `where` names the place in the source model, and `hint` says
    what to do next.
    """

    def __init__(self, message: str, *, where: object = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where is not None else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class InvalidModel(CompileError):
    """The file is not what it claims to be, or contradicts itself."""


class Unsupported(CompileError):
    """The model is valid, and asks for something that Trivet does not do."""


class DoesNotFit(CompileError):
    """The computation needs more memory than a stated budget."""


class InvalidTarget(CompileError):
    """A file that should describe a machine does not, or not so that it makes sense."""


class ExtensionFault(CompileError):
    """An installed package adds something to Trivet that does not fit."""


class MayOverflow(CompileError):
    """Exact integer arithmetic could leave its type."""


class Problems(CompileError):
    """Every problem of one model in one report.

    `problems` keeps the individual errors in the order in which they were met. `notes` say what was decided for the
    user before they arose.
    """

    def __init__(self, subject: str, problems: Sequence[CompileError], notes: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        plural = "problem" if len(self.problems) == 1 else "problems"
        lines = [f"{subject}: {len(self.problems)} {plural}"]
        for index, problem in enumerate(self.problems, 1):
            first, *rest = str(problem).splitlines()
            lines.append(f"  {index}. {first}")
            lines.extend(f"     {line}" for line in rest)
        lines.extend(f"  note: {note}" for note in notes)
        super().__init__("\n".join(lines))
