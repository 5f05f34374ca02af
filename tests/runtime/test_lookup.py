"""The int8 table kernel."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_runs import check_node, node_of

from trivet.core.dtype import I8
from trivet.core.quant import Quant
from trivet.ir.types import TensorType
from trivet.ops.activation import Lookup

QUANT = Quant.per_tensor(0.1, -3)
TABLE = np.random.default_rng(1).integers(-128, 128, 256).astype(np.int8)


@pytest.mark.parametrize("shape", [(256,), (1, 5, 7, 3), (2, 4, 3, 2), (3, 5)])
def test_lookup_maps_every_element(library: ctypes.CDLL, shape: tuple[int, ...]) -> None:
    type_ = TensorType(I8, shape, QUANT)
    x = np.resize(np.arange(-128, 128).astype(np.int8), shape)
    check_node(library, node_of(Lookup(QUANT), type_, (TABLE, TensorType(I8, (256,)))), [x])
