"""Recipes by operator, one file a family."""

from __future__ import annotations

from trivet.backends.gpu.kernels import elementwise, matmul
from trivet.backends.gpu.recipe import RECIPES

__all__ = ["RECIPES", "elementwise", "matmul"]
