"""A program as the stages of the compiler hand it on: printed, checked and interpreted by whoever watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trivet.backends.tpu.execute import run
from trivet.backends.tpu.ir import Program
from trivet.backends.tpu.text import print_program
from trivet.backends.tpu.verify import TooLarge, verify
from trivet.core.record import dataclass
from trivet.errors import DoesNotFit, InvalidModel
from trivet.ir.op import Array


@dataclass(frozen=True, slots=True)
class Tiles:
    """A program between two stages. It may be larger than its machine until buffers are placed."""

    program: Program

    def text(self) -> str:
        return print_program(self.program)

    def violations(self) -> Iterable[str]:
        """Raises: DoesNotFit where the program is more than the simulator takes."""
        try:
            verify(self.program, fits=False)
        except TooLarge as error:
            raise DoesNotFit(f"the TPU's simulator does not take {error.message}", where=error.where) from None
        except InvalidModel as error:
            yield str(error)

    def interpret(self, invocations: Sequence[Sequence[Array]]) -> list[list[Array]]:
        results, states = [], None
        for arrays in invocations:
            outputs, states = run(self.program, arrays, states)
            results.append(outputs)
        return results
