"""What Trivet knows of the TFLite schema: operator and element type codes, and the fields of option tables.

A test compares these tables with the `tflite` package's generated bindings, whose import alone would cost as much as
reading a network.
"""

from __future__ import annotations

from functools import cache

from trivet.core.dtype import BOOL, F16, F32, F64, I4, I8, I16, I32, I64, U8, U16, U32, U64, DType
from trivet.core.record import dataclass

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of every file."""

_OPERATOR_NAMES = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION
LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH
CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE
EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR
ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND
COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE
HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE
BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1
UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE
STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE
STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE
DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
"""
OPERATORS: tuple[str, ...] = tuple(_OPERATOR_NAMES.split())
"""Names of built-in operators by code."""

ELEMENT_TYPES: tuple[tuple[str, DType | None], ...] = (
    ("FLOAT32", F32),
    ("FLOAT16", F16),
    ("INT32", I32),
    ("UINT8", U8),
    ("INT64", I64),
    ("STRING", None),
    ("BOOL", BOOL),
    ("INT16", I16),
    ("COMPLEX64", None),
    ("INT8", I8),
    ("FLOAT64", F64),
    ("COMPLEX128", None),
    ("UINT64", U64),
    ("RESOURCE", None),
    ("VARIANT", None),
    ("UINT32", U32),
    ("UINT16", U16),
    ("INT4", I4),
    ("BFLOAT16", None),
)
"""Element types by code, with what holds them here."""

SAME, VALID = 0, 1
"""Codes of padding schemes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One scalar (or, form "s", string; form "v", int32 vector) of an option table; `slot` counts from 0."""

    slot: int
    form: str
    default: int | float


@dataclass(frozen=True, slots=True)
class Layout:
    """The option table of an operator: its tag in the union, and its fields by name."""

    tag: int
    fields: dict[str, Field]


_WINDOW = "padding:b stride_w:i stride_h:i"
_POOL = f"{_WINDOW} filter_w:i filter_h:i activation:b"
_DILATION = "dilation_w:i=1 dilation_h:i=1"
_OPTIONS: dict[str, tuple[int, str]] = {
    "CONV_2D": (1, f"{_WINDOW} activation:b {_DILATION} bias_type:b"),
    "DEPTHWISE_CONV_2D": (2, f"{_WINDOW} multiplier:i activation:b {_DILATION}"),
    "TRANSPOSE_CONV": (49, f"{_WINDOW} activation:b bias_type:b"),
    "AVERAGE_POOL_2D": (5, _POOL),
    "MAX_POOL_2D": (5, _POOL),
    "FULLY_CONNECTED": (8, "activation:b weights_format:b keep_num_dims:? asymmetric_inputs:? bias_type:b"),
    "BATCH_MATMUL": (101, "adj_x:? adj_y:? asymmetric_inputs:?"),
    "ADD": (11, "activation:b pot_scale_int16:?=1"),
    "SUB": (28, "activation:b pot_scale_int16:?=1"),
    "MUL": (21, "activation:b"),
    "DIV": (29, "activation:b"),
    "SOFTMAX": (9, "beta:f"),
    "LEAKY_RELU": (75, "alpha:f"),
    "GELU": (116, "approximate:?"),
    "L2_NORMALIZATION": (12, "activation:b"),
    "CONCATENATION": (10, "axis:i activation:b"),
    "SQUEEZE": (30, "axes:v"),
    "SPLIT": (35, "splits:i"),
    "SPLIT_V": (79, "splits:i"),
    "PACK": (59, "count:i axis:i"),
    "UNPACK": (64, "count:i axis:i"),
    "GATHER": (23, "axis:i batch_dims:i"),
    "STRIDED_SLICE": (32, "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?"),
    "MIRROR_PAD": (77, "mode:b"),
    "SPACE_TO_DEPTH": (19, "block:i"),
    "DEPTH_TO_SPACE": (94, "block:i"),
    "MEAN": (27, "keep_dims:?"),
    "SUM": (27, "keep_dims:?"),
    "REDUCE_MAX": (27, "keep_dims:?"),
    "REDUCE_MIN": (27, "keep_dims:?"),
    "REDUCE_PROD": (27, "keep_dims:?"),
    "REDUCE_ANY": (27, "keep_dims:?"),
    "REDUCE_ALL": (27, "keep_dims:?"),
    "CUMSUM": (102, "exclusive:? reverse:?"),
    "ONE_HOT": (61, "axis:i"),
    "LOCAL_RESPONSE_NORMALIZATION": (13, "radius:i bias:f alpha:f beta:f"),
    "L2_POOL_2D": (5, _POOL),
    "RESIZE_BILINEAR": (15, "_:i __:i align_corners:? half_pixel_centers:?"),
    "RESIZE_NEAREST_NEIGHBOR": (74, "align_corners:? half_pixel_centers:?"),
    "SVDF": (6, "rank:i activation:b asymmetric_inputs:?"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (71, "activation:b cell_clip:f proj_clip:f time_major:? asymmetric_inputs:?"),
    "CALL_ONCE": (103, "subgraph:i"),
    "CALL": (16, "subgraph:I"),
    "IF": (92, "then_subgraph:i else_subgraph:i"),
    "WHILE": (93, "cond_subgraph:i body_subgraph:i"),
    "STABLEHLO_COMPOSITE": (21, "name:s subgraph:i"),
    "VAR_HANDLE": (111, "container:s shared_name:s"),
}


def _field(slot: int, text: str) -> tuple[str, Field]:
    """`name:form=default`, the default 0 when not given."""
    name, _, form = text.partition(":")
    form, _, default = form.partition("=")
    return name, Field(slot, form, int(default or 0))


SECOND_UNION = frozenset({"STABLEHLO_COMPOSITE"})
"""Operators whose option table is in the second union, which later schemas added."""


@cache
def layout(kind: str) -> Layout | None:
    """The option table of an operator kind, None where Trivet reads none."""
    known = _OPTIONS.get(kind)
    if known is None:
        return None
    tag, fields = known
    return Layout(tag, dict(_field(slot, text) for slot, text in enumerate(fields.split())))


def kinds_with_options() -> tuple[str, ...]:
    """Every operator kind whose option table is declared here."""
    return tuple(_OPTIONS)
