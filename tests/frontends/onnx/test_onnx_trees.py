"""Ensembles of trees, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import agrees, node, save

from trivet.errors import Problems
from trivet.frontends.onnx.convert import load

ML = "ai.onnx.ml"
X = np.float32([[0, 0], [1, 0], [0, 3], [2, 2], [np.nan, 1], [1, np.nan]])
NODES: dict[str, object] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 0, 1, 0, 0, 1, 0, 0],
    "nodes_values": [0.5, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0],
}


def weights(kind: str, ids: list[int], values: list[float]) -> dict[str, object]:
    return {
        f"{kind}_treeids": [0, 0, 0, 1, 1], f"{kind}_nodeids": [1, 3, 4, 1, 2], f"{kind}_ids": ids,
        f"{kind}_weights": values,
    }  # fmt: skip


def model(kind: str, outputs: str, dtypes: list[int], **attributes: object) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)
    results = [
        helper.make_tensor_value_info(name, dtype, None) for name, dtype in zip(outputs.split(), dtypes, strict=True)
    ]
    graph = helper.make_graph([node(kind, "x", outputs, domain=ML, **attributes)], "g", [x], results)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


REGRESSORS: dict[str, dict[str, object]] = {
    "sums": {"n_targets": 2},
    "sums with a base": {"n_targets": 2, "base_values": [0.5, 0.0]},
    "averages": {"n_targets": 2, "aggregate_function": "AVERAGE"},
    "the least": {"n_targets": 2, "aggregate_function": "MIN"},
    "the largest": {"n_targets": 2, "aggregate_function": "MAX"},
    "shares": {"n_targets": 2, "post_transform": "SOFTMAX"},
}


@pytest.mark.parametrize("title", REGRESSORS)
def test_regressors(title: str, tmp_path: Path) -> None:
    leaves = weights("target", [0, 1, 0, 0, 1], [1.5, -2.0, 3.0, 0.25, -0.5])
    agrees(model("TreeEnsembleRegressor", "y", [1], **NODES, **leaves, **REGRESSORS[title]), {"x": X}, tmp_path)


CLASSIFIERS: dict[str, tuple[list[int], list[float], dict[str, object]]] = {
    "three classes": ([0, 1, 2, 0, 2], [1.5, 2.0, 3.0, 0.25, 1.5], {"classlabels_int64s": [0, 1, 2]}),
    "named classes": ([0, 1, 2, 0, 2], [1.5, 2.0, 3.0, 0.25, 1.5], {"classlabels_int64s": [7, 3, 5]}),
    "probabilities of one class": ([0] * 5, [0.1, 0.2, 0.5, 0.05, 0.3], {"classlabels_int64s": [0, 1]}),
    "a score about zero": (
        [0] * 5, [0.1, -0.2, 0.5, 0.05, -0.3], {"classlabels_int64s": [0, 1], "post_transform": "LOGISTIC"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", CLASSIFIERS)
def test_classifiers(title: str, tmp_path: Path) -> None:
    ids, values, attributes = CLASSIFIERS[title]
    leaves = weights("class", ids, values)
    agrees(model("TreeEnsembleClassifier", "l y", [7, 1], **NODES, **leaves, **attributes), {"x": X}, tmp_path)


def test_a_tree_with_two_ways_to_a_node_is_refused(tmp_path: Path) -> None:
    nodes = NODES | {"nodes_truenodeids": [2, 0, 3, 0, 0, 1, 0, 0]}
    leaves = weights("target", [0] * 5, [1.0] * 5)
    proto = model("TreeEnsembleRegressor", "y", [1], **nodes, **leaves, n_targets=1)
    with pytest.raises(Problems, match="two ways lead to node"):
        load(save(proto, tmp_path))
