"""Models of the logging policy in a graph: contexts in, probabilities of all actions out."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from poela.behavior.boosted import BoostedModel
from poela.behavior.clone import CloneModel, RecurrentCloneModel
from poela.behavior.history import HistoryModel
from poela.behavior.model import Schema
from poela.behavior.multinomial import MultinomialModel
from poela.behavior.propensities import KNNModel, NearestPropensities
from poela.behavior.tempered import TemperedModel
from poela.core.arrays import FloatArray
from poela.data.limits import FORBIDDEN
from poela.eligibility.support_model import LEAST_CHANCE, SupportedBehavior, SupportModel
from poela.serving.graph import Graph, compared, positive, refuse_export, softmax
from poela.serving.graph_limits import not_forbidden_in, within_in
from poela.serving.graph_models import forest_in, history_in, mlp_in
from poela.serving.graph_neighbours import (
    PROPOSED_IN_ORDER,
    NearestPoints,
    coarse_tells_apart,
    in_order_of_ties,
    nearest,
    scaled_in,
)


def behavior_in(graph: Graph, model: Any, contexts: str) -> str:
    """Probabilities [N, A] in float64."""
    made = BEHAVIORS.get(type(model))
    if made is None:
        raise refuse_export(
            f"the behavior model {type(model).__name__}", "it is none of poela's own: learn with one of those"
        )
    name: str = graph.once(model, contexts, lambda: _kept(graph, model, contexts, made(graph, model, contexts)))
    return name


def _kept(graph: Graph, model: Any, contexts: str, probabilities: str) -> str:
    """As `Schema.kept`."""
    schema = getattr(model, "schema", None)
    limits = schema.limits if isinstance(schema, Schema) else None
    if limits is None:
        return probabilities
    mask = not_forbidden_in(graph, limits, contexts, FORBIDDEN)
    return within_in(graph, probabilities, graph.op("Or", mask, graph.op("Not", graph.any_of(mask))))


def _multinomial(graph: Graph, model: MultinomialModel, contexts: str) -> str:
    if len(model.schema.seen) == 1:
        return _only(graph, model.schema, contexts)
    centred = graph.op("Sub", graph.cast(contexts, np.float64), graph.constant(model.scaling.mean))
    scaled = graph.op("Div", centred, graph.constant(model.scaling.spread))
    scores = graph.op("MatMul", scaled, graph.constant(model.coefficients[:, :-1].T))
    scores = graph.op("Add", scores, graph.constant(model.coefficients[:, -1]))
    return _spread(graph, model.schema, softmax(graph, scores))


def _boosted(graph: Graph, model: BoostedModel, contexts: str) -> str:
    if len(model.schema.seen) == 1:
        return _only(graph, model.schema, contexts)
    scores = forest_in(graph, [model.forest], contexts, None)
    if len(model.forest.baseline) == 1:
        # Of two actions only the second one's score is kept; the first one's is 0.
        scores = graph.op("Concat", graph.op("Mul", scores, graph.constant(0.0)), scores, axis=1)
    return _spread(graph, model.schema, softmax(graph, scores))


def _clone(graph: Graph, model: CloneModel, contexts: str) -> str:
    if len(model.schema.seen) == 1:
        return _only(graph, model.schema, contexts)
    logits = graph.columns(mlp_in(graph, model.network, contexts), model.schema.seen)
    return _spread(graph, model.schema, softmax(graph, logits))


def _knn(graph: Graph, model: KNNModel, contexts: str) -> str:
    if len(model.schema.seen) == 1:
        return _only(graph, model.schema, contexts)
    order = in_order_of_ties(model.contexts.astype(np.float64))
    points, k = model.contexts[order].astype(np.float64), model.settings.k
    neighbours = _in_order(graph, graph.cast(contexts, np.float64), points, k)
    taken: FloatArray = np.eye(len(model.schema.seen))[model.codes[order]]
    counts = _summed(graph, graph.op("Gather", graph.constant(taken), neighbours.places, axis=0))
    # Counts first, and one division: rules compare shares with limits that shares may be equal to.
    return _spread(graph, model.schema, graph.op("Div", counts, graph.constant(float(k))))


def _nearest_propensities(graph: Graph, model: NearestPropensities, contexts: str) -> str:
    features = model.scale(model.contexts)
    order = in_order_of_ties(features)
    distinct = order[np.concatenate([[True], (np.diff(features[order], axis=0) != 0).any(axis=1)])]
    scaled = scaled_in(graph, model.scale, contexts)
    neighbours = _in_order(graph, scaled, features[distinct], 1)
    rows = graph.op("Gather", graph.constant(model.propensities[distinct]), neighbours.places, axis=0)
    return _summed(graph, rows)


def _in_order(graph: Graph, features: str, points: FloatArray, k: int) -> NearestPoints:
    """The k nearest, where it matters which of equally near ones are taken."""
    coarse = coarse_tells_apart(points, k, PROPOSED_IN_ORDER)
    return nearest(graph, features, points, k, proposed=PROPOSED_IN_ORDER, coarse=coarse)


def _summed(graph: Graph, shares: str) -> str:
    """[N, k, A] summed over k."""
    return graph.op("ReduceSum", shares, graph.constant([1], np.int64), keepdims=0)


def _tempered(graph: Graph, model: TemperedModel, contexts: str) -> str:
    logs = graph.op("Log", behavior_in(graph, model.model, contexts))
    graph.doubts.gain *= max(1 / model.temperature, 1.0)
    return softmax(graph, graph.op("Div", logs, graph.constant(model.temperature)))


def _history(graph: Graph, model: HistoryModel, contexts: str) -> str:
    return behavior_in(graph, model.model, history_in(graph, model.features, contexts))


def _recurrent(graph: Graph, model: RecurrentCloneModel, contexts: str) -> str:
    raise refuse_export(
        "a recurrent model of the logging policy",
        "it remembers the whole episode; learn with another behavior model (for one that looks back: multinomial, "
        "boosted or knn with history)",
    )


def _supported(graph: Graph, model: SupportedBehavior, contexts: str) -> str:
    behavior = behavior_in(graph, model.behavior, contexts)
    has_support = supported_in(graph, model.support, support_in(graph, model.support, contexts))
    shares = graph.op("Where", has_support, behavior, graph.constant(0.0))
    shares = graph.op("Where", graph.any_of(positive(graph, shares)), shares, behavior)
    return graph.op("Div", shares, graph.along("ReduceSum", shares))


def support_in(graph: Graph, model: SupportModel, contexts: str) -> str:
    """How probable each action was in cases like these [N, A]: the mean of what its models say."""

    def mean() -> str:
        rows = [behavior_in(graph, one, contexts) for one in model.models]
        total = reduce(lambda one, other: graph.op("Add", one, other), rows)
        return graph.op("Div", total, graph.constant(float(len(rows))))

    name: str = graph.once(model, contexts, mean)
    return name


def supported_in(graph: Graph, model: SupportModel, probabilities: str) -> str:
    """Which actions [N, A] have support."""
    compared(graph, probabilities, graph.constant([model.least]))
    return graph.op("Greater", probabilities, graph.constant([model.least]))


def shortfall_in(graph: Graph, model: SupportModel, probabilities: str) -> str:
    """How many nats each action [N, A] falls short of support."""
    least, nothing = graph.constant([np.log(np.maximum(model.least, LEAST_CHANCE))]), graph.constant(0.0)
    chance = graph.op("Max", probabilities, graph.constant(LEAST_CHANCE))
    missing = graph.op("Max", graph.op("Sub", least, graph.op("Log", chance)), nothing)
    return graph.op("Where", supported_in(graph, model, probabilities), nothing, missing)


def _only(graph: Graph, schema: Schema, contexts: str) -> str:
    """The one action that was ever seen."""
    return graph.repeated(np.eye(schema.n_actions)[schema.seen[0]], contexts)


def _spread(graph: Graph, schema: Schema, probabilities: str) -> str:
    """Probabilities of the seen actions as those of all actions."""
    if len(schema.seen) == schema.n_actions:
        return probabilities
    return graph.op("MatMul", probabilities, graph.constant(np.eye(schema.n_actions)[list(schema.seen)]))


BEHAVIORS: dict[type, Callable[[Graph, Any, str], str]] = {
    MultinomialModel: _multinomial,
    BoostedModel: _boosted,
    CloneModel: _clone,
    RecurrentCloneModel: _recurrent,
    KNNModel: _knn,
    TemperedModel: _tempered,
    HistoryModel: _history,
    NearestPropensities: _nearest_propensities,
    SupportedBehavior: _supported,
}
