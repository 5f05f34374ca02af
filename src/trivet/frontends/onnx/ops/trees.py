"""ONNX-ML: ensembles of trees, and the steps around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.core.dtype import F32, F64, I64, DType
from trivet.frontends.onnx.context import Context, Converters
from trivet.frontends.onnx.forest import Branch, Child, Forest
from trivet.frontends.onnx.ops.elementwise import cast_to
from trivet.ir.graph import Value
from trivet.ops.activation import Logistic
from trivet.ops.elementwise import Add, Cast, Greater, Sub
from trivet.ops.mathematics import Neg
from trivet.ops.movement import Concat, Gather
from trivet.ops.reduce import ArgMax
from trivet.ops.softmax import Softmax
from trivet.ops.trees import COMPARISONS, Aggregate, TreeEnsemble

ONNX = Converters()
ML = "ai.onnx.ml"

_MODES = {f"BRANCH_{name}": code for code, name in enumerate(("LEQ", "LT", "GTE", "GT", "EQ", "NEQ"))}
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = (Aggregate.AVERAGE, Aggregate.SUM, Aggregate.MIN, Aggregate.MAX)


@ONNX("TreeEnsemble", domain=ML)
def tree_ensemble(ctx: Context) -> Value:
    """x: [N, F] -> [N, n_targets]; nodes and leaves are numbered apart."""
    forest = Forest()
    splits, weights = ctx.attr_array("nodes_splits").ravel(), ctx.attr_array("leaf_weights").ravel()
    modes, targets = ctx.attr_array("nodes_modes").ravel(), ctx.attr_ints("leaf_targetids")
    features = ctx.attr_ints("nodes_featureids")
    missing = ctx.attr_ints("nodes_missing_value_tracks_true", (0,) * len(features))
    names = ("falseleafs", "falsenodeids", "trueleafs", "truenodeids")
    no_leaf, no, yes_leaf, yes = (ctx.attr_ints(f"nodes_{name}") for name in names)
    lengths = {len(v) for v in (features, missing, no_leaf, no, yes_leaf, yes, splits, modes)}
    if len(lengths) != 1 or len(targets) != len(weights):
        ctx.invalid(
            f"its lists of nodes have lengths {sorted(lengths)}, those of leaves {len(targets)}, {len(weights)}"
        )
    for i, feature in enumerate(features):
        if not 0 <= int(modes[i]) < len(COMPARISONS):
            ctx.refuse(f"comparison {int(modes[i])} of node {i}", hint="export set membership as comparisons")
        forest.branches[i] = Branch(
            feature, float(splits[i]), int(modes[i]), (bool(no_leaf[i]), no[i]), (bool(yes_leaf[i]), yes[i]),
            bool(missing[i]),
        )  # fmt: skip
    for i, (target, weight) in enumerate(zip(targets, weights, strict=True)):
        forest.leaves[i] = [(target, float(weight))]
    forest.roots = [(False, root) for root in ctx.attr_ints("tree_roots")]
    aggregate = ctx.attr_int("aggregate_function", 1)
    if not 0 <= aggregate < len(_AGGREGATES):
        ctx.invalid(f"aggregate_function {aggregate}")
    y = _scores(ctx, forest, ctx.attr_int("n_targets"), _AGGREGATES[aggregate])
    return _transformed(ctx, y, _transform(ctx, ctx.attr_int("post_transform", 0)))


@ONNX("TreeEnsembleRegressor", domain=ML)
def tree_regressor(ctx: Context) -> Value:
    """x: [N, F] -> f32 [N, n_targets]."""
    name = ctx.attr_text("aggregate_function", "SUM")
    if name not in Aggregate.__members__:
        ctx.invalid(f"aggregate_function '{name}'")
    targets = ctx.attr_int("n_targets")
    y = _scores(ctx, _listed(ctx, "target"), targets, Aggregate[name])
    y = _with_base(ctx, cast_to(ctx, y, F32), targets)
    return _transformed(ctx, y, ctx.attr_text("post_transform", "NONE"))


@ONNX("TreeEnsembleClassifier", domain=ML)
def tree_classifier(ctx: Context) -> tuple[Value, Value]:
    """x: [N, F] -> the label of the class with the largest score [N], and all scores [N, classes]."""
    if "classlabels_strings" in ctx:
        ctx.refuse("labels that are strings", hint="number the classes before training")
    labels = ctx.attr_ints("classlabels_int64s")
    transform = ctx.attr_text("post_transform", "NONE")
    forest = _listed(ctx, "class")
    given = {target for listed in forest.leaves.values() for target, _ in listed}
    if len(labels) == 2 and given == {0}:
        return _binary(ctx, forest, labels, transform)
    scores = _with_base(ctx, cast_to(ctx, _scores(ctx, forest, len(labels), Aggregate.SUM), F32), len(labels))
    return _labels(ctx, ctx.emit(ArgMax(1), scores), labels), _transformed(ctx, scores, transform)


def _binary(ctx: Context, forest: Forest, labels: tuple[int, ...], transform: str) -> tuple[Value, Value]:
    """One score tells two classes apart: a probability where all weights are positive, else a number about zero."""
    listed = [(0, weight) for leaf in forest.leaves.values() for _, weight in leaf]
    positive = all(weight >= 0 for _, weight in listed)
    for number, leaf in forest.leaves.items():
        forest.leaves[number] = [(0, weight) for _, weight in leaf]
    base = ctx.attr_floats("base_values")[-1] if "base_values" in ctx else 0.0
    score = cast_to(ctx, _scores(ctx, forest, 1, Aggregate.SUM), F32)
    if base:
        score = ctx.emit(Add(), score, ctx.constant(base))
    chosen = ctx.emit(Cast(I64), ctx.emit(Greater(), score, ctx.constant(0.5 if positive else 0.0)))
    if positive:
        other = ctx.emit(Sub(), ctx.constant(1.0), score)
    else:
        other = ctx.emit(Neg(), score)
        if transform == "LOGISTIC":
            score, other = ctx.emit(Logistic(), score), ctx.emit(Logistic(), other)
    label = _labels(ctx, ctx.reshape(chosen, (score.type.shape[0],)), labels)
    return label, ctx.emit(Concat(1), other, score)


def _labels(ctx: Context, chosen: Value, labels: tuple[int, ...]) -> Value:
    """Labels by class number."""
    if labels == tuple(range(len(labels))):
        return chosen
    return ctx.emit(Gather(0), ctx.constant(np.asarray(labels), I64), chosen)


def _listed(ctx: Context, kind: str) -> Forest:
    """The forest of the older operators: nodes, and the weights of leaves, are named by tree and node."""
    trees, nodes = ctx.attr_ints("nodes_treeids"), ctx.attr_ints("nodes_nodeids")
    number = {key: i for i, key in enumerate(zip(trees, nodes, strict=False))}
    modes, features = _texts(ctx, "nodes_modes"), ctx.attr_ints("nodes_featureids")
    splits = _numbers(ctx, "nodes_values")
    missing = ctx.attr_ints("nodes_missing_value_tracks_true", (0,) * len(nodes))
    yes, no = ctx.attr_ints("nodes_truenodeids"), ctx.attr_ints("nodes_falsenodeids")
    lengths = {len(v) for v in (trees, nodes, modes, features, splits, yes, no)}
    if len(lengths) != 1 or len(missing) not in (0, len(nodes)) or len(number) != len(nodes):
        ctx.invalid(f"its lists of nodes have lengths {sorted(lengths)}, or name a node twice")
    forest = Forest(leaves={i: [] for i, mode in enumerate(modes) if mode == "LEAF"})

    def child(tree: int, node: int) -> Child:
        found = number.get((tree, node), -1)
        return found in forest.leaves, found

    for i, mode in enumerate(modes):
        if mode == "LEAF":
            continue
        if mode not in _MODES:
            ctx.refuse(f"the comparison {mode}", hint="export set membership as comparisons")
        tracks = bool(missing[i]) if missing else False
        no_child, yes_child = child(trees[i], no[i]), child(trees[i], yes[i])
        forest.branches[i] = Branch(features[i], float(splits[i]), _MODES[mode], no_child, yes_child, tracks)
    _give_weights(ctx, forest, number, kind)
    children = {c for b in forest.branches.values() for c in (b.no, b.yes)}
    every = [(i in forest.leaves, i) for i in range(len(nodes))]
    forest.roots = [root for root in every if root not in children]
    return forest


def _give_weights(ctx: Context, forest: Forest, number: dict[tuple[int, int], int], kind: str) -> None:
    trees, nodes = ctx.attr_ints(f"{kind}_treeids"), ctx.attr_ints(f"{kind}_nodeids")
    targets, weights = ctx.attr_ints(f"{kind}_ids"), _numbers(ctx, f"{kind}_weights")
    if not len(trees) == len(nodes) == len(targets) == len(weights):
        ctx.invalid("its lists of weights differ in length")
    for tree, node, target, weight in zip(trees, nodes, targets, weights, strict=True):
        leaf = number.get((tree, node), -1)
        if leaf not in forest.leaves:
            ctx.invalid(f"node {node} of tree {tree} has a weight and is no leaf")
        forest.leaves[leaf].append((target, float(weight)))


def _numbers(ctx: Context, name: str) -> Sequence[float]:
    tensor = f"{name}_as_tensor"
    return [float(v) for v in ctx.attr_array(tensor).ravel()] if tensor in ctx else ctx.attr_floats(name)


def _texts(ctx: Context, name: str) -> tuple[str, ...]:
    value = ctx.node.attributes.get(name)
    if not isinstance(value, tuple):
        ctx.invalid(f"attribute '{name}' is not a list of texts")
    return tuple(str(v) for v in value)


def _scores(ctx: Context, forest: Forest, targets: int, aggregate: Aggregate) -> Value:
    """The ensemble on operand 0, in float64 where that is."""
    x = ctx.operand(0)
    dtype: DType = F64 if x.type.dtype is F64 else F32
    if x.type.rank != 2:
        ctx.invalid(f"its operand {x.type} is no matrix")
    columns = x.type.shape[1]
    wrong = [b.feature for b in forest.branches.values() if not 0 <= b.feature < columns]
    wrong += [t for listed in forest.leaves.values() for t, _ in listed if not 0 <= t < targets]
    if wrong:
        ctx.invalid(f"feature or target {wrong[0]} of {columns} features and {targets} targets")
    return ctx.emit(TreeEnsemble(targets, aggregate), cast_to(ctx, x, dtype), *forest.operands(ctx, dtype))


def _with_base(ctx: Context, y: Value, targets: int) -> Value:
    if "base_values" not in ctx or not any(ctx.attr_floats("base_values")):
        return y
    base = ctx.attr_floats("base_values")
    if len(base) not in (1, targets):
        ctx.invalid(f"{len(base)} base values for {targets} targets")
    return ctx.emit(Add(), y, ctx.constant(np.asarray(base)))


def _transform(ctx: Context, code: int) -> str:
    if not 0 <= code < len(_TRANSFORMS):
        ctx.invalid(f"post_transform {code}")
    return _TRANSFORMS[code]


def _transformed(ctx: Context, y: Value, transform: str) -> Value:
    match transform:
        case "NONE":
            return y
        case "SOFTMAX":
            return ctx.emit(Softmax(1), y)
        case "LOGISTIC":
            return ctx.emit(Logistic(), y)
        case other:
            return ctx.refuse(f"the transform {other} of scores", hint="export with SOFTMAX, LOGISTIC or NONE")
