"""Text to graph: a recursive-descent parser that points at what it did not expect."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np

from trivet.core import dtype as dtypes
from trivet.core.dtype import DType
from trivet.core.interval import Interval
from trivet.ir.graph import Graph, Port, State, Value
from trivet.ir.op import Array, Op, TypeMismatch
from trivet.ir.text.lexer import Source, Token, tokenize
from trivet.ir.text.printer import print_type
from trivet.ir.text.values import Call, Symbol, WrongValue, convert, field_hints, quant_from
from trivet.ir.types import TensorType

MAX_NESTING = 32
MAX_ELEMENTS = 1 << 28
"""Upper bound of a tensor's elements, so that a typing error cannot ask for all memory."""


def parse_graph(text: str, ops: Mapping[str, type[Op]], file: str = "<text>") -> Graph:
    """The graph that `text` describes; `ops` maps names to operator classes.

    Raises: InvalidModel with file, line, column and a caret.
    """
    return _Parser(Source(file, text), ops).graph()


class _Parser:
    def __init__(self, source: Source, ops: Mapping[str, type[Op]]) -> None:
        self.source = source
        self.ops = ops
        self.tokens = list(tokenize(source))
        self.position = 0
        self.values: dict[str, Value] = {}
        self.result = Graph()
        self.resources = self._find_resources()

    # ---- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def _fail(self, message: str, token: Token | None = None) -> NoReturn:
        raise self.source.error(message, (token or self.token).start)

    def _take(self, kind: str, text: str | None = None) -> Token:
        token = self.token
        if token.kind != kind or (text is not None and token.text != text):
            wanted = repr(text) if text is not None else {"value": "a value like %x"}.get(kind, f"a {kind}")
            self._fail(f"expected {wanted}, found {token.text!r}")
        self.position += 1
        return token

    def _accept(self, text: str) -> bool:
        if self.token.kind in ("punct", "word") and self.token.text == text:
            self.position += 1
            return True
        return False

    def _integer(self) -> int:
        token = self._take("number")
        try:
            return int(token.text)
        except ValueError:
            self._fail(f"expected an integer, found {token.text!r}", token)

    # ---- structure

    def graph(self) -> Graph:
        self._take("word", "graph")
        if self.token.text != "(":
            self.result.name = self._name(self.token.text)
            self.position += 1
        self._take("punct", "(")
        while not self._accept(")"):
            name, token = self._new_name()
            self._take("punct", ":")
            self._define(token, self.result.add_input(name, self._type()))
            if self.token.text != ")":
                self._take("punct", ",")
        self._take("punct", "{")
        written = self._body()
        self._take("punct", "}")
        for read, (next_name, token) in written.items():
            self.result.set_state(read, self._lookup(next_name, token))
        if self.token.kind != "end" and self.token.text != "resources":
            self._fail(f"expected the end of the file, found {self.token.text!r}")
        return self.result

    def _body(self) -> dict[Value, tuple[str, Token]]:
        ports: list[tuple[str, int, Port, Token]] = []
        written: dict[Value, tuple[str, Token]] = {}
        while not self._accept("return"):
            token = self.token
            if self._accept("port"):
                ports.append(self._port(token))
            elif self._accept("state"):
                self._state()
            elif self._accept("next"):
                read = self._use()
                self._take("punct", "=")
                target = self._take("value")
                written[read] = (self._name(target.text[1:]), target)
            elif self._accept("const"):
                self._constant()
            else:
                self._node()
        while self.token.kind == "value":
            self.result.add_output(self._use())
            if not self._accept(","):
                break
        self._apply_ports(ports)
        return written

    def _port(self, token: Token) -> tuple[str, int, Port, Token]:
        kind = self._take("word").text
        index = self._integer()
        name = self._name(self._take("string").text)
        self._take("punct", ":")
        type_ = self._type()
        perm = None
        if self._accept("perm"):
            self._take("punct", "=")
            raw = self._value(0)
            if not isinstance(raw, tuple) or sorted(map(str, raw)) != sorted(map(str, range(type_.rank))):
                self._fail(f"perm must be a permutation of {type_.rank} axes", token)
            perm = raw
        accepts = self._interval(type_, token) if self._accept("accepts") else None
        return kind, index, Port(name, type_, perm, accepts), token

    def _interval(self, type_: TensorType, token: Token) -> Interval:
        """`=(lo, hi)`, integers that the type holds."""
        self._take("punct", "=")
        raw = self._value(0)
        ends = list(raw) if isinstance(raw, tuple) and all(isinstance(end, int) for end in raw) else []
        dtype = type_.dtype
        if not dtype.is_integer or len(ends) != 2 or not dtype.min <= ends[0] <= ends[1] <= dtype.max:
            self._fail(f"an input accepts (lo, hi), integers of its type {type_}", token)
        return Interval(*ends)

    def _apply_ports(self, ports: list[tuple[str, int, Port, Token]]) -> None:
        tables = {"input": self.result.input_ports, "output": self.result.output_ports}
        for kind, index, port, token in ports:
            if kind not in tables or not 0 <= index < len(tables[kind]):
                self._fail(f"there is no {kind} {index}", token)
            tables[kind][index] = port

    def _state(self) -> None:
        name, token = self._new_name()
        self._take("punct", ":")
        type_ = self._type()
        self._take("punct", "=")
        read = Value(type_, name)
        self.result.states.append(State(read, read, self._data(type_)))
        self._define(token, read)

    def _constant(self) -> None:
        name, token = self._new_name()
        self._take("punct", ":")
        type_ = self._type()
        self._take("punct", "=")
        self._define(token, self.result.constant(self._data(type_), type_, name))

    def _node(self) -> None:
        results: list[tuple[str, Token, TensorType | None]] = []
        while True:
            name, token = self._new_name()
            declared = self._type() if self._accept(":") else None
            results.append((name, token, declared))
            if not self._accept(","):
                break
        self._take("punct", "=")
        at = self._take("word")
        op = self._op(at)
        operands = self._operands()
        try:
            node = self.result.append(op, operands, [name for name, _, _ in results])
        except TypeMismatch as error:
            self._fail(str(error), at)
        if len(node.outputs) != len(results):
            self._fail(f"{op.name} has {len(node.outputs)} results, {len(results)} are named", at)
        for value, (_, token, declared) in zip(node.outputs, results, strict=True):
            if declared is not None and declared != value.type:
                self._fail(f"%{value.name} is {print_type(value.type)}, not {print_type(declared)}", token)
            self._define(token, value)

    def _op(self, at: Token) -> Op:
        op_type = self.ops.get(at.text)
        if op_type is None:
            close = get_close_matches(at.text, self.ops, 1)
            self._fail(f"unknown operator {at.text!r}" + (f", did you mean {close[0]!r}?" if close else ""), at)
        hints = field_hints(op_type)
        arguments: dict[str, Any] = {}
        if self._accept("{"):
            while not self._accept("}"):
                self._attribute(at.text, hints, arguments)
        try:
            return op_type(**arguments)
        except (TypeError, AssertionError) as error:
            self._fail(f"{at.text} attributes do not fit: {error}", at)

    def _attribute(self, name: str, hints: dict[str, Any], arguments: dict[str, Any]) -> None:
        key = self._take("word")
        if key.text not in hints:
            known = ", ".join(hints) or "none"
            self._fail(f"{name} has no attribute {key.text!r} (it has: {known})", key)
        self._take("punct", "=")
        at = self.token
        try:
            arguments[key.text] = convert(self._value(0), hints[key.text])
        except WrongValue as error:
            self._fail(f"{name}: {key.text}: {error}", at)
        if self.token.text != "}":
            self._take("punct", ",")

    def _operands(self) -> list[Value]:
        operands = []
        self._take("punct", "(")
        while not self._accept(")"):
            operands.append(self._use())
            if self.token.text != ")":
                self._take("punct", ",")
        return operands

    # ---- names

    def _name(self, text: str) -> str:
        return str(json.loads(text)) if text.startswith('"') else text

    def _new_name(self) -> tuple[str, Token]:
        token = self._take("value")
        name = self._name(token.text[1:])
        if name in self.values:
            self._fail(f"%{name} is defined twice", token)
        return name, token

    def _define(self, token: Token, value: Value) -> None:
        if value.name in self.values:
            self._fail(f"%{value.name} is defined twice", token)
        self.values[value.name] = value

    def _use(self) -> Value:
        token = self._take("value")
        return self._lookup(self._name(token.text[1:]), token)

    def _lookup(self, name: str, token: Token) -> Value:
        if name not in self.values:
            close = get_close_matches(name, self.values, 1)
            self._fail(f"%{name} is not defined" + (f", did you mean %{close[0]}?" if close else ""), token)
        return self.values[name]

    # ---- types, values, data

    def _type(self) -> TensorType:
        at = self._take("word")
        dtype = dtypes.by_name(at.text)
        if dtype is None:
            self._fail(f"unknown element type {at.text!r}", at)
        shape = []
        self._take("punct", "[")
        while not self._accept("]"):
            shape.append(self._integer())
            if self.token.text != "]":
                self._take("punct", ",")
        if any(d < 0 for d in shape) or math.prod(shape) > MAX_ELEMENTS:
            self._fail(f"shape {shape} is out of range", at)
        quant = None
        if self.token.text == "{":
            brace = self.token
            self.position += 1
            try:
                quant = quant_from(self._arguments("}", 0))
            except WrongValue as error:
                self._fail(str(error), brace)
            axis = quant.axis
            if axis is not None and not (0 <= axis < len(shape) and shape[axis] == len(quant.scales)):
                self._fail(f"{len(quant.scales)} scales along axis {axis} of {shape}", brace)
        return TensorType(dtype, tuple(shape), quant)

    def _arguments(self, closing: str, depth: int) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        while not self._accept(closing):
            key = self._take("word").text
            self._take("punct", "=")
            arguments[key] = self._value(depth + 1)
            if self.token.text != closing:
                self._take("punct", ",")
        return arguments

    def _value(self, depth: int) -> Any:
        token = self.token
        if depth > MAX_NESTING:
            self._fail("nested too deeply")
        self.position += 1
        match token.kind:
            case "number":
                return _number(token.text)
            case "string":
                return self._name(token.text)
            case "word":
                return self._word(token, depth)
            case "punct" if token.text == "(":
                return self._tuple(depth)
            case _:
                raise self.source.error(f"expected a value, found {token.text!r}", token.start)

    def _word(self, token: Token, depth: int) -> Any:
        if token.text in ("true", "false", "none"):
            return {"true": True, "false": False, "none": None}[token.text]
        if token.text in ("quant", "bounds"):
            self._take("punct", "(")
            return Call(token.text, self._arguments(")", depth))
        return Symbol(token.text)

    def _tuple(self, depth: int) -> tuple[Any, ...]:
        items = []
        while not self._accept(")"):
            items.append(self._value(depth + 1))
            if self.token.text != ")":
                self._take("punct", ",")
        return tuple(items)

    def _data(self, type_: TensorType) -> Array:
        token = self.token
        if token.kind == "resource":
            self.position += 1
            return self._resource(self._name(token.text[1:]), type_, token)
        self._take("punct", "[")
        items = []
        while not self._accept("]"):
            items.append(self._element(type_.dtype))
            if self.token.text != "]":
                self._take("punct", ",")
        if len(items) != type_.elements:
            self._fail(f"{type_} has {type_.elements} elements, found {len(items)}", token)
        return np.array(items, type_.dtype.numpy).reshape(type_.shape)

    def _element(self, dtype: DType) -> float | int | bool:
        token = self.token
        if dtype is dtypes.BOOL:
            if self._accept("true"):
                return True
            self._take("word", "false")
            return False
        number = _number(self._take("number").text)
        if dtype.is_float:
            return float(number)
        if not isinstance(number, int) or not dtype.min <= number <= dtype.max:
            self._fail(f"{token.text} is not a value of {dtype.name}", token)
        return number

    def _resource(self, name: str, type_: TensorType, token: Token) -> Array:
        if name not in self.resources:
            self._fail(f"the data of #{name} is missing (was the text printed with its constants elided?)", token)
        try:
            raw = base64.b64decode(self.resources[name], validate=True)
        except binascii.Error:
            self._fail(f"the data of #{name} is not base64", token)
        expected = type_.elements * type_.dtype.numpy.itemsize
        if len(raw) != expected:
            self._fail(f"the data of #{name} has {len(raw)} bytes, {type_} needs {expected}", token)
        little = np.frombuffer(raw, type_.dtype.numpy.newbyteorder("<"))
        return little.astype(type_.dtype.numpy).reshape(type_.shape)

    def _find_resources(self) -> dict[str, str]:
        """Read the trailing block first: constants refer to it from above."""
        start = next((i for i, t in enumerate(self.tokens) if t.kind == "word" and t.text == "resources"), None)
        if start is None:
            return {}
        found = {}
        self.position = start + 1
        self._take("punct", "{")
        while not self._accept("}"):
            name = self._name(self._take("resource").text[1:])
            self._take("punct", "=")
            found[name] = self._take("string").text[1:-1]
        if self.token.kind != "end":
            self._fail(f"expected the end of the file, found {self.token.text!r}")
        self.position = 0
        return found


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
