"""What a kernel pass is."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from trivet.backends.gpu.ir import Kernel
from trivet.backends.gpu.machine import Machine


class KernelPass(Protocol):
    """One named rewrite of kernels, which keeps what they compute. Its docstring is before --> after."""

    @property
    def name(self) -> str: ...

    def run(self, kernel: Kernel, machine: Machine, fired: Counter[str]) -> Kernel:
        """The better kernel, or the same; `fired` counts the rewrites by name."""
        ...
