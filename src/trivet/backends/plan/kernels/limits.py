"""Numbers that the runtime's loader accepts in the parameters of several kernels: what lies beyond overflows there."""

from __future__ import annotations

SHIFTS = (-31, 30)
"""Of a Q0.31 multiplier."""

SCALES = (0.0, 1e30)
"""Real factors."""

SHIFTS_64 = (-31, 7)
"""Of a multiplier with a mantissa of 16 bits, on sums of 64."""
