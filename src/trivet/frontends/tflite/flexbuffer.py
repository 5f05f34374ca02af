"""Options of custom operators: the numbers of a FlexBuffer whose root is a vector or a map.

The last byte is the width of the root in bytes, the byte before it the root's type: six bits of kind, two of width. A
vector has its length before its elements and their types behind them; a map is such a vector of values with two more
words before it (the keys, which are in alphabetical order, as the values are).
"""

from __future__ import annotations

from trivet.errors import InvalidModel

_INTEGER, _UNSIGNED, _BOOLEAN = 1, 2, 26
_MAP, _VECTOR, _TYPED_INTEGERS, _TYPED_UNSIGNED, _TYPED_BOOLEANS = 9, 10, 11, 12, 36
_TYPED = {_TYPED_INTEGERS: _INTEGER, _TYPED_UNSIGNED: _UNSIGNED, _TYPED_BOOLEANS: _BOOLEAN}
_MOST = 1 << 10


def numbers(data: bytes) -> list[int]:
    """The integers of the root, in order.

    Raises: InvalidModel.
    """
    try:
        return _numbers(data)
    except (IndexError, KeyError):
        raise InvalidModel("its options are no FlexBuffer of integers") from None


def _numbers(data: bytes) -> list[int]:
    root_width, packed = data[-1], data[-2]
    at = len(data) - 2 - root_width
    kind, width = packed >> 2, 1 << (packed & 3)
    if kind not in (_MAP, _VECTOR, *_TYPED):
        raise KeyError(kind)
    start = at - _word(data, at, root_width)
    count = _word(data, start - width, width)
    if count > _MOST:
        raise IndexError(count)
    types = [_TYPED[kind]] * count if kind in _TYPED else [data[start + count * width + i] >> 2 for i in range(count)]
    return [_element(data, start + i * width, width, type_) for i, type_ in enumerate(types)]


def _word(data: bytes, at: int, width: int, signed: bool = False) -> int:
    if at < 0 or at + width > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + width], "little", signed=signed)


def _element(data: bytes, at: int, width: int, kind: int) -> int:
    if kind not in (_INTEGER, _UNSIGNED, _BOOLEAN):
        raise KeyError(kind)
    return _word(data, at, width, signed=kind == _INTEGER)
