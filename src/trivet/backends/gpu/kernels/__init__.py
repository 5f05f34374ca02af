"""Recipes by operator, one file a family."""

from __future__ import annotations

from trivet.backends.gpu.kernels import conv, dense, elementwise, matmul, pool, reduce, softmax
from trivet.backends.gpu.recipe import RECIPES

__all__ = ["RECIPES", "conv", "dense", "elementwise", "matmul", "pool", "reduce", "softmax"]
