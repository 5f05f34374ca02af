"""Recipes by operator, one file a family."""

from __future__ import annotations

from trivet.backends.gpu.kernels import arithmetic, conv, dense, elementwise, matmul, pool, reduce, softmax
from trivet.backends.gpu.recipe import RECIPES

__all__ = ["RECIPES", "arithmetic", "conv", "dense", "elementwise", "matmul", "pool", "reduce", "softmax"]
