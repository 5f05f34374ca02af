"""Reads a `.tiny` program: the parser's reductions build the graph directly, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from trivet.core import dtype as dtypes
from trivet.core.dtype import I8, I32
from trivet.core.numerics import Overflow
from trivet.core.record import dataclass
from trivet.errors import InvalidModel
from trivet.frontends.options import Loaded, LoadOptions, text_of
from trivet.frontends.tiny import constants
from trivet.frontends.tiny.source import TinySource
from trivet.ir.graph import Graph, Value
from trivet.ir.op import Op
from trivet.ir.types import Shape, TensorType
from trivet.ops.activation import Relu
from trivet.ops.elementwise import Add
from trivet.ops.matmul import MatMul

MAX_NESTING = 200
"""Parentheses inside parentheses; no program that a person writes has more."""

MAX_ELEMENTS = 1 << 26

MAX_OPERATORS = 10_000

SHOWN_CHARACTERS = 40

_EXPECTED = {
    "NAME": "a name",
    "INT": "a number",
    "SIGNED": "a number",
    "DIMS": "a number",
    "NUMBERS": "a number",
    "ROWS": "'['",
    "STRING": "a quoted file name",
    "PLUS": "'+'",
    "AT": "'@'",
    "RELU": "relu",
    "$END": "the end of the file",
}


def load(path: Path, options: LoadOptions) -> Loaded:
    """The program in a file.

    Raises: InvalidModel with file, line, column and a caret.
    """
    try:
        text = text_of(path, "utf-8-sig")
    except OSError as error:
        raise InvalidModel(f"cannot read: {error.strerror or error}", where=path) from None
    except UnicodeDecodeError:
        raise InvalidModel("is not UTF-8 text", where=path, hint="give a .tiny program") from None
    return Loaded(parse(text, str(path), path.parent))


def parse(text: str, file: str = "<text>", directory: Path = Path()) -> Graph:
    """The graph of a program; constants from files are looked up in `directory`.

    Raises: InvalidModel with file, line, column and a caret.
    """
    source = TinySource(file, text)
    _check_nesting(source)
    builder = _Builder(source, directory)
    token = _BUILDER.set(builder)
    try:
        _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(source, error) from None
    finally:
        _BUILDER.reset(token)
    if not builder.graph.outputs:
        raise source.error("the program has no output: add `output NAME`", len(text))
    return builder.graph


@cache
def _parser() -> Lark:
    """Made once, which takes longer than most programs; it speaks to the builder of the program that is being read."""
    grammar = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", transformer=cast(Any, _Dispatch()), maybe_placeholders=False)


_BRACKET = re.compile(r'[(\[)\]]|#[^\n]*|"[^"\n]*"')
"""A bracket, or a comment or a name of a file, whose brackets are none."""


def _check_nesting(source: TinySource) -> None:
    depth = 0
    for match in _BRACKET.finditer(source.text):
        character = source.text[match.start()]
        if character in "([":
            depth += 1
            if depth > MAX_NESTING:
                raise source.error(f"more than {MAX_NESTING} brackets inside each other", match.start())
        elif character in ")]":
            depth -= 1


def _syntax_error(source: TinySource, error: UnexpectedInput) -> InvalidModel:
    if isinstance(error, UnexpectedCharacters):
        return source.error(f"unexpected character {error.char!r}", int(error.pos_in_stream or 0))
    assert isinstance(error, UnexpectedToken)
    token: Token = error.token
    start = len(source.text) if token.type == "$END" else int(token.start_pos or 0)
    found = "the end of the file" if token.type == "$END" else _quoted(str(token))
    wanted = sorted({_EXPECTED.get(name, f"'{_literal(name)}'") for name in error.accepts or error.expected})
    return source.error(f"found {found}, expected {' or '.join(wanted)}", start, start + max(1, len(token)))


def _quoted(text: str) -> str:
    """Text of the program for a message; what is long is cut."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "...")


def _literal(terminal: str) -> str:
    symbols = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "COLON": ":", "COMMA": ",", "EQUAL": "="}
    return symbols.get(terminal, terminal.lower())


_NUMBER = re.compile(r"[-+]?\d+")
_ROW = re.compile(r"\[([^]]*)")
_TOO_LONG = re.compile(r"\d{20}")
"""Found in every number of more than 20 characters, and in some others."""


def _numbers_in(run: Token) -> Iterator[Token]:
    """The numbers of a run, with their places."""
    for match in _NUMBER.finditer(run):
        yield Token("INT", match[0], int(run.start_pos or 0) + match.start())


@dataclass(frozen=True, slots=True)
class _Expr:
    """A value and the stretch of text that it stands for."""

    value: Value
    start: int
    end: int


class _Dispatch:
    """Gives the parser the builder's method for each rule."""

    def __getattr__(self, rule: str) -> object:
        method = getattr(_Builder, f"on_{rule}", None)
        if method is None:
            raise AttributeError(rule)
        return lambda parts: method(_BUILDER.get(), parts)


class _Builder:
    """One method per grammar rule; each gets what its parts gave."""

    def __init__(self, source: TinySource, directory: Path) -> None:
        self.source = source
        self.directory = directory
        self.graph = Graph(Path(source.file).stem or "main")
        self.values: dict[str, Value] = {}
        self.numbers: list[Token] = []
        """Runs of numbers of the list that is being read, in the order of the text."""

    # ---- statements

    def on_input(self, parts: list[Any]) -> None:
        name, type_ = parts
        self._define(name, self.graph.add_input(str(name), type_))

    def on_const(self, parts: list[Any]) -> None:
        name, type_, (kind, argument, token) = parts
        try:
            match kind:
                case "random":
                    data = constants.random(type_.dtype, type_.shape, argument)
                case "file":
                    data = constants.from_file(type_.dtype, type_.shape, self.directory, argument)
                case "splat":
                    data = constants.splat(type_.dtype, type_.shape, argument)
                case _:
                    data = constants.from_list(type_.dtype, type_.shape, argument)
        except constants.BadData as error:
            raise self._error(str(error), token if error.element is None else self._number(error.element)) from None
        self.numbers.clear()
        self._define(name, self.graph.constant(data, type_, str(name)))

    def on_let(self, parts: list[Any]) -> None:
        name, expr = parts
        if not expr.value.name:
            expr.value.name = str(name)
        self._define(name, expr.value)

    def on_output(self, parts: list[Any]) -> None:
        (name,) = parts
        self.graph.add_output(self._find(name))

    def on_type(self, parts: list[Token]) -> TensorType:
        name, run = parts
        dims = list(islice(_numbers_in(run), 3))
        dtype = dtypes.by_name(str(name))
        if dtype not in (I8, I32):
            raise self._error(f"unknown type {_quoted(str(name))}, expected i8 or i32", name)
        shape: Shape = tuple(self._integer(d) for d in dims)
        if len(shape) > 2:
            raise self._error("tensors have one or two axes, this one has more", dims[2])
        elements = 1
        for dim, token in zip(shape, dims, strict=True):
            elements *= dim
            if dim == 0 or elements > MAX_ELEMENTS:
                raise self._error("an axis has at least one element, a tensor at most 2^26", token)
        assert dtype is not None
        return TensorType(dtype, shape)

    # ---- initial values: (kind, argument, token to point at)

    def on_random(self, parts: list[Token]) -> tuple[str, int, Token]:
        return "random", self._integer(parts[0]), parts[0]

    def on_file(self, parts: list[Token]) -> tuple[str, str, Token]:
        return "file", str(parts[0])[1:-1], parts[0]

    def on_splat(self, parts: list[Token]) -> tuple[str, int, Token]:
        return "splat", self._integer(parts[0]), parts[0]

    def on_numbers(self, parts: list[Token]) -> tuple[str, list[int], Token]:
        run = self._checked(parts[0])
        return "numbers", [int(number) for number in run.split(",")], next(_numbers_in(run))

    def on_rows(self, parts: list[Token]) -> tuple[str, list[list[int]], Token]:
        run = self._checked(parts[0])
        rows = [[int(number) for number in row.split(",")] if row.strip() else [] for row in _ROW.findall(run)]
        return "rows", rows, next(_numbers_in(run), run)

    def on_list(self, parts: list[Any]) -> tuple[str, list[object], Token]:
        bracket, *runs = parts
        items: list[object] = []
        for kind, argument, _ in runs:
            if kind == "list":
                items.append(argument)
            else:
                items += argument
        return "list", items, runs[0][-1] if runs else bracket

    def _checked(self, run: Token) -> Token:
        """Numbers that are short enough to be looked at."""
        if _TOO_LONG.search(run) is not None:
            for number in _numbers_in(run):
                self._integer(number)
        self.numbers.append(run)
        return run

    def _number(self, index: int) -> Token:
        """Number `index` of the list that is being read."""
        return next(islice((number for run in self.numbers for number in _numbers_in(run)), index, None))

    # ---- expressions

    def on_name(self, parts: list[Token]) -> _Expr:
        (name,) = parts
        start = int(name.start_pos or 0)
        return _Expr(self._find(name), start, start + len(name))

    def on_group(self, parts: list[_Expr]) -> _Expr:
        return parts[0]

    def on_relu(self, parts: list[Any]) -> _Expr:
        keyword, x = parts
        return self._emit(Relu(), [x], int(keyword.start_pos or 0), x.end, keyword)

    def on_matmul(self, parts: list[Any]) -> _Expr:
        a, operator, b = parts
        ta, tb = a.value.type, b.value.type
        if ta.shape[-1] != tb.shape[0]:
            raise self._error(f"the inner sizes of {ta} @ {tb} differ", operator)
        if ta.rank == tb.rank == 1:
            raise self._error(f"{ta} @ {tb} has no axis left: at least one operand is a matrix", operator)
        return self._emit(MatMul(), [a, b], a.start, b.end, operator)

    def on_add(self, parts: list[Any]) -> _Expr:
        a, operator, b = parts
        ta, tb = a.value.type, b.value.type
        broadcast = {ta.rank, tb.rank} == {1, 2} and ta.shape[-1] == tb.shape[-1]
        if ta.shape != tb.shape and not broadcast:
            hint = "operands have one shape, or a vector is added along the last axis of a matrix"
            raise self._error(f"{ta} + {tb} do not match: {hint}", operator)
        return self._emit(Add(overflow=Overflow.EXACT), [a, b], a.start, b.end, operator)

    def _emit(self, op: Op, operands: list[_Expr], start: int, end: int, token: Token) -> _Expr:
        if len(self.graph.nodes) == MAX_OPERATORS:
            raise self._error(f"more than {MAX_OPERATORS} operators in one program", token)
        loc = self.source.span(start, end)
        return _Expr(self.graph.emit(op, *(o.value for o in operands), loc=loc), start, end)

    # ---- names and numbers

    def _define(self, token: Token, value: Value) -> None:
        name = str(token)
        if name in self.values:
            raise self._error(f"{_quoted(str(name))} is defined twice", token)
        if value.loc is None:
            start = int(token.start_pos or 0)
            value.defined = self.source.span(start, start + len(token))
        self.values[name] = value

    def _find(self, token: Token) -> Value:
        name = str(token)
        if name not in self.values:
            close = get_close_matches(name, self.values, 1)
            meant = f", did you mean {_quoted(close[0])}?" if close else ""
            raise self._error(f"{_quoted(str(name))} is not defined{meant}", token)
        return self.values[name]

    def _integer(self, token: Token) -> int:
        if len(token) > 20:
            raise self._error("the number is too long", token)
        return int(token)

    def _error(self, message: str, token: Token | None) -> InvalidModel:
        start = int(token.start_pos or 0) if token is not None else 0
        return self.source.error(message, start, start + (len(token) if token is not None else 1))


_BUILDER: ContextVar[_Builder] = ContextVar("builder")
