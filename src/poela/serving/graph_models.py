"""What policies and behavior models are made of, in a graph: networks, regressions by step, trees, history."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.data.history import HistoryFeatures
from poela.networks.modules import Network
from poela.regression.forest import ALL, Forest
from poela.regression.step_features import FARTHEST, Coding, pairs_of
from poela.regression.step_values import BoostedStep, CodedStep, RidgeStep, StepQ
from poela.serving.graph import TREES, Graph, refuse_export


def mlp_in(graph: Graph, network: Network, contexts: str) -> str:
    """The outputs of a network [N, A], computed in float32 as it does, given in float64."""
    if network.remembers:
        raise refuse_export("a recurrent network", "it remembers the whole episode; learn one of the current context")
    weights = {name: np.asarray(array, np.float32) for name, array in network.weights().items()}
    centred = graph.op("Sub", contexts, graph.constant(weights["mean"], np.float32))
    layer = graph.op("Div", centred, graph.constant(weights["scale"], np.float32))
    lost = _lost_by_layer(weights, len(network.shape.hidden) + 1) if graph.deciding else []
    for place in range(len(network.shape.hidden) + 1):
        if place:
            layer = graph.op("Relu", layer)
        if lost:
            size = graph.cast(graph.along("ReduceL2", layer), np.float64)
            graph.doubts.errors.append(graph.op("Mul", size, graph.constant(lost[place])))
        matrix = graph.constant(weights[f"layers.{2 * place}.weight"].T, np.float32)
        layer = graph.op("Gemm", layer, matrix, graph.constant(weights[f"layers.{2 * place}.bias"], np.float32))
    if network.shape.relu_outputs:
        layer = graph.op("Relu", layer)
    return graph.cast(layer, np.float64)


def _lost_by_layer(weights: Mapping[str, Any], n_layers: int) -> list[float]:
    """How far outputs may be off for each unit of the size of what a layer is given: rounding, as later layers grow it.

    Products of n numbers lose √n units in the last place of float32, as random roundings do (Higham and Mary 2019),
    with room for both sides that are compared.
    """
    matrices = [np.asarray(weights[f"layers.{2 * place}.weight"], np.float64) for place in range(n_layers)]
    spread = [float(np.linalg.norm(matrix, 2)) for matrix in matrices]
    unit = 2 * float(np.finfo(np.float32).eps)
    return [
        unit
        * np.sqrt(matrix.shape[1] + 1)
        * float(np.linalg.norm(np.abs(matrix), 2))
        * float(np.prod(spread[place + 1 :]))
        for place, matrix in enumerate(matrices)
    ]


def step_q_in(graph: Graph, values: StepQ, contexts: str) -> str:
    """Q [N, A] at the steps that are given; none is asked for where all have the same values."""
    alone = values.n_steps == 1
    steps = graph.flat(graph.repeated([0], contexts, np.int64)) if alone else _within(graph, values.n_steps - 1)
    ridges = [model for model in values.models if isinstance(model, RidgeStep)]
    boosted = [model for model in values.models if isinstance(model, BoostedStep)]
    coded = [model for model in values.models if isinstance(model, CodedStep)]
    if len(ridges) == len(values.models):
        return _ridges_in(graph, ridges, contexts, steps, pairs_of(len(ridges[0].center)))
    if len(coded) == len(values.models):
        return _coded_in(graph, coded, contexts, steps)
    if len(boosted) == len(values.models):
        return _boosted_in(graph, boosted, contexts, steps)
    raise refuse_export("these values", "their steps have regressions of different kinds")


def _within(graph: Graph, last: int) -> str:
    """The steps that are given, from 0 to the last one; by comparisons, since `Min` of a runtime fails from 2³¹ on."""
    steps, first, end = graph.input("steps"), graph.constant(0, np.int64), graph.constant(last, np.int64)
    steps = graph.op("Where", graph.op("Less", steps, end), steps, end)
    return graph.op("Where", graph.op("Greater", steps, first), steps, first)


def _coded_in(graph: Graph, steps_of: Sequence[CodedStep], contexts: str, steps: str) -> str:
    coding = steps_of[0].coding
    if any(_codes(step.coding) != _codes(coding) for step in steps_of):
        raise refuse_export("these values", "their steps look at different categories")
    found = graph.op(
        "Equal", graph.columns(contexts, coding.columns.tolist()), graph.constant(coding.levels, np.float32)
    )
    stay = graph.columns(contexts, coding.plain.tolist())
    expanded = graph.op("Concat", stay, graph.cast(found, np.float32), axis=1)
    return _ridges_in(graph, steps_of, expanded, steps, coding.pairs)


def _codes(coding: Coding) -> tuple[list[int], list[float]]:
    return coding.columns.tolist(), coding.levels.tolist()


def _ridges_in(
    graph: Graph, steps_of: Sequence[RidgeStep | CodedStep], contexts: str, steps: str, pairs: tuple[IntArray, IntArray]
) -> str:
    def here(arrays: Sequence[FloatArray]) -> str:
        return graph.op("Gather", graph.constant(np.stack(arrays)), steps, axis=0)

    centred = graph.op("Sub", graph.cast(contexts, np.float64), here([step.center for step in steps_of]))
    scaled = graph.op("Div", centred, here([step.scale for step in steps_of]))
    z = graph.op("Clip", scaled, graph.constant(-FARTHEST), graph.constant(FARTHEST))
    i, j = pairs
    products = graph.op("Mul", graph.columns(z, i.tolist()), graph.columns(z, j.tolist()))
    features = graph.op("Concat", graph.repeated([1.0], contexts), z, products, axis=1)
    coefficients = here([step.coefficients.T for step in steps_of])  # [N, p, A]
    q = graph.op("MatMul", graph.widened(features, 1), coefficients)
    return graph.op("Squeeze", q, graph.constant([1], np.int64))


def _boosted_in(graph: Graph, steps_of: Sequence[BoostedStep], contexts: str, steps: str) -> str:
    n_actions, forests = steps_of[0].n_actions, [step.forest for step in steps_of]
    columns = []
    for action in range(n_actions):
        taken = graph.repeated(np.eye(n_actions)[action], contexts, np.float32)
        rows = graph.op("Concat", contexts, taken, axis=1)
        columns.append(forest_in(graph, forests, rows, steps))
    return graph.op("Concat", *columns, axis=1)


def forest_in(graph: Graph, forests: Sequence[Forest], rows: str, which: str | None) -> str:
    """The scores [N, S] of one forest, or of that of each row (`which`); leaves by trees, sums in float64."""
    scores = len(forests[0].baseline)
    trees = [(number, tree) for number, forest in enumerate(forests) for tree in range(len(forest.node_offsets) - 1)]
    baselines = graph.constant(np.stack([forest.baseline for forest in forests]))
    baseline = (
        graph.repeated(forests[0].baseline, rows) if which is None else graph.op("Gather", baselines, which, axis=0)
    )
    if not trees:
        return baseline
    starts = np.cumsum([0, *(_leaves(forests[number], tree) for number, tree in trees)])
    values = np.concatenate([forest.leaf_values for forest in forests])
    numbers = graph.op("TreeEnsembleRegressor", rows, domain=TREES, **_leaf_numbers(forests, trees))
    leaves = graph.cast(numbers, np.int64)
    places = graph.op("Add", leaves, graph.constant([starts[:-1]], np.int64))
    leaf_values = graph.op("Gather", graph.constant(values), places, axis=0)  # [N, trees]
    if which is not None:
        owner = graph.constant([[number for number, _ in trees]], np.int64)
        own = graph.op("Equal", graph.widened(which, 1), owner)
        leaf_values = graph.op("Where", own, leaf_values, graph.constant(0.0))
    targets = np.eye(scores)[[tree % scores for _, tree in trees]]
    return graph.op("Add", baseline, graph.op("MatMul", leaf_values, graph.constant(targets)))


def _leaves(forest: Forest, tree: int) -> int:
    return int(forest.leaf_offsets[tree + 1] - forest.leaf_offsets[tree])


def _leaf_numbers(forests: Sequence[Forest], trees: Sequence[tuple[int, int]]) -> dict[str, list[Any] | int | str]:
    """An ensemble whose output t is the number of the leaf that tree t leads to: small, so exact in float32."""
    inner_nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[Any, ...]] = []
    for place, (number, tree) in enumerate(trees):
        forest = forests[number]
        inner = slice(forest.node_offsets[tree], forest.node_offsets[tree + 1])
        features, thresholds, keeps = forest.features[inner], forest.thresholds[inner], forest.keeps[inner]
        for id, (node, left, right) in enumerate(tree_nodes(keeps.tolist())):
            test = int(features[node]), float(thresholds[node])
            inner_nodes.append((place, id, *test, "BRANCH_LEQ", left, right))
        for leaf in range(len(keeps) + 1):
            inner_nodes.append((place, len(keeps) + leaf, 0, 0.0, "LEAF", 0, 0))
            leaves.append((place, len(keeps) + leaf, place, float(leaf)))
    nodes = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    targets = ("treeids", "nodeids", "ids", "weights")
    return {
        **{f"nodes_{name}": list(column) for name, column in zip(nodes, zip(*inner_nodes, strict=True), strict=True)},
        **{f"target_{name}": list(column) for name, column in zip(targets, zip(*leaves, strict=True), strict=True)},
        "n_targets": len(trees),
        "post_transform": "NONE",
        "aggregate_function": "SUM",
    }


def tree_nodes(keeps: Sequence[int]) -> list[tuple[int, int, int]]:
    """A tree's inner nodes from its root on: which test each is, and the nodes where it passes and where it fails.

    Test k stands between leaves k and k + 1, and rules out the leaves on its left when it fails; leaf l is node n + l.

    >>> tree_nodes([0xFFFFFFFE, 0xFFFFFFFC])  # the second test is the root, and has the first one on its left
    [(1, 1, 4), (0, 2, 3)]
    """
    ruled_out = [int(ALL) & ~keep for keep in keeps]
    lowest = [(bits & -bits).bit_length() - 1 for bits in ruled_out]
    if any(bits != (2 << test) - (1 << low) for test, (bits, low) in enumerate(zip(ruled_out, lowest, strict=True))):
        raise refuse_export("this forest", "its tests do not make trees")
    placed: list[tuple[int, int, int]] = []

    def walk(first: int, last: int) -> int:
        if first == last:
            return len(keeps) + first
        root = max((test for test in range(first, last) if lowest[test] == first), default=None)
        if root is None:
            raise refuse_export("this forest", "its tests do not make trees")
        place = len(placed)
        placed.append((root, 0, 0))
        placed[place] = (root, walk(first, root), walk(root + 1, last))
        return place

    walk(0, len(keeps))
    return placed


def history_in(graph: Graph, layout: HistoryFeatures, contexts: str) -> str:
    """The features of a history, in the order of `HistoryFeatures`, from the inputs that tell it."""
    if contexts != "contexts":
        raise refuse_export("this policy", "it looks back at features that look back already")
    features: str = graph.once(layout, contexts, lambda: _history(graph, layout, contexts))
    return features


def _history(graph: Graph, layout: HistoryFeatures, contexts: str) -> str:
    graph.look_back(layout.steps)
    steps = graph.widened(graph.input("steps"), 1)
    columns = [contexts]
    for lag in range(1, layout.steps + 1):
        there = graph.op("GreaterOrEqual", steps, graph.constant([[lag]], np.int64))
        place = graph.constant(lag - 1, np.int64)
        before = graph.op("Gather", graph.input("previous_contexts"), place, axis=1)
        taken = graph.op("Gather", graph.input("previous_actions"), place, axis=1)
        taken = graph.cast(graph.one_hot(taken, layout.n_actions), np.float32)
        nothing = graph.constant(0.0, np.float32)
        columns += [graph.op("Where", there, before, nothing), graph.op("Where", there, taken, nothing)]
        columns.append(graph.cast(there, np.float32))
    columns.append(graph.cast(steps, np.float32))
    if layout.initial:
        begun = graph.op("Greater", steps, graph.constant([[0]], np.int64))
        columns.append(graph.op("Where", begun, graph.input("first_contexts"), contexts))
    return graph.must_be_finite(graph.op("Concat", *columns, axis=1))
