"""A second interpreter of TPU schedules, from `docs/tpu.md` alone: plain Python integers, one element at a time.

It shares no code with Trivet, and nothing in it is fast.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

Json = Any
FORMATS = {"i8": ("b", 1), "u8": ("B", 1), "i32": ("i", 4), "f32": ("f", 4)}
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


class Trap(Exception):
    """A value has left its type."""


def int32(x: int) -> int:
    if not LOWEST <= x <= HIGHEST:
        raise Trap(x)
    return x


def byte(x: int) -> int:
    if not -128 <= x <= 127:
        raise Trap(x)
    return x


def float32(x: float) -> float:
    """The nearest float32."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def wrap(x: int) -> int:
    return (x - LOWEST) % (1 << 32) + LOWEST


def high(a: int, b: int) -> int:
    return min((a * b + (1 << 30)) // (1 << 31), HIGHEST)


def rounded(x: int, divisor: int) -> int:
    """x / divisor, halves away from zero."""
    quotient = (2 * abs(x) + divisor) // (2 * divisor)
    return quotient if x >= 0 else -quotient


def scale(x: int, m: int, s: int) -> int:
    return high(wrap(x << s), m) if s > 0 else rounded(high(x, m), 1 << -s)


def saturated(x: int, k: int) -> int:
    limit = (1 << (31 - k)) - 1
    return HIGHEST if x > limit else LOWEST if x < -limit else x << k


class Machine:
    """One schedule. `run` gives the outputs as flat lists; states live on."""

    def __init__(self, text: str) -> None:
        self.schedule: Json = json.loads(text)
        self.size = self.schedule["machine"]["array"]
        raw = base64.b64decode(self.schedule["parameters"])
        self.p = struct.unpack(f"<{len(raw) // 4}i", raw)
        raw = base64.b64decode(self.schedule["tiles"])
        self.tiles = struct.unpack(f"<{len(raw)}b", raw)
        self.states = {s["buffer"]: base64.b64decode(s["data"]) for s in self.schedule["states"]}

    # Memory.

    def place(self, buffer: Json) -> tuple[str, int, int]:
        letter, width = FORMATS[buffer["dtype"]]
        return f"<{letter}", width, buffer["address"]

    def get(self, buffer: Json, element: int) -> int:
        letter, width, address = self.place(buffer)
        assert 0 <= element < buffer["elements"]
        return struct.unpack_from(letter, self.memory, address + element * width)[0]

    def put(self, buffer: Json, element: int, value: int) -> None:
        letter, width, address = self.place(buffer)
        assert 0 <= element < buffer["elements"]
        try:
            struct.pack_into(letter, self.memory, address + element * width, value)
        except struct.error:
            raise Trap(value) from None

    def bytes_of(self, index: int) -> slice:
        buffer = self.schedule["buffers"][index]
        _, width, address = self.place(buffer)
        return slice(address, address + buffer["elements"] * width)

    def run(self, inputs: list[list[int]]) -> list[list[int]]:
        self.memory = bytearray(self.schedule["machine"]["activation_bytes"])
        for constant in self.schedule["constants"]:
            self.memory[self.bytes_of(constant["buffer"])] = base64.b64decode(constant["data"])
        for index, data in self.states.items():
            self.memory[self.bytes_of(index)] = data
        buffers = self.schedule["buffers"]
        for port, values in zip(self.schedule["inputs"], inputs, strict=True):
            for element, value in enumerate(values):
                self.put(buffers[port["buffer"]], element, value)
        for layer in self.schedule["layers"]:
            getattr(self, layer["kind"])(layer)
        self.states = {index: bytes(self.memory[self.bytes_of(index)]) for index in self.states}
        ports = [buffers[port["buffer"]] for port in self.schedule["outputs"]]
        return [[self.get(buffer, element) for element in range(buffer["elements"])] for buffer in ports]

    # Views, targets, epilogues.

    def rows(self, view: Json) -> int:
        return view["batch"] * view["out"][0] * view["out"][1]

    def columns(self, view: Json) -> int:
        return view["kernel"][0] * view["kernel"][1] * view["channels"]

    def element(self, view: Json, m: int, k: int) -> int:
        rest, ox = divmod(m, view["out"][1])
        b, oy = divmod(rest, view["out"][0])
        tap, c = divmod(k, view["channels"])
        ky, kx = divmod(tap, view["kernel"][1])
        y = oy * view["stride"][0] + ky * view["dilation"][0] - view["pads"][0]
        x = ox * view["stride"][1] + kx * view["dilation"][1] - view["pads"][1]
        if not (0 <= y < view["image"][0] and 0 <= x < view["image"][1]):
            return view["fill"]
        n, dy, dx, dc = view["steps"]
        at = view["offset"] + b * n + y * dy + x * dx + c * dc
        return self.get(self.schedule["buffers"][view["buffer"]], at)

    def finish(self, layer: Json, v: int, m: int, n: int, columns: int) -> None:
        """Through the epilogue, to the target."""
        for step in layer.get("epilogue", ()):
            v = self.step(step, v, m, n, columns)
        target = layer["target"]
        line, place = divmod(m, target["line"])
        at = target["offset"] + line * target["line_step"] + place * target["row_step"] + n
        self.put(self.schedule["buffers"][target["buffer"]], at, v)

    def step(self, step: Json, v: int, m: int, n: int, columns: int) -> int:
        match step["kind"]:
            case "bias":
                return int32(v + self.p[step["at"] + n])
            case "relu":
                return max(v, 0)
            case "rescale":
                return scale(v, self.p[step["at"] + n], self.p[step["at"] + columns + n])
            case "round":
                return self.round(step, v, n)
            case "scale":
                return scale(int32(v << step["left"]), step["multiplier"], step["shift"])
            case "offset":
                return int32(v + step["value"])
            case "clamp":
                return min(max(v, step["lo"]), step["hi"])
            case "divide":
                magnitude = (abs(v) + step["by"] // 2) // step["by"]
                return magnitude if v >= 0 else -magnitude
            case "table":
                return self.p[step["at"] + 128 + byte(v)]
        return self.join(step, v, m, n)

    def round(self, step: Json, v: int, n: int) -> int:
        at = step["at"] + 2 * n
        (factor,) = struct.unpack("<d", struct.pack("<2i", *self.p[at : at + 2]))
        product = (v / step["divisor"]) * factor
        whole = math.floor(abs(product))
        rest = abs(product) - whole
        up = rest > 0.5 or (rest == 0.5 and (step["rounding"] == "away" or whole % 2))
        return min(max(int(math.copysign(1, product)) * (whole + bool(up)), -(1 << 30)), 1 << 30)

    def join(self, step: Json, v: int, m: int, n: int) -> int:
        assert step["kind"] == "join"
        r = int32(self.element(step["operand"], m, n) + step["offset"])
        if step["scale"] is not None:
            r = self.step({"kind": "scale", **step["scale"]}, r, m, n, 0)
        results = {"add": v + r, "sub": v - r, "mul": v * r, "min": min(v, r), "max": max(v, r)}
        return int32(results[step["operation"]])

    # Layers.

    def array(self, layer: Json) -> None:
        accumulators: dict[tuple[int, int], int] = {}
        fields = self.schedule["pass_fields"]
        for numbers in layer["passes"]:
            one = dict(zip(fields, numbers, strict=True))
            for m in range(one["row"], one["row"] + one["rows"]):
                self.stream(layer, one, m, accumulators)

    def stream(self, layer: Json, one: dict[str, int], m: int, accumulators: dict[tuple[int, int], int]) -> None:
        a, k, n = layer["a"], one["k"], one["n"]
        row = [self.element(a, m, k + i) for i in range(min(self.size, self.columns(a) - k))] if k >= 0 else []
        for j in range(min(self.size, layer["columns"] - n)):
            total = sum(x * self.weight(layer, one, i, j) for i, x in enumerate(row) if x)
            at = (one["acc"] + m - one["row"], j)
            if k >= 0:
                total = accumulators[at] = int32(total if one["first"] else accumulators[at] + total)
            if one["epilogue"]:
                self.finish(layer, total, m, n + j, layer["columns"])

    def weight(self, layer: Json, one: dict[str, int], i: int, j: int) -> int:
        if layer["b"] is None:
            return self.tiles[(one["tile"] * self.size + i) * self.size + j]
        return self.element(layer["b"], one["k"] + i, one["n"] + j)

    def vector(self, layer: Json) -> None:
        view = layer["a"]
        channels = view["channels"]
        for m in range(self.rows(view)):
            for c in range(channels):
                taps = [self.element(view, m, t * channels + c) for t in range(self.columns(view) // channels)]
                self.finish(layer, int32(sum(taps) if layer["reduce"] == "sum" else max(taps)), m, c, channels)

    def softmax(self, layer: Json) -> None:
        view, table = layer["a"], layer["table"]
        for m in range(self.rows(view)):
            x = [self.element(view, m, c) for c in range(self.columns(view))]
            e = [self.p[table + 255 + value - max(x)] for value in x]
            total = wrap(sum(rounded(power, 1 << 12) for power in e if power >= 0))
            zeros = 32 - (total % (1 << 32)).bit_length()
            a = wrap((total << zeros) - (1 << 31))
            h = rounded(a + HIGHEST, 2)
            r = 1515870810 + high(h, -1010580540)
            for _ in range(3):
                r = r + saturated(high(r, (1 << 29) - high(h, r)), 2)
            r = saturated(r, 1)
            shift = min(max(35 - zeros, 0), 31)
            for c, power in enumerate(e):
                y = -128 if power < 0 else min(max(rounded(high(r, power), 1 << shift) - 128, -128), 127)
                self.finish(layer, y, m, c, len(x))

    def quotient(self, layer: Json) -> None:
        view, target = layer["a"], self.schedule["buffers"][layer["target"]["buffer"]]
        lowest, highest = {"i8": (-128, 127), "u8": (0, 255)}[target["dtype"]]
        for m in range(self.rows(view)):
            x = [self.element(view, m, c) for c in range(self.columns(view))]
            e = [self.p[layer["table"] + 255 + value - max(x)] for value in x]
            for c, power in enumerate(e):
                y = round((power / sum(e)) / layer["scale"]) + layer["zero_point"]
                self.finish(layer, min(max(y, lowest), highest), m, c, len(x))

    def quantize(self, layer: Json) -> None:
        view, target = layer["a"], self.schedule["buffers"][layer["target"]["buffer"]]
        lowest, highest = {"i8": (-128, 127), "u8": (0, 255)}[target["dtype"]]
        for m in range(self.rows(view)):
            for c in range(self.columns(view)):
                t = float32(self.element(view, m, c) / float32(layer["scale"]))
                if math.isnan(t) or math.isinf(t):
                    y = highest if t > 0 else lowest
                else:
                    whole = math.floor(abs(t))
                    up = abs(t) - whole > 0.5 or (abs(t) - whole == 0.5 and (layer["rounding"] == "away" or whole % 2))
                    y = int(math.copysign(1, t)) * (whole + bool(up)) + layer["zero_point"]
                self.finish(layer, min(max(y, lowest), highest), m, c, self.columns(view))

    def dequantize(self, layer: Json) -> None:
        view = layer["a"]
        for m in range(self.rows(view)):
            for c in range(self.columns(view)):
                y = float32(layer["scale"]) * (self.element(view, m, c) - layer["zero_point"])
                self.finish(layer, y, m, c, self.columns(view))

    # Cycles.

    def cycles(self) -> list[int]:
        """The cycle in which each layer is done."""
        n, machine = self.size, self.schedule["machine"]
        e, ports = machine["epilogue_latency"], machine["activation_ports"]
        port = loader = plane = lanes = last = 0
        done: list[int] = []
        for layer in self.schedule["layers"]:
            ready = done[layer["after"]] if layer["after"] >= 0 else 0
            if layer["kind"] == "array":
                for numbers in layer["passes"]:
                    one = dict(zip(self.schedule["pass_fields"], numbers, strict=True))
                    start = max(port, ready)
                    if one["load"]:
                        load = max(loader, plane if one["load"] == 2 else port)
                        if layer["b"] is not None:
                            load = max(loader, port, ready)
                            port = loader = load + -(-n // ports)
                        else:
                            loader = load + -(-n // machine["weight_ports"])
                        start = max(start, port, loader)
                        plane = start
                    port = start + one["rows"]
                    lanes = port + 2 * n if one["epilogue"] else lanes
                    last = max(last, port + 2 * n + (e if one["epilogue"] else 0))
            elif layer["kind"] == "vector":
                view = layer["a"]
                joins = sum(step["kind"] == "join" for step in layer["epilogue"])
                reads = -(-(view["kernel"][0] * view["kernel"][1] + joins) // ports)
                port = max(port, ready, lanes - reads) + self.rows(view) * -(-view["channels"] // n) * reads
                lanes = port + 1
                last = max(last, lanes + e)
            else:
                rows, columns = self.rows(layer["a"]), self.columns(layer["a"])
                each = 3 * columns + 32 if layer["kind"] in ("softmax", "quotient") else columns
                port = max(port, ready, lanes) + rows * each
                lanes = port + 1
                last = max(last, lanes)
            done.append(last)
        return done
