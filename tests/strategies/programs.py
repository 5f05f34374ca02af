"""Random `.tiny` programs that hold on purpose what the graph pipeline looks for: dense layers and their prefixes in
either order, residuals, shared and equal constants, expressions written twice, constants that fold, unused results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

SIZES = st.integers(1, 4)
Shape = tuple[int, ...]


@dataclass
class Program:
    """A program under construction: its lines, and the shape of every name; `wide` names are i32."""

    data: st.DataObject
    lines: list[str] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)

    def pick(self, names: list[str]) -> str:
        return self.data.draw(st.sampled_from(names))

    def declare(self, keyword: str, shape: Shape, dtype: str, initial: str = "") -> str:
        name = f"{keyword[0]}{len(self.shapes)}"
        self.lines.append(f"{keyword} {name}: {dtype}[{', '.join(map(str, shape))}]{initial}")
        self.shapes[name] = shape
        if dtype == "i32":
            self.wide.add(name)
        if keyword == "const":
            self.constants.add(name)
        return name

    def constant(self, shape: Shape, dtype: str = "i8") -> str:
        """A constant: one that is there, another with equal data, random data, or one number."""
        same = [c for c in sorted(self.constants) if self.shapes[c] == shape and (c in self.wide) == (dtype == "i32")]
        if same and self.data.draw(st.booleans()):
            return self.pick(same)
        seed = self.data.draw(st.integers(0, 3))
        numbers = [0, 1, -1, 100, -128, 127] + ([1 << 30] if dtype == "i32" else [])
        number = self.data.draw(st.sampled_from(numbers))
        initial = self.data.draw(st.sampled_from([f" = random(seed={seed})", f" = {number}"]))
        return self.declare("const", shape, dtype, initial)

    def let(self, expression: str, shape: Shape) -> str:
        name = f"v{len(self.shapes)}"
        self.lines.append(f"let {name} = {expression}")
        self.shapes[name] = shape
        self.wide.add(name)
        return name

    def rows(self) -> list[str]:
        """Names that can stand left of a product."""
        return list(self.shapes)


def _dense(p: Program) -> None:
    x = p.pick(p.rows())
    columns = p.data.draw(SIZES)
    w = p.constant((p.shapes[x][-1], columns))
    shape = (*p.shapes[x][:-1], columns)
    text = f"{x} @ {w}"
    if p.data.draw(st.booleans()):
        b = p.constant((columns,), p.data.draw(st.sampled_from(["i8", "i32"])))
        text = p.data.draw(st.sampled_from([f"{text} + {b}", f"{b} + {text}"]))
    if p.data.draw(st.booleans()):
        text = f"relu({text})"
    p.let(text, shape)


def _residual(p: Program) -> None:
    x = p.pick(p.rows())
    k = p.shapes[x][-1]
    w = p.constant((k, k))
    p.let(p.data.draw(st.sampled_from([f"relu({x} @ {w}) + {x}", f"{x} + relu({x} @ {w})"])), p.shapes[x])


def _sum(p: Program) -> None:
    a = p.pick(p.rows())
    same = [n for n, shape in p.shapes.items() if shape in (p.shapes[a], p.shapes[a][-1:])]
    b = p.pick(same)
    p.let(p.data.draw(st.sampled_from([f"{a} + {b}", f"{b} + {a}"])), p.shapes[a])


def _twice(p: Program) -> None:
    x = p.pick(p.rows())
    w = p.constant((p.shapes[x][-1], 2))
    p.let(f"({x} @ {w}) + relu({x} @ {w})", (*p.shapes[x][:-1], 2))


def _relus(p: Program) -> None:
    x = p.pick(p.rows())
    name = p.let(f"relu(relu({x}))", p.shapes[x])
    if x not in p.wide:
        p.wide.remove(name)


def _folds(p: Program) -> None:
    size = p.data.draw(SIZES)
    a, b, c = p.constant((size, size)), p.constant((size, size)), p.constant((size,), "i32")
    matrix = p.data.draw(st.booleans())
    p.let(f"{a} @ {b} + {c}" if matrix else f"relu({c} + {c})", (size, size) if matrix else (size,))


STEPS: list[Callable[[Program], None]] = [_dense, _dense, _residual, _sum, _twice, _relus, _folds]


def random_program(data: st.DataObject) -> str:
    """One or two inputs, up to eight idioms, one to three outputs; results that none needs are left unused."""
    program = Program(data)
    for _ in range(data.draw(st.integers(1, 2))):
        shape = tuple(data.draw(st.lists(SIZES, min_size=1, max_size=2)))
        program.declare("input", shape, data.draw(st.sampled_from(["i8", "i8", "i32"])))
    for _ in range(data.draw(st.integers(1, 8))):
        data.draw(st.sampled_from(STEPS))(program)
    results = [name for name in program.shapes if name.startswith("v")]
    outputs = [results[-1], *data.draw(st.lists(st.sampled_from(results), max_size=2))]
    return "\n".join([*program.lines, *(f"output {name}" for name in outputs)]) + "\n"
