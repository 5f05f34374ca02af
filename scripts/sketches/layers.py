"""A network as a list of layers, before numbers: what the architectures say and what both writers read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Pads = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Layer:
    """One operator on the results of earlier layers, which are numbered from 0; shapes are channels last.

    `act` is "relu", "relu6" or nothing. `w` and `b` are float parameters: [O, KH, KW, C], [KH, KW, C] or [O, K].
    """

    kind: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    pads: Pads = ((0, 0), (0, 0))
    act: str = ""
    w: Floats | None = None
    b: Floats | None = None


@dataclass
class Sketch:
    """Layers under construction; every method appends one and returns its number. Padding is TensorFlow's SAME."""

    name: str
    seed: int = 0
    layers: list[Layer] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def shape(self, x: int) -> tuple[int, ...]:
        return self.layers[x].shape

    def channels(self, x: int) -> int:
        return self.shape(x)[-1]

    def input(self, height: int, width: int, channels: int) -> int:
        return self._add(Layer("input", (), (1, height, width, channels)))

    def conv(
        self, x: int, channels: int, kernel: int | tuple[int, int] = 3, stride: int = 1, act: str = "relu6"
    ) -> int:
        kernel, stride2, pads, shape = self._window(x, kernel, stride, channels)
        w = self._weights((channels, *kernel, self.channels(x)), math.prod(kernel) * self.channels(x))
        return self._add(Layer("conv", (x,), shape, stride2, pads, act, w, self._biases(channels)))

    def pointwise(self, x: int, channels: int, act: str = "relu6") -> int:
        return self.conv(x, channels, 1, 1, act)

    def depthwise(self, x: int, kernel: int | tuple[int, int] = 3, stride: int = 1, act: str = "relu6") -> int:
        kernel, stride2, pads, shape = self._window(x, kernel, stride, self.channels(x))
        w = self._weights((*kernel, shape[3]), math.prod(kernel))
        return self._add(Layer("depthwise", (x,), shape, stride2, pads, act, w, self._biases(shape[3])))

    def max_pool(self, x: int, size: int = 2, stride: int = 2) -> int:
        _, stride2, pads, shape = self._window(x, size, stride, self.channels(x))
        return self._add(Layer("max_pool", (x,), shape, stride2, pads, w=np.zeros((size, size), np.float32)))

    def add(self, a: int, b: int) -> int:
        return self._add(Layer("add", (a, b), self.shape(a)))

    def mul(self, a: int, b: int) -> int:
        """`b` may be [1, 1, 1, C]."""
        return self._add(Layer("mul", (a, b), self.shape(a)))

    def concat(self, *parts: int) -> int:
        channels = sum(self.channels(part) for part in parts)
        return self._add(Layer("concat", parts, (*self.shape(parts[0])[:3], channels)))

    def upsample(self, x: int) -> int:
        n, height, width, channels = self.shape(x)
        return self._add(Layer("upsample", (x,), (n, 2 * height, 2 * width, channels)))

    def sigmoid(self, x: int) -> int:
        return self._add(Layer("sigmoid", (x,), self.shape(x)))

    def squeeze(self, x: int) -> int:
        """Mean over rows and columns, which stay as axes of extent 1."""
        return self._add(Layer("squeeze", (x,), (1, 1, 1, self.channels(x))))

    def mean(self, x: int) -> int:
        return self._add(Layer("mean", (x,), (1, self.channels(x))))

    def dense(self, x: int, features: int, act: str = "") -> int:
        w = self._weights((features, self.channels(x)), self.channels(x))
        return self._add(Layer("dense", (x,), (1, features), act=act, w=w, b=self._biases(features)))

    def finish(self, *outputs: int) -> Sketch:
        self.outputs = list(outputs)
        return self

    def _add(self, layer: Layer) -> int:
        self.layers.append(layer)
        return len(self.layers) - 1

    def _window(
        self, x: int, kernel: int | tuple[int, int], stride: int, channels: int
    ) -> tuple[tuple[int, int], tuple[int, int], Pads, tuple[int, ...]]:
        """Kernel, stride, padding and result; an axis of extent 1 has a kernel and a stride of 1."""
        n, *sizes, _ = self.shape(x)
        wanted = (kernel, kernel) if isinstance(kernel, int) else kernel
        extents = tuple(k if size > 1 else 1 for k, size in zip(wanted, sizes, strict=True))
        strides = tuple(stride if size > 1 else 1 for size in sizes)
        counts = [-(-size // s) for size, s in zip(sizes, strides, strict=True)]
        totals = [
            max(0, (count - 1) * s + k - size)
            for count, s, k, size in zip(counts, strides, extents, sizes, strict=True)
        ]
        rows, columns = ((total // 2, total - total // 2) for total in totals)
        return (extents[0], extents[1]), (strides[0], strides[1]), (rows, columns), (n, *counts, channels)

    def _weights(self, shape: tuple[int, ...], fan_in: int) -> Floats:
        """He's initialization: activations keep their size from layer to layer."""
        return (self.random.standard_normal(shape) * math.sqrt(2 / fan_in)).astype(np.float32)

    def _biases(self, count: int) -> Floats:
        return (self.random.standard_normal(count) * 0.1).astype(np.float32)
