"""How near a case is to the log, in a graph: whether to defer, the distance, and whether it is in range."""

from functools import reduce
from typing import Any

import numpy as np

from poela.data.history import WithHistory
from poela.eligibility.fitted import FittedEligibility
from poela.serving.graph import Graph
from poela.serving.graph_models import history_in
from poela.serving.graph_rules import eligible_in

Output = tuple[str, int | tuple[int, ...] | None, str]  # type, width or shape beside the batch, tensor


def nearness_in(graph: Graph, policy: Any, contexts: str) -> dict[str, Output]:
    """The outputs beside probabilities, by name; what is no number is deferred and near nothing, like steps below 0."""
    is_finite = reduce(lambda one, other: graph.op("And", one, other), (_finite(graph, one) for one in graph.numbers))
    if isinstance(policy, WithHistory):
        policy, contexts = policy.policy, history_in(graph, policy.features, contexts)
    rule = getattr(policy, "eligibility", None)
    defer, distance = graph.op("Not", is_finite), graph.repeated([np.nan], contexts)
    in_range = graph.repeated([False], contexts, np.bool_)
    if isinstance(rule, FittedEligibility):
        eligible = eligible_in(graph, rule, contexts)
        defer = graph.op("Or", defer, eligible.stranded)
        if eligible.distances is not None:
            nearest = graph.along("ReduceMin", eligible.distances)
            distance = graph.op("Where", is_finite, nearest, graph.constant(np.inf))
        if rule.known_ranges is not None:
            in_range = _in_range(graph, rule, contexts)
    if "steps" in graph.inputs:  # one below zero is none
        begun = graph.op("GreaterOrEqual", graph.widened(graph.input("steps"), 1), graph.constant([[0]], np.int64))
        defer, in_range = graph.op("Or", defer, graph.op("Not", begun)), graph.op("And", in_range, begun)
    return {
        "defer": ("bool", None, graph.flat(defer)),
        "distance": ("float32", None, graph.cast(graph.flat(distance), np.float32)),
        "in_range": ("bool", None, graph.flat(in_range)),
    }


def _finite(graph: Graph, numbers: str) -> str:
    odd = graph.op("Or", graph.op("IsNaN", numbers), graph.op("IsInf", numbers))
    return graph.op("Not", graph.any_of(odd))


def _in_range(graph: Graph, rule: FittedEligibility, contexts: str) -> str:
    ranges = rule.known_ranges
    assert ranges is not None
    above = graph.op("GreaterOrEqual", contexts, graph.constant(ranges.low, np.float32))
    below = graph.op("LessOrEqual", contexts, graph.constant(ranges.high, np.float32))
    return graph.all_of(graph.op("And", above, below))
