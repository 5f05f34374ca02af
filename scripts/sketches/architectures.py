"""The architectures. MobileNetV2 is the published one (Sandler and others, 2018, table 2); the rest are small."""

from __future__ import annotations

from collections.abc import Callable

from sketches.layers import Sketch

MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, repeats and first stride of each group of blocks."""


def rounded(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of `divisor` that loses at most a tenth of the channels."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest


def mobilenet_v2(resolution: int = 96, width: float = 0.35, classes: int = 1000, seed: int = 0) -> Sketch:
    net = Sketch("mobilenet_v2", seed)
    x = net.conv(net.input(resolution, resolution, 3), rounded(32 * width), 3, 2)
    for expansion, channels, repeats, first_stride in MOBILENET_V2:
        for repeat in range(repeats):
            x = inverted_residual(net, x, rounded(channels * width), expansion, first_stride if repeat == 0 else 1)
    x = net.mean(net.pointwise(x, max(1280, rounded(1280 * width))))
    return net.finish(net.dense(x, classes))


def inverted_residual(net: Sketch, x: int, channels: int, expansion: int, stride: int) -> int:
    y = x if expansion == 1 else net.pointwise(x, net.channels(x) * expansion)
    y = net.pointwise(net.depthwise(y, 3, stride), channels, act="")
    return net.add(x, y) if stride == 1 and net.channels(x) == channels else y


def unet(resolution: int = 128, channels: int = 16, depth: int = 3, seed: int = 0) -> Sketch:
    """Two 3x3 convolutions a level, skips over all levels, nearest upsampling."""
    net = Sketch("unet", seed)
    x = net.input(resolution, resolution, 3)
    skips = []
    for level in range(depth):
        x = net.conv(net.conv(x, channels << level, act="relu"), channels << level, act="relu")
        skips.append(x)
        x = net.max_pool(x)
    x = net.conv(net.conv(x, channels << depth, act="relu"), channels << depth, act="relu")
    for level in reversed(range(depth)):
        x = net.concat(skips[level], net.conv(net.upsample(x), channels << level, act="relu"))
        x = net.conv(x, channels << level, act="relu")
    return net.finish(net.pointwise(x, 1, act=""))


def se_net(resolution: int = 96, seed: int = 0) -> Sketch:
    """Inverted residuals with squeeze and excitation."""
    net = Sketch("se_net", seed)
    x = net.conv(net.input(resolution, resolution, 3), 16, 3, 2)
    for channels, stride in ((16, 1), (24, 2), (24, 1), (40, 2), (40, 1)):
        y = net.depthwise(net.pointwise(x, net.channels(x) * 4), 3, stride)
        scale = net.pointwise(net.squeeze(y), net.channels(y) // 4, act="relu")
        scale = net.sigmoid(net.pointwise(scale, net.channels(y), act=""))
        y = net.pointwise(net.mul(y, scale), channels, act="")
        x = net.add(x, y) if stride == 1 and net.channels(x) == channels else y
    return net.finish(net.dense(net.mean(net.pointwise(x, 128)), 10))


def dense_blocks(resolution: int = 32, growth: int = 8, layers: int = 4, seed: int = 0) -> Sketch:
    """Three dense blocks with transitions that halve channels and sizes."""
    net = Sketch("dense_blocks", seed)
    x = net.conv(net.input(resolution, resolution, 3), 2 * growth, act="relu")
    for block in range(3):
        for _ in range(layers):
            x = net.concat(x, net.conv(net.pointwise(x, 2 * growth, act="relu"), growth, act="relu"))
        if block < 2:
            x = net.max_pool(net.pointwise(x, net.channels(x) // 2, act="relu"))
    return net.finish(net.dense(net.mean(x), 10))


def inception(resolution: int = 48, seed: int = 0) -> Sketch:
    """Blocks of four branches: 1x1, 3x3, two 3x3, pool and 1x1."""
    net = Sketch("inception", seed)
    x = net.conv(net.input(resolution, resolution, 3), 16, 3, 2, act="relu")
    for stride in (1, 2, 1):
        branches = [net.conv(x, 8, 1, stride, act="relu")]
        branches.append(net.conv(net.pointwise(x, 8, act="relu"), 16, 3, stride, act="relu"))
        narrow = net.conv(net.pointwise(x, 4, act="relu"), 8, act="relu")
        branches.append(net.conv(narrow, 8, 3, stride, act="relu"))
        branches.append(net.pointwise(net.max_pool(x, 3, stride), 8, act="relu"))
        x = net.concat(*branches)
    return net.finish(net.dense(net.mean(x), 10))


def audio(samples: int = 1600, seed: int = 0) -> Sketch:
    """A 1-D network: its length is the row axis, its width is 1."""
    net = Sketch("audio", seed)
    x = net.conv(net.input(samples, 1, 1), 16, 9, 4, act="relu")
    for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        y = net.pointwise(net.depthwise(x, 5, stride, act="relu"), channels, act="relu")
        x = net.add(x, y) if stride == 1 and net.channels(x) == channels else y
    return net.finish(net.dense(net.mean(x), 12))


def synthetic(operators: int, seed: int = 0) -> Sketch:
    """A network of about so many operators: small residual blocks with branches, pooled now and then."""
    net = Sketch(f"synthetic_{operators}", seed)
    x = net.conv(net.input(32, 32, 3), 8, act="relu")
    while len(net.layers) < operators - 2:
        y = net.depthwise(net.pointwise(x, 16, act="relu"), 3, act="relu")
        if net.random.integers(3) == 0:
            y = net.concat(net.pointwise(y, 4, act="relu"), net.conv(x, 4, act="relu"))
        else:
            y = net.pointwise(y, 8, act="")
        x = net.add(x, y)
        if net.shape(x)[1] > 4 and len(net.layers) * 4 > operators * (1 + [32, 16, 8].index(net.shape(x)[1])):
            x = net.max_pool(x)
    return net.finish(net.dense(net.mean(x), 10))


ARCHITECTURES: dict[str, Callable[[], Sketch]] = {
    "mobilenet_v2_96": lambda: mobilenet_v2(96),
    "mobilenet_v2_144": lambda: mobilenet_v2(144),
    "mobilenet_v2_224": lambda: mobilenet_v2(224),
    "unet_128": unet,
    "se_net_96": se_net,
    "dense_blocks": dense_blocks,
    "inception": inception,
    "audio": audio,
}
"""What tests and benchmarks draw from, by name."""
