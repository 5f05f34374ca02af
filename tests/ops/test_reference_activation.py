"""Functions of one operand against TensorFlow Lite Micro and LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import (
    CONTRACTS,
    LIMITS,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    TfliteModel,
    assert_same,
    fused,
    integer,
    operand,
    quant,
    rngs,
    seed,
)

from trivet.core.bounds import Bounds
from trivet.core.dtype import F32, I8, I16, DType
from trivet.core.fixedpoint import round_half_away
from trivet.core.numerics import Numerics
from trivet.core.quant import Quant
from trivet.ir.op import Op
from trivet.ir.types import TensorType
from trivet.ops import activation as a
from trivet.ops import mathematics as m
from trivet.ops.softmax import LogSoftmax, Softmax

CASES = 30
FLOAT = pytest.param(None, F32, id="f32")
EIGHT_BITS = [case for case in CONTRACTS if case.values[1] is I8]
LITERT_I8 = [case for case in CONTRACTS if case.values == (Numerics.LITERT, I8)]
TFLM_I8 = [case for case in CONTRACTS if case.values == (Numerics.TFLM, I8)]


def check(
    name: str, op: Op, numerics: Numerics | None, types: tuple[TensorType, ...], arrays: tuple[np.ndarray, ...],
    options: str | None = None, version: int = 2, **fields: float | bool,
) -> None:  # fmt: skip
    model = TfliteModel(numerics)
    ids = [model.tensor(type_) for type_ in types]
    y = model.tensor(op.infer(types)[0])
    model.builder.operator(name, ids, [y], options, version=version, **fields)
    assert_same(op, types, arrays, model.run(ids, y, arrays), tolerance=1e-6)


def every(rng: np.random.Generator, dtype: DType) -> tuple[TensorType, np.ndarray]:
    """An operand that holds every int8 value, or many of the others."""
    type_, x = operand(rng, (1, 8, 8, 8), dtype)
    if dtype is I8:
        x = np.tile(np.arange(-128, 128), 2).reshape(x.shape).astype(np.int8)
    return type_, x


def similar(rng: np.random.Generator, x: TensorType) -> Quant | None:
    return None if x.quant is None else quant(rng, x.dtype, x.quant.scale * 2.0 ** rng.uniform(-1.5, 2))


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
@pytest.mark.parametrize("kind", [a.Logistic, a.Tanh], ids=lambda kind: kind.name)
def test_sigmoids(
    kind: type[a.Logistic | a.Tanh], numerics: Numerics, dtype: DType, request: pytest.FixtureRequest
) -> None:
    """Under the output quantization that TensorFlow Lite prescribes."""
    zero, scale = (-128, 1 / 256) if kind is a.Logistic else (0, 1 / 128)
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        out = {F32: None, I8: Quant.per_tensor(scale, zero), I16: Quant.per_tensor(1 / 32768, 0)}[dtype]
        check(kind.name.upper(), kind(out, numerics), numerics, (x_type,), (x,))


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
def test_relu_rescales(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        out = similar(rng, x_type)
        op = a.Clamp(fused(RELU, out), out is not None, out, numerics)
        check("RELU", op, numerics, (x_type,), (x,))


@pytest.mark.parametrize("code", [RELU6, RELU_N1_TO_1], ids=["relu6", "relu_n1_to_1"])
@pytest.mark.parametrize(("numerics", "dtype"), LITERT_I8)
def test_bounded_relu_rescales_in_litert(
    code: int, numerics: Numerics, dtype: DType, request: pytest.FixtureRequest
) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        out = similar(rng, x_type)
        name = "RELU6" if code == RELU6 else "RELU_N1_TO_1"
        op = a.Clamp(fused(code, out), True, out, numerics)
        check(name, op, numerics, (x_type,), (x,), version=2 if code == RELU6 else 1)


def test_relu6_never_rescales_in_tflm(request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, I8)
        assert x_type.quant is not None
        zero = x_type.quant.zero_point
        six = zero + int(round_half_away(np.float32(LIMITS[RELU6][1]) / np.float32([x_type.quant.scale]))[0])
        if six <= 127:
            op = a.Clamp(Bounds(zero, six), False, similar(rng, x_type), Numerics.TFLM)
            check("RELU6", op, Numerics.TFLM, (x_type,), (x,))


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
def test_leaky_relu(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        alpha = float(np.float32(rng.uniform(-0.5, 0.9)))
        op = a.LeakyRelu(alpha, similar(rng, x_type), numerics)
        check("LEAKY_RELU", op, numerics, (x_type,), (x,), "LeakyReluOptions", alpha=alpha)


@pytest.mark.parametrize(("numerics", "dtype"), [*EIGHT_BITS, FLOAT])
def test_prelu(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        slope_type, slope = operand(rng, (1, 1, 8), dtype)
        op = a.PRelu(similar(rng, x_type), numerics)
        check("PRELU", op, numerics, (x_type, slope_type), (x, slope), version=1)


@pytest.mark.parametrize(("numerics", "dtype"), [*EIGHT_BITS, FLOAT])
def test_hard_swish(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    """Result scales of at least 1/128 of the operand's, as the kernels demand."""
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        check("HARD_SWISH", a.HardSwish(similar(rng, x_type), numerics), numerics, (x_type,), (x,), version=1)


@pytest.mark.parametrize(("numerics", "dtype"), [*TFLM_I8, *LITERT_I8, FLOAT])
def test_abs(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        out = x_type.quant if integer(rng, 0, 1) else similar(rng, x_type)
        check("ABS", m.Abs(out, numerics), numerics, (x_type,), (x,), "AbsOptions")


@pytest.mark.parametrize(("numerics", "dtype"), TFLM_I8)
def test_elu(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        check("ELU", a.Elu(1.0, similar(rng, x_type), numerics), numerics, (x_type,), (x,))


@pytest.mark.parametrize("approximate", [False, True], ids=["erf", "tanh"])
@pytest.mark.parametrize(("numerics", "dtype"), [*LITERT_I8, FLOAT])
def test_gelu(numerics: Numerics | None, dtype: DType, approximate: bool, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        op = a.Gelu(approximate, similar(rng, x_type), numerics)
        model = TfliteModel(numerics if numerics is not None else Numerics.LITERT)
        ids = [model.tensor(x_type)]
        y = model.tensor(op.infer((x_type,))[0])
        model.builder.operator("GELU", ids, [y], "GeluOptions", version=2, approximate=approximate)
        assert_same(op, (x_type,), (x,), model.run(ids, y, (x,)), tolerance=1e-6)


@pytest.mark.parametrize(("numerics", "dtype"), [*LITERT_I8, FLOAT])
def test_exp(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = every(rng, dtype)
        check("EXP", m.Exp(similar(rng, x_type), numerics), numerics, (x_type,), (x,), "ExpOptions")


SCORES = {I8: Quant.per_tensor(1 / 256, -128), I16: Quant.per_tensor(1 / 32768, 0), F32: None}


@pytest.mark.parametrize(("numerics", "dtype"), [*CONTRACTS, FLOAT])
def test_softmax(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (integer(rng, 1, 9), integer(rng, 1, 300)), dtype)
        beta = float(np.float32(rng.uniform(0.3, 2)))
        op = Softmax(1, beta, SCORES[dtype], dtype, numerics)
        check("SOFTMAX", op, numerics, (x_type,), (x,), "SoftmaxOptions", beta=beta)


@pytest.mark.parametrize(("numerics", "dtype"), [*TFLM_I8, *LITERT_I8])
def test_softmax_of_int8_to_int16(numerics: Numerics, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (integer(rng, 1, 9), integer(rng, 1, 300)), dtype)
        op = Softmax(1, 1.0, Quant.per_tensor(1 / 65536, -32768), I16, numerics)
        check("SOFTMAX", op, numerics, (x_type,), (x,), "SoftmaxOptions", beta=1.0)


@pytest.mark.parametrize(("numerics", "dtype"), [*EIGHT_BITS, FLOAT])
def test_log_softmax(numerics: Numerics | None, dtype: DType, request: pytest.FixtureRequest) -> None:
    for rng in rngs(seed(request), CASES):
        x_type, x = operand(rng, (integer(rng, 1, 9), integer(rng, 1, 100)), dtype)
        out = None if dtype is F32 else Quant.per_tensor(16 / 256, 127)
        check("LOG_SOFTMAX", LogSoftmax(1, out, numerics), numerics, (x_type,), (x,), "LogSoftmaxOptions")
