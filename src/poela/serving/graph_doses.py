"""Policies of real-valued actions in a graph: a normal distribution of each column, and what its rule leaves of it."""

from typing import Any

import numpy as np

from poela.behavior.gaussian import GaussianModel
from poela.eligibility.continuous import NEAREST, FittedContinuousEligibility
from poela.networks.gaussian import LOG_STD
from poela.policies.gaussian import GaussianPolicy
from poela.serving.graph import Graph, refuse_export
from poela.serving.graph_models import mlp_in
from poela.serving.graph_nearness import Output
from poela.serving.graph_neighbours import (
    PROPOSED_IN_ORDER,
    NearestPoints,
    coarse_tells_apart,
    in_order_of_ties,
    nearest,
)

LEAST_WIDTH = 1e-9  # as `boxes` has it


def doses_in(graph: Graph, policy: Any, contexts: str) -> dict[str, Output]:
    """The outputs by name: mean and spread of each column and, under a rule, the boxes that it is kept within."""
    mean, spread = moments_in(graph, policy, contexts)
    width = len(policy.action_names)
    outputs: dict[str, Output] = {"mean": ("float64", width, mean), "spread": ("float64", width, spread)}
    odd = graph.op("Or", graph.op("IsNaN", contexts), graph.op("IsInf", contexts))
    finite = graph.op("Not", graph.any_of(odd))
    rule = getattr(policy, "eligibility", None)
    defer, distance = graph.op("Not", finite), graph.repeated([np.nan], contexts)
    in_range = graph.repeated([False], contexts, np.bool_)
    if rule is not None:
        features = _standardised(graph, rule, contexts)
        near = _nearest(graph, rule, features)
        squared = graph.op("Div", near.squared, graph.constant(float(rule.contexts.shape[1])))
        first = graph.columns(squared, [0])
        defer = graph.op("Or", defer, graph.op("Greater", first, graph.constant(float(rule.settings.radius))))
        distance = graph.op("Where", finite, first, graph.constant(np.inf))
        low, high = rule.ranges
        above = graph.op("GreaterOrEqual", features, graph.constant(low))
        in_range = graph.all_of(graph.op("And", above, graph.op("LessOrEqual", features, graph.constant(high))))
        outputs |= _boxes(graph, rule, near, squared)
    return {
        **outputs,
        "defer": ("bool", None, graph.flat(defer)),
        "distance": ("float32", None, graph.cast(graph.flat(distance), np.float32)),
        "in_range": ("bool", None, graph.flat(in_range)),
    }


def moments_in(graph: Graph, policy: Any, contexts: str) -> tuple[str, str]:
    """Mean and standard deviation [N, m], before the rule."""
    if isinstance(policy, GaussianModel):
        return _of_network(graph, policy, contexts)
    if not isinstance(policy, GaussianPolicy):
        raise refuse_export(f"a policy of class {type(policy).__name__}", "it is none of poela's own")
    mean, spread = _of_network(graph, policy.model, contexts)
    if policy.behavior is None or policy.share == 1.0:
        return mean, spread
    own, other = graph.constant(policy.share), graph.constant(1 - policy.share)
    usual, width = moments_in(graph, policy.behavior, contexts)
    mean = graph.op("Add", graph.op("Mul", usual, other), graph.op("Mul", mean, own))
    logs = [graph.op("Mul", graph.op("Log", one), share) for one, share in ((width, other), (spread, own))]
    return mean, graph.op("Exp", graph.op("Add", *logs))


def _of_network(graph: Graph, model: GaussianModel, contexts: str) -> tuple[str, str]:
    outputs, width = mlp_in(graph, model.network, contexts), len(model.action_names)
    mean = graph.op("Mul", graph.columns(outputs, range(width)), graph.constant(model.spread))
    log_std = graph.columns(outputs, range(width, 2 * width))
    clipped = graph.op("Clip", log_std, *(graph.constant(np.float64(np.float32(end))) for end in LOG_STD))
    spread = graph.op("Mul", graph.op("Exp", clipped), graph.constant(model.spread))
    return graph.op("Add", mean, graph.constant(model.centre)), spread


def _standardised(graph: Graph, rule: FittedContinuousEligibility, contexts: str) -> str:
    centred = graph.op("Sub", graph.cast(contexts, np.float64), graph.constant(rule.context_scale[0]))
    return graph.op("Div", centred, graph.constant(rule.context_scale[1]))


def _nearest(graph: Graph, rule: FittedContinuousEligibility, features: str) -> NearestPoints:
    points = rule.contexts[in_order_of_ties(rule.contexts)]
    k = min(rule.settings.neighbours or NEAREST, len(points))
    coarse = coarse_tells_apart(points, k, PROPOSED_IN_ORDER)
    return nearest(graph, features, points, k, proposed=PROPOSED_IN_ORDER, coarse=coarse)


def _boxes(graph: Graph, rule: FittedContinuousEligibility, near: NearestPoints, squared: str) -> dict[str, Output]:
    """As `boxes`: the ends of each [N, K, m], and which of them count [N, K]."""
    settings, unit, centre = rule.settings, rule.action_scale[1], rule.action_scale[0]
    radius, k = float(settings.radius), min(settings.neighbours or NEAREST, len(rule.contexts))
    far = graph.op("Greater", squared, graph.constant(radius))
    stands = graph.op("And", far, graph.constant([np.arange(k) == 0], np.bool_))  # the nearest stands for a far case
    room = graph.op("Sub", graph.constant(radius), graph.op("Where", stands, graph.constant(0.0), squared))
    room = graph.op("Div", room, graph.constant(float(settings.action_weight)))
    reach = graph.op("Sqrt", graph.op("Max", room, graph.constant(0.0)))
    reach = graph.op("Mul", graph.widened(reach, 2), graph.constant(unit))
    reach = graph.op("Max", reach, graph.constant(LEAST_WIDTH * unit))
    actions = rule.actions[in_order_of_ties(rule.contexts)] * unit + centre
    middle = graph.op("Gather", graph.constant(actions), near.places, axis=0)
    shape = (k, len(unit))
    return {
        "low": ("float64", shape, graph.op("Sub", middle, reach)),
        "high": ("float64", shape, graph.op("Add", middle, reach)),
        "there": ("bool", k, graph.op("GreaterOrEqual", room, graph.constant(0.0))),
    }
