"""Why an operator without a converter is refused, and what to do instead."""

from __future__ import annotations

from trivet.core.source import Operator
from trivet.errors import Unsupported
from trivet.frontends.onnx.model import ForeignNode

_DATA_SIZED = ("the size of its result depends on the data", "stop the model before it and do this step outside")
_SEQUENCE = ("sequences and optionals have no fixed storage", "export with tensors as inputs and outputs")

_RANDOM = ("its result is random", "feed the numbers as an input")

_REASONS: dict[str, tuple[str, str]] = {
    "NonMaxSuppression": _DATA_SIZED,
    "Unique": _DATA_SIZED,
    "Compress": _DATA_SIZED,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "Bernoulli": _RANDOM,
    "ImageDecoder": ("it decodes a compressed image", "give the network pixels"),
    "TfIdfVectorizer": ("it counts words", "count them in the application"),
    "FlexAttention": ("it is a preview, whose meaning may still change", "export with Attention"),
    "Multinomial": ("its result is random", "stop the model before it and sample outside"),
}


def refusal(node: ForeignNode, loc: Operator) -> Unsupported:
    """The refusal of an operator that has no converter."""
    if node.kind in ("ZipMap", "DictVectorizer", "CategoryMapper"):
        reason = "maps and strings have no fixed storage"
        hint = "export without it, with skl2onnx: options={'zipmap': False}"
    elif node.kind.startswith(("Sequence", "Optional")) or node.kind in ("SplitToSequence", "ConcatFromSequence"):
        reason, hint = _SEQUENCE
    elif node.domain.startswith("ai.onnx.ml"):
        reason = "operators of classical machine learning are not converted"
        hint = "export the model as a neural network, for example with hummingbird-ml"
    else:
        reason, hint = _REASONS.get(
            node.kind,
            ("there is no converter for it", "express it with elementwise operators, or stop the model before it"),
        )
    return Unsupported(reason, where=loc, hint=hint)
