"""A package that wants to replace an operator."""

from trivet.extending import Extension
from trivet.ops.activation import Relu


def extend(extension: Extension) -> None:
    extension.operator(Relu)
