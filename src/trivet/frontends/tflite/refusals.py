"""Why operators without a converter are refused, and what to do instead."""

from __future__ import annotations

from trivet.errors import Unsupported

_RECURRENT = "export the layer as a plain graph: Keras with unroll=True, or as a streaming network with variables"
_TABLE = "replace strings by numbers before the network"
_OUTSIDE = "cut the network before it, and compute it in the application"

_REASONS: dict[str, tuple[str, str]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": ("recurrent layers of this kind do not convert", _RECURRENT),
    "UNIDIRECTIONAL_SEQUENCE_RNN": ("recurrent layers of this kind do not convert", _RECURRENT),
    "BIDIRECTIONAL_SEQUENCE_RNN": ("recurrent layers of this kind do not convert", _RECURRENT),
    "LSTM": ("recurrent layers of this kind do not convert", _RECURRENT),
    "RNN": ("recurrent layers of this kind do not convert", _RECURRENT),
    "NON_MAX_SUPPRESSION_V4": ("the number of results depends on the data", _OUTSIDE),
    "NON_MAX_SUPPRESSION_V5": ("the number of results depends on the data", _OUTSIDE),
    "WHERE": ("the number of results depends on the data", _OUTSIDE),
    "UNIQUE": ("the number of results depends on the data", _OUTSIDE),
    "HASHTABLE": ("a table of strings", _TABLE),
    "HASHTABLE_FIND": ("a table of strings", _TABLE),
    "HASHTABLE_IMPORT": ("a table of strings", _TABLE),
    "HASHTABLE_LOOKUP": ("a table of strings", _TABLE),
    "CONV_3D": ("convolutions have one or two spatial axes", "use CONV_2D on slices"),
    "CONV_3D_TRANSPOSE": ("convolutions have one or two spatial axes", "use TRANSPOSE_CONV on slices"),
    "DELEGATE": (
        "code of an accelerator",
        "compile the network from before it was given to the accelerator's compiler",
    ),
}
_DEFAULT = ("there is no operator for it", "`trivet ops` lists what converts; express it with those, or cut it off")


def no_converter(kind: str) -> Unsupported:
    """The refusal of an operator kind that has no converter."""
    if kind.startswith("CUSTOM:"):
        name = kind.removeprefix("CUSTOM:")
        if name == "ethos-u":
            return Unsupported("code of an accelerator", hint=_REASONS["DELEGATE"][1])
        return Unsupported(f"the custom operator '{name}' is not part of TFLite", hint=_OUTSIDE)
    if kind.startswith("STABLEHLO_"):
        return Unsupported("a StableHLO operator", hint="convert to TFLite's own operators")
    reason, hint = _REASONS.get(kind, _DEFAULT)
    return Unsupported(reason, hint=hint)
