"""The schema tables against the `tflite` package's generated bindings."""

from __future__ import annotations

import pytest
import tflite

from trivet.frontends.tflite.schema import ELEMENT_TYPES, OPERATORS, SECOND_UNION, kinds_with_options, layout

TABLES = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "DIV": "DivOptions",
    "SOFTMAX": "SoftmaxOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "GELU": "GeluOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "CONCATENATION": "ConcatenationOptions",
    "SQUEEZE": "SqueezeOptions",
    "SPLIT": "SplitOptions",
    "SPLIT_V": "SplitVOptions",
    "PACK": "PackOptions",
    "UNPACK": "UnpackOptions",
    "GATHER": "GatherOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "MIRROR_PAD": "MirrorPadOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "MEAN": "ReducerOptions",
    "SUM": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_ALL": "ReducerOptions",
    "CUMSUM": "CumsumOptions",
    "ONE_HOT": "OneHotOptions",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "SVDF": "SVDFOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "CALL_ONCE": "CallOnceOptions",
    "CALL": "CallOptions",
    "IF": "IfOptions",
    "WHILE": "WhileOptions",
    "STABLEHLO_COMPOSITE": "StableHLOCompositeOptions",
    "VAR_HANDLE": "VarHandleOptions",
}
FIELDS = {
    "stride_w": "StrideW",
    "stride_h": "StrideH",
    "filter_w": "FilterWidth",
    "filter_h": "FilterHeight",
    "dilation_w": "DilationWFactor",
    "dilation_h": "DilationHFactor",
    "activation": "FusedActivationFunction",
    "bias_type": "QuantizedBiasType",
    "multiplier": "DepthMultiplier",
    "asymmetric_inputs": "AsymmetricQuantizeInputs",
    "axes": "SqueezeDims",
    "splits": "NumSplits",
    "block": "BlockSize",
    "subgraph": "InitSubgraphIndex",
    "then_subgraph": "ThenSubgraphIndex",
    "else_subgraph": "ElseSubgraphIndex",
    "cond_subgraph": "CondSubgraphIndex",
    "body_subgraph": "BodySubgraphIndex",
    "pot_scale_int16": "PotScaleInt16",
}
FIELDS_OF = {
    ("CALL", "subgraph"): "Subgraph",
    ("STABLEHLO_COMPOSITE", "subgraph"): "DecompositionSubgraphIndex",
    ("PACK", "count"): "ValuesCount",
    ("UNPACK", "count"): "Num",
}


class RecordingTable:
    """Stands for a flatbuffer table whose fields are all absent, and records which vtable entry was asked for."""

    Pos = 0

    def __init__(self) -> None:
        self.asked = 0

    def Offset(self, entry: int) -> int:  # noqa: N802 - the bindings call it so
        self.asked = entry
        return 0


def test_operator_names_are_those_of_the_schema() -> None:
    codes = {name: code for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
    assert {name: code for code, name in enumerate(OPERATORS)} == codes


def test_element_types_are_those_of_the_schema() -> None:
    codes = {name: code for name, code in vars(tflite.TensorType).items() if not name.startswith("_")}
    assert {name: code for code, (name, _) in enumerate(ELEMENT_TYPES)} == codes


def test_every_option_table_is_checked() -> None:
    assert set(TABLES) == set(kinds_with_options())


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_options_of(kind: str) -> None:
    declared = layout(kind)
    assert declared is not None
    union = tflite.BuiltinOptions2 if kind in SECOND_UNION else tflite.BuiltinOptions
    assert declared.tag == getattr(union, TABLES[kind])
    binding = getattr(tflite, TABLES[kind])()
    for name, field in declared.fields.items():
        if name.startswith("_"):
            continue
        binding._tab = table = RecordingTable()
        accessor = FIELDS_OF.get((kind, name)) or FIELDS.get(name) or "".join(w.capitalize() for w in name.split("_"))
        default = getattr(binding, accessor)(*([0] if field.form == "v" else []))
        assert table.asked == 4 + 2 * field.slot, name
        assert (default or 0) == field.default, name
