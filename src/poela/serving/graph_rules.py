"""The rule of eligible actions in a graph, with its fallback."""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.data.limits import UNKNOWN
from poela.eligibility.eligible import squared_from
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.logged import LoggedContexts
from poela.serving.graph import Graph, compared, refuse_export
from poela.serving.graph_behavior import behavior_in, shortfall_in, support_in, supported_in
from poela.serving.graph_limits import not_forbidden_in, within_in
from poela.serving.graph_neighbours import PROPOSED, coarse_is_enough, counted_within, nearest, scaled_in


@dataclass(frozen=True)
class EligibleInGraph:
    """As `Eligible`, with names of tensors."""

    mask: str  # bool [N, A]
    stranded: str  # bool [N, 1]
    behavior: str | None  # [N, A], to be followed where stranded
    penalty: str | None  # [N, A], what scores lose where support is missing and has a price
    distances: str | None  # [N, A], to the nearest logged context with each action; None: the rule measures none
    closed: str | None = None  # bool [N, 1], every action is forbidden; None: that cannot be


def eligible_in(graph: Graph, rule: FittedEligibility, contexts: str) -> EligibleInGraph:
    """What the rule allows at these contexts."""
    made: EligibleInGraph = graph.once(rule, contexts, lambda: _eligible(graph, rule, contexts))
    return made


def allowed_in(graph: Graph, rule: FittedEligibility, contexts: str) -> str | None:
    """Which actions [N, A] are not forbidden; None where nothing ever is."""
    limits = rule.limits
    if limits is None:
        return None
    made: str = graph.once(limits, contexts, lambda: not_forbidden_in(graph, limits, contexts, UNKNOWN))
    return made


def _within(graph: Graph, eligible: EligibleInGraph, allowed: str | None) -> EligibleInGraph:
    """As `Eligible.within`."""
    if allowed is None:
        return eligible
    anything = graph.any_of(allowed)
    both = graph.op("And", eligible.mask, allowed)
    mask = graph.either(graph.any_of(both), both, allowed)
    mask = graph.op("Or", mask, graph.op("Not", anything))
    behavior = None if eligible.behavior is None else within_in(graph, eligible.behavior, mask)
    stranded = graph.op("Or", eligible.stranded, graph.op("Not", anything))
    return replace(eligible, mask=mask, stranded=stranded, behavior=behavior, closed=graph.op("Not", anything))


def _eligible(graph: Graph, rule: FittedEligibility, contexts: str) -> EligibleInGraph:
    allowed = allowed_in(graph, rule, contexts)
    return _within(graph, _by_rule(graph, rule, contexts, allowed), allowed)


def _by_rule(graph: Graph, rule: FittedEligibility, contexts: str, allowed: str | None) -> EligibleInGraph:
    settings = rule.settings
    if settings.measures and settings.search == "approximate" and not graph.deciding:
        raise refuse_export(
            "a rule with an approximate search", "a graph searches all logged contexts; learn with search='exact'"
        )
    probabilities = behavior_in(graph, rule.behavior, contexts) if settings.asks_behavior else None
    support = None if rule.support is None else support_in(graph, rule.support, contexts)
    probable = _probable(graph, rule, probabilities, support)
    if allowed is not None:
        probable = allowed if probable is None else graph.op("And", probable, allowed)
    by_step = settings.neighbours == "same_step"
    distances = None
    if settings.measures:
        given = graph.deciding
        distances = graph.given("distances", contexts, rule) if given else _distances(graph, rule, contexts, by_step)
    masks = [] if probable is None else [probable]
    if distances is not None and rule.radius is not None:
        masks.append(_near(graph, distances, rule.radius))
    if distances is not None and rule.reach is not None:
        masks.append(graph.any_of(_near(graph, distances, rule.reach)))
    penalty = _penalty(graph, rule, support)
    everything = graph.repeated(np.ones(rule.n_actions), contexts, np.bool_)
    if not masks:
        return EligibleInGraph(everything, graph.repeated([False], contexts, np.bool_), None, penalty, None)
    mask = _all_of(graph, [everything, *masks])
    stranded = graph.op("Not", graph.any_of(mask))
    if settings.fallback == "behavior" and probabilities is not None:
        acts = graph.op("And", stranded, graph.op("Greater", probabilities, graph.constant(0.0)))
        return EligibleInGraph(graph.op("Or", mask, acts), stranded, probabilities, penalty, distances)
    nearness = None
    if settings.fallback == "nearest" and not graph.deciding:  # which hands out nothing there
        usual = probabilities if support is None else support
        nearness = _nearness(graph, rule, contexts, distances, usual, probable)
        if nearness is not None and allowed is not None:
            nearness = graph.op("Where", allowed, nearness, graph.constant(np.inf))
    if nearness is None:
        return EligibleInGraph(graph.op("Or", mask, stranded), stranded, None, penalty, distances)
    left = graph.either(stranded, _smallest(graph, nearness), mask)
    return EligibleInGraph(left, stranded, None, penalty, distances)


def _all_of(graph: Graph, masks: list[str]) -> str:
    return reduce(lambda one, other: graph.op("And", one, other), masks)


def _penalty(graph: Graph, rule: FittedEligibility, support: str | None) -> str | None:
    """As `Eligible.penalty`."""
    price = rule.settings.price
    if rule.support is None or support is None or not price:
        return None
    return graph.op("Mul", shortfall_in(graph, rule.support, support), graph.constant(float(price)))


def _probable(graph: Graph, rule: FittedEligibility, probabilities: str | None, support: str | None) -> str | None:
    """As `Eligibility.probable`, and with support where that has no price; None where any probability will do."""
    settings, passed = rule.settings, []
    if rule.support is not None and support is not None and settings.price is None:
        passed.append(supported_in(graph, rule.support, support))
    if settings.minimum_probability is not None and probabilities is not None:
        least = graph.constant(settings.minimum_probability)
        compared(graph, probabilities, least)
        passed.append(graph.op("GreaterOrEqual", probabilities, least))
        passed.append(graph.op("Greater", probabilities, graph.constant(0.0)))
    if settings.relative_probability is not None and probabilities is not None:
        share = graph.op("Mul", graph.along("ReduceMax", probabilities), graph.constant(settings.relative_probability))
        compared(graph, probabilities, share)
        passed.append(graph.op("Greater", probabilities, share))
    return _all_of(graph, passed) if passed else None


def _near(graph: Graph, distances: str, radius: float) -> str:
    """Which actions were logged within the radius."""
    if np.isinf(radius):
        return graph.op("Not", graph.op("IsInf", distances))
    return graph.op("LessOrEqual", distances, graph.constant(radius))


def _smallest(graph: Graph, nearness: str) -> str:
    """Which actions are nearest [N, A]; several where they are equally near."""
    return graph.op("Equal", nearness, graph.along("ReduceMin", nearness))


def _nearness(
    graph: Graph,
    rule: FittedEligibility,
    contexts: str,
    distances: str | None,
    probabilities: str | None,
    probable: str | None,
) -> str | None:
    """What the fallback "nearest" makes smallest; None where all actions are alike."""
    if distances is None:
        return None if probabilities is None else graph.op("Neg", probabilities)
    infinite = graph.constant(np.inf)
    nearness = distances
    if probable is not None:
        within = graph.op("Where", probable, distances, infinite)
        nearness = graph.op("Where", _any_finite(graph, within), within, distances)
    if rule.settings.neighbours == "same_step":
        # A step number that was never logged: the nearest over all steps.
        pooled = _distances(graph, rule, contexts, same_step=False)
        nearness = graph.op("Where", _any_finite(graph, nearness), nearness, pooled)
    return nearness


def _any_finite(graph: Graph, numbers: str) -> str:
    return graph.any_of(graph.op("Less", numbers, graph.constant(np.inf)))


def _distances(graph: Graph, rule: FittedEligibility, contexts: str, same_step: bool) -> str:
    """To the nearest logged context with each action [N, A], on the metric's scale."""
    logged = _logged(rule)
    limits = [limit for limit in (rule.radius, rule.reach) if limit is not None]
    finest = squared_from(min(limits), rule.settings.metric, rule.n_features)
    features = scaled_in(graph, logged.scale, contexts)
    columns = []
    for action in range(rule.n_actions):
        points, steps = _points(logged, action, same_step)
        if not len(points):
            columns.append(graph.repeated([np.inf], contexts))
            continue
        barred = _of_other_steps(graph, steps) if same_step else ""
        coarse = coarse_is_enough(points, finest)
        columns.append(nearest(graph, features, points, 1, proposed=PROPOSED, coarse=coarse, barred=barred).squared)
    squared = graph.op("Concat", *columns, axis=1)
    if rule.settings.metric == "euclidean":
        return graph.op("Sqrt", squared)
    return graph.op("Div", squared, graph.constant(float(max(rule.n_features, 1))))


def counts_in(graph: Graph, rule: FittedEligibility, contexts: str) -> str:
    """How many contexts with each action were logged within the radius [N, A]."""
    if graph.deciding:
        return graph.given("counts", contexts, rule)
    logged = _logged(rule)
    features, same_step = scaled_in(graph, logged.scale, contexts), rule.settings.neighbours == "same_step"
    columns = []
    for action in range(rule.n_actions):
        members = np.flatnonzero(logged.actions == action)
        if not len(members):
            columns.append(graph.repeated([0.0], contexts))
            continue
        points = logged.features(logged.contexts[members])
        barred = _of_other_steps(graph, logged.steps[members]) if same_step else ""
        columns.append(counted_within(graph, features, points, rule.squared_radius, barred))
    return graph.op("Concat", *columns, axis=1)


def _points(logged: LoggedContexts, action: int, same_step: bool) -> tuple[FloatArray, IntArray]:
    """The distinct contexts with this action as the distance sees them, and their steps."""
    members = np.flatnonzero(logged.actions == action)
    points, steps = logged.features(logged.contexts[members]), logged.steps[members]
    table = np.column_stack([points, steps]) if same_step else points
    first = np.unique(table, axis=0, return_index=True)[1]
    return points[first], steps[first]


def _of_other_steps(graph: Graph, steps: IntArray) -> str:
    same = graph.op("Equal", graph.widened(graph.input("steps"), 1), graph.constant([steps], np.int64))
    return graph.op("Not", same)


def _logged(rule: FittedEligibility) -> LoggedContexts:
    if rule.logged is None:
        raise refuse_export("this rule", "the logged contexts that it measures distances to are not at hand")
    return rule.logged
