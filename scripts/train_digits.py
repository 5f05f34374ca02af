"""Train the small convolutional network that ships with the project, and save its float weights.

Data: the 1,797 digits that scikit-learn ships, enlarged to 32x32. Plain numpy, a few minutes on one core:

    python scripts/train_digits.py build/digits.npz
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

Floats = npt.NDArray[np.float32]

BLOCKS = ((8, 16, 1), (16, 32, 2), (32, 32, 1))
"""Input channels, output channels and stride of each depthwise + pointwise block."""


def images() -> tuple[Floats, npt.NDArray[np.int64]]:
    """Digits as [1797, 32, 32, 1] in [-1, 1), bilinear from 8x8, and their labels."""
    data = load_digits()
    small = data.images.astype(np.float32) / 8.0 - 1.0
    at = np.clip((np.arange(32) + 0.5) / 4 - 0.5, 0, 7)
    low = np.floor(at).astype(int)
    high, part = np.minimum(low + 1, 7), (at - low).astype(np.float32)
    rows = small[:, low] * (1 - part)[:, None] + small[:, high] * part[:, None]
    both = rows[:, :, low] * (1 - part) + rows[:, :, high] * part
    return both[..., None].astype(np.float32), data.target.astype(np.int64)


def windows(x: Floats, stride: int) -> Floats:
    """3x3 windows with SAME padding: [N, H, W, C] -> [N, H/stride, W/stride, 9, C]."""
    n, h, w, c = x.shape
    before, after = (1, 1) if stride == 1 else (0, 1)
    p = np.pad(x, ((0, 0), (before, after), (before, after), (0, 0)))
    out = np.empty((n, h // stride, w // stride, 9, c), np.float32)
    for k in range(9):
        out[..., k, :] = p[:, k // 3 : k // 3 + h : stride, k % 3 : k % 3 + w : stride][:, : h // stride, : w // stride]
    return out


def scatter(g: Floats, stride: int, shape: tuple[int, ...]) -> Floats:
    """The transpose of `windows`."""
    n, h, w, c = shape
    before, after = (1, 1) if stride == 1 else (0, 1)
    p = np.zeros((n, h + before + after, w + before + after, c), np.float32)
    for k in range(9):
        p[:, k // 3 : k // 3 + h : stride, k % 3 : k % 3 + w : stride] += g[..., k, :]
    return p[:, before : before + h, before : before + w]


class Network:
    """conv 3x3 s2, three depthwise-separable blocks, global average pool, dense; ReLU after every convolution."""

    def __init__(self, rng: np.random.Generator) -> None:
        def normal(*shape: int, fan_in: int) -> Floats:
            return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)

        self.p: dict[str, Floats] = {"conv.w": normal(9, 8, fan_in=9), "conv.b": np.zeros(8, np.float32)}
        for i, (inputs, outputs, _) in enumerate(BLOCKS):
            self.p[f"dw{i}.w"] = normal(9, inputs, fan_in=9)
            self.p[f"dw{i}.b"] = np.zeros(inputs, np.float32)
            self.p[f"pw{i}.w"] = normal(inputs, outputs, fan_in=inputs)
            self.p[f"pw{i}.b"] = np.zeros(outputs, np.float32)
        self.p["dense.w"] = normal(32, 10, fan_in=32)
        self.p["dense.b"] = np.zeros(10, np.float32)

    def forward(self, x: Floats) -> tuple[Floats, list[tuple[Floats, ...]]]:
        """Logits, and what the backward pass needs."""
        p = self.p
        cols = windows(x, 2)[..., 0]
        a = np.maximum(cols @ p["conv.w"] + p["conv.b"], 0)
        tape: list[tuple[Floats, ...]] = [(cols, a)]
        for i, (_, _, stride) in enumerate(BLOCKS):
            cols = windows(a, stride)
            d = np.maximum(np.einsum("nhwkc,kc->nhwc", cols, p[f"dw{i}.w"]) + p[f"dw{i}.b"], 0)
            b = np.maximum(d @ p[f"pw{i}.w"] + p[f"pw{i}.b"], 0)
            tape.append((a, cols, d, b))
            a = b
        pooled = a.mean((1, 2))
        tape.append((pooled,))
        return pooled @ p["dense.w"] + p["dense.b"], tape

    def backward(self, grad: Floats, tape: list[tuple[Floats, ...]]) -> dict[str, Floats]:
        """Gradients of the parameters from the gradient of the logits."""
        p = self.p
        (pooled,) = tape[-1]
        g = {"dense.w": pooled.T @ grad, "dense.b": grad.sum(0)}
        last = tape[-2][3]
        da = np.broadcast_to((grad @ p["dense.w"].T)[:, None, None] / (last.shape[1] * last.shape[2]), last.shape)
        for i in reversed(range(len(BLOCKS))):
            a, cols, d, b = tape[i + 1]
            da = da * (b > 0)
            g[f"pw{i}.w"] = np.tensordot(d, da, ((0, 1, 2), (0, 1, 2)))
            g[f"pw{i}.b"] = da.sum((0, 1, 2))
            dd = (da @ p[f"pw{i}.w"].T) * (d > 0)
            g[f"dw{i}.w"] = np.einsum("nhwkc,nhwc->kc", cols, dd)
            g[f"dw{i}.b"] = dd.sum((0, 1, 2))
            da = scatter(dd[..., None, :] * p[f"dw{i}.w"], BLOCKS[i][2], a.shape)
        cols, a = tape[0]
        da = da * (a > 0)
        g["conv.w"] = np.tensordot(cols, da, ((0, 1, 2), (0, 1, 2)))
        g["conv.b"] = da.sum((0, 1, 2))
        return g


def train(epochs: int = 30) -> Network:
    """Adam on softmax cross-entropy; every fifth image is held out."""
    rng = np.random.default_rng(0)
    x, y = images()
    held_out = np.arange(len(x)) % 5 == 0
    train_x, train_y = x[~held_out], y[~held_out]
    network = Network(rng)
    first = {k: np.zeros_like(v) for k, v in network.p.items()}
    second = {k: np.zeros_like(v) for k, v in network.p.items()}
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(train_x))
        rate = 0.004 * 0.5 * (1 + np.cos(np.pi * epoch / epochs)) + 1e-5
        for start in range(0, len(order), 32):
            batch = order[start : start + 32]
            logits, tape = network.forward(train_x[batch])
            soft = np.exp(logits - logits.max(1, keepdims=True))
            soft /= soft.sum(1, keepdims=True)
            soft[np.arange(len(batch)), train_y[batch]] -= 1
            step += 1
            for name, grad in network.backward((soft / len(batch)).astype(np.float32), tape).items():
                first[name] = 0.9 * first[name] + 0.1 * grad
                second[name] = 0.999 * second[name] + 0.001 * grad**2
                scaled = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
                network.p[name] = network.p[name] - np.float32(rate) * (first[name] / (1 - 0.9**step)) / scaled
        guess = network.forward(x[held_out])[0].argmax(1)
        print(f"epoch {epoch + 1:2d}: held-out accuracy {np.mean(guess == y[held_out]):.3f}", flush=True)
    return network


def main() -> None:
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez(target, **{name: value.astype(np.float32) for name, value in train().p.items()})


if __name__ == "__main__":
    main()
