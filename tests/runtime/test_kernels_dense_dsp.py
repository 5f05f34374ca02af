"""Dense layers of one row for the DSP extension: the portable body of its loop equals the operator in every byte."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_runs import check_node, node_of
from product_cases import Layers

from trivet.backends.plan.kernels.dense_dsp import pack_groups
from trivet.backends.plan.kernels.table import KERNELS
from trivet.core.bounds import UNBOUNDED, Bounds
from trivet.core.numerics import Numerics
from trivet.ops.matmul import Dense

DSP = frozenset({"dsp"})


@pytest.mark.parametrize("relu", [True, False], ids=["relu", "linear"])
@pytest.mark.parametrize(("inputs", "outputs"), [(640, 128), (8, 128), (1, 4), (13, 7), (67, 66), (1300, 5), (24, 10)])
def test_dense_dsp_s8(library: ctypes.CDLL, inputs: int, outputs: int, relu: bool) -> None:
    layers = Layers(inputs + outputs)
    x, x_type = layers.activation((1, inputs))
    out = layers.out(inputs)
    clamp = Bounds(out.zero_point, 127) if relu else UNBOUNDED
    w, w_type = layers.weights((outputs, inputs))
    if inputs > 1000:  # sums of so many products stay below 2^23
        w //= 20
    op = Dense(clamp=clamp, out=out, numerics=Numerics.TFLM)
    node = node_of(op, x_type, (w, w_type), layers.bias(outputs, 3000))
    call = KERNELS.select(node, DSP)
    assert call is not None and call.kernel.name == "dense_dsp_s8"
    check_node(library, node, [x], call=call)


@pytest.mark.parametrize(("rows", "outputs"), [(3, 8), (1, 3)])
def test_several_rows_and_few_results_go_elsewhere(library: ctypes.CDLL, rows: int, outputs: int) -> None:
    layers = Layers(outputs)
    x, x_type = layers.activation((rows, 12))
    node = node_of(Dense(out=layers.out(12), numerics=Numerics.TFLM), x_type, layers.weights((outputs, 12)))
    call = KERNELS.select(node, DSP)
    assert call is not None and call.kernel.name == "conv_dsp_s8"
    check_node(library, node, [x], call=call)


def test_weights_are_filled_up_and_grouped() -> None:
    packed = pack_groups(np.arange(15).reshape(5, 3))
    assert packed.shape == (2, 2, 4, 4) and not packed[:, 1].any()
    assert packed[1, 0, :, :3].tolist() == [[3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14]]
