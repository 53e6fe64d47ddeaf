"""Policies in a graph: one function for each kind, which adds what it is made of and gives its probabilities."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from poela.data.history import WithHistory
from poela.policies.blended import BlendedPolicy, SharpenedPolicy
from poela.policies.mixture import EpisodeMixture
from poela.policies.network import GreedyQPolicy, NetworkPolicy, RecurrentPolicy
from poela.policies.plain import Case, PlainPolicy
from poela.policies.valued import BarringPolicy, CountedPolicy, TiltedPolicy, ValuedPolicy
from poela.serving.graph import (
    Graph,
    compared,
    far_ahead,
    greedy,
    logs_or_zero,
    positive,
    refuse_export,
    softmax,
    supported,
)
from poela.serving.graph_behavior import BEHAVIORS, behavior_in
from poela.serving.graph_limits import within_in
from poela.serving.graph_models import history_in, mlp_in, step_q_in
from poela.serving.graph_rules import EligibleInGraph, allowed_in, counts_in, eligible_in

Adds = Callable[[Graph, Any, str], str]


def policy_in(graph: Graph, policy: Any, contexts: str) -> str:
    """Probabilities [N, A] in float64."""
    adds = POLICIES.get(type(policy))
    if adds is None:
        raise refuse_export(f"a policy of class {type(policy).__name__}", "it is none of poela's own")
    return adds(graph, policy, contexts)


def _network(graph: Graph, policy: NetworkPolicy, contexts: str) -> str:
    rule = eligible_in(graph, policy.eligibility, contexts)
    scores = _priced(graph, mlp_in(graph, policy.network, contexts), rule)
    return _followed(graph, softmax(graph, scores, rule.mask), rule)


def _greedy_q(graph: Graph, policy: GreedyQPolicy, contexts: str) -> str:
    rule = eligible_in(graph, policy.eligibility, contexts)
    chosen = greedy(graph, mlp_in(graph, policy.network, contexts), _free(graph, rule), policy.n_actions)
    return _followed(graph, chosen, rule)


def _blended(graph: Graph, policy: BlendedPolicy, contexts: str) -> str:
    learned = policy_in(graph, policy.policy, contexts)
    logging = behavior_in(graph, policy.behavior, contexts)
    if (allowed := allowed_in(graph, policy.eligibility, contexts)) is not None:
        anything = graph.op("Not", graph.any_of(allowed))
        logging = within_in(graph, logging, graph.op("Or", allowed, anything))
    shares = graph.constant(policy.share), graph.constant(1 - policy.share)
    if policy.mixed:
        return graph.op("Add", graph.op("Mul", learned, shares[0]), graph.op("Mul", logging, shares[1]))
    logs = [
        graph.op("Mul", logs_or_zero(graph, rows), share)
        for rows, share in zip((learned, logging), shares, strict=True)
    ]
    taken = positive(graph, learned)
    if policy.share < 1:
        taken = supported(graph, positive(graph, logging), taken)
    return softmax(graph, graph.op("Add", *logs), taken)


def _sharpened(graph: Graph, policy: SharpenedPolicy, contexts: str) -> str:
    behavior = behavior_in(graph, policy.behavior, contexts)
    rule = eligible_in(graph, policy.eligibility, contexts)
    acts = positive(graph, behavior)
    graph.doubts.gain *= max(policy.sharpness, 1.0)
    sharpened = graph.op("Mul", logs_or_zero(graph, behavior), graph.constant(policy.sharpness))
    scores = graph.op("Where", acts, _priced(graph, sharpened, rule), graph.constant(0.0))
    return _followed(graph, softmax(graph, scores, supported(graph, acts, rule.mask)), rule)


def _tilted(graph: Graph, policy: TiltedPolicy, contexts: str) -> str:
    q, behavior = _values(graph, policy, contexts), behavior_in(graph, policy.behavior, contexts)
    rule = eligible_in(graph, policy.eligibility, contexts)
    acts = positive(graph, behavior)
    # Where the logging policy never acts so, the score is 0: what is taken without its support counts alike.
    if policy.temperature == 0:
        scores = graph.op("Where", acts, q, graph.constant(0.0))
        taken = supported(graph, acts, _free(graph, rule))
        return _followed(graph, greedy(graph, scores, taken, policy.n_actions), rule)
    tilted = graph.op("Add", graph.op("Log", behavior), graph.op("Div", q, graph.constant(policy.temperature)))
    scores = graph.op("Where", acts, _priced(graph, tilted, rule), graph.constant(0.0))
    return _followed(graph, softmax(graph, scores, supported(graph, acts, rule.mask)), rule)


def _plain(graph: Graph, policy: PlainPolicy, contexts: str) -> str:
    rule = eligible_in(graph, policy.eligibility, contexts)
    practice = _practice(graph, behavior_in(graph, policy.behavior, contexts), rule)
    free, left, decided, barred = _free(graph, rule), None, practice, []
    for case in policy.cases:
        holds = _holds(graph, case, policy.feature_names, contexts)
        rows = holds if left is None else graph.op("And", holds, left)
        if graph.deciding and case.do == "never":
            barred.append(graph.op("And", rows, _barred(graph, case, practice, policy.n_actions)))
        decided = graph.op("Where", rows, _acted(graph, case, practice, free, policy.n_actions), decided)
        others = graph.op("Not", holds)
        left = others if left is None else graph.op("And", left, others)
    if graph.deciding:
        nothing = graph.repeated(np.zeros(policy.n_actions), contexts, np.bool_)
        graph.doubts.barred = reduce(lambda one, other: graph.op("Or", one, other), barred, nothing)
    return _followed(graph, decided, rule)


def _barred(graph: Graph, case: Case, practice: str, n_actions: int) -> str:
    """As `Case.barred`."""
    own = positive(graph, graph.columns(practice, [case.action]))
    rest = [action for action in range(n_actions) if action != case.action]
    others = (
        graph.any_of(positive(graph, graph.columns(practice, rest))) if rest else graph.constant([[False]], np.bool_)
    )
    here = graph.constant([np.arange(n_actions) == case.action], np.bool_)
    return graph.op("And", graph.op("And", own, others), here)


def _holds(graph: Graph, case: Case, feature_names: Sequence[str], contexts: str) -> str:
    """Where all conditions of a case hold, [N, 1] or for all alike [1, 1]."""
    holds = graph.constant([[True]], np.bool_)
    for condition in case.where:
        column = graph.columns(contexts, [feature_names.index(condition.feature)])
        above = graph.op("Greater", column, graph.constant(condition.threshold, np.float32))
        holds = graph.op("And", holds, above if condition.above else graph.op("Not", above))
    return holds


def _acted(graph: Graph, case: Case, practice: str, free: str, n_actions: int) -> str:
    """What becomes of practice in such cases."""
    own = np.arange(n_actions) == case.action
    if case.do in ("never", "odds"):
        factors = np.where(own, case.odds if case.do == "odds" else 0.0, 1.0)
        changed = graph.op("Mul", practice, graph.constant([factors]))
        total = graph.along("ReduceSum", changed)
        some = positive(graph, total)
        divided = graph.op("Div", changed, graph.op("Where", some, total, graph.constant(1.0)))
        return graph.op("Where", some, divided, practice)
    possible = graph.columns(graph.op("And", positive(graph, practice), free), [case.action])
    if case.do == "always":
        return graph.op("Where", possible, graph.constant([own * 1.0]), practice)
    other = np.arange(n_actions) == case.other
    moved = graph.op("Mul", graph.columns(practice, [int(case.other or 0)]), graph.constant([own * 1.0]))
    changed = graph.op("Add", graph.op("Mul", practice, graph.constant([np.where(other, 0.0, 1.0)])), moved)
    return graph.op("Where", possible, changed, practice)


def _barring(graph: Graph, policy: BarringPolicy, contexts: str) -> str:
    q, rule = _values(graph, policy, contexts), eligible_in(graph, policy.eligibility, contexts)
    practice = _practice(graph, behavior_in(graph, policy.behavior, contexts), rule)
    value = graph.along("ReduceSum", graph.op("Mul", practice, q))
    least = graph.op("Add", value, graph.constant(policy.margin))
    compared(graph, q, least)
    worst = graph.op("LessOrEqual", q, least)
    taken = positive(graph, practice)
    done = graph.op("Where", taken, q, graph.constant(-np.inf))
    far_ahead(graph, done, policy.n_actions)
    barred = graph.op("And", worst, graph.op("Less", q, graph.along("ReduceMax", done)))
    if graph.deciding:
        graph.doubts.barred = graph.op("And", barred, taken)
    left = graph.op("Where", barred, graph.constant(0.0), practice)
    return _followed(graph, graph.op("Div", left, graph.along("ReduceSum", left)), rule)


def _practice(graph: Graph, behavior: str, rule: EligibleInGraph) -> str:
    """The logging policy within a rule, less of it where support is missing and has a price."""
    shares = within_in(graph, behavior, rule.mask)
    if rule.penalty is None:
        return shares
    return softmax(graph, graph.op("Sub", logs_or_zero(graph, shares), rule.penalty), positive(graph, shares))


def _counted(graph: Graph, policy: CountedPolicy, contexts: str) -> str:
    manner, limit = policy.departure.manner, float(policy.departure.limit)
    if manner == "soft":
        raise refuse_export(
            "soft SPIBB", "it moves probability from action to action until a budget is spent; use spibb or dprl"
        )
    q, rule = _values(graph, policy, contexts), eligible_in(graph, policy.eligibility, contexts)
    behavior = within_in(graph, behavior_in(graph, policy.behavior, contexts), _free(graph, rule))
    counts = counts_in(graph, policy.nearby, contexts)
    seen = graph.op("Where", positive(graph, behavior), counts, graph.constant(0.0))
    enough = ("Greater", limit) if manner == "spibb" else ("GreaterOrEqual", max(limit, 1.0))
    sure = graph.op(enough[0], seen, graph.constant(enough[1]))
    best, any_sure = greedy(graph, q, sure, policy.n_actions), graph.any_of(sure)
    if manner == "spibb":
        freed = graph.along("ReduceSum", graph.op("Where", sure, behavior, graph.constant(0.0)))
        unsure = graph.op("Where", sure, graph.constant(0.0), behavior)
        acts, departed = any_sure, graph.op("Add", unsure, graph.op("Mul", best, freed))
    else:
        value = graph.along("ReduceSum", graph.op("Mul", behavior, q))
        worth = graph.along("ReduceSum", graph.op("Mul", best, q))
        compared(graph, worth, value)
        acts, departed = graph.op("And", any_sure, graph.op("GreaterOrEqual", worth, value)), best
    acted = graph.op("Min", graph.op("Where", acts, departed, behavior), graph.constant(1.0))
    return _followed(graph, acted, rule)


def _values(graph: Graph, policy: ValuedPolicy, contexts: str) -> str:
    features = contexts if policy.history is None else history_in(graph, policy.history, contexts)
    return step_q_in(graph, policy.values, features)


def _priced(graph: Graph, scores: str, rule: EligibleInGraph) -> str:
    """Scores less the price of missing support."""
    return scores if rule.penalty is None else graph.op("Sub", scores, rule.penalty)


def _free(graph: Graph, rule: EligibleInGraph) -> str:
    """What a policy that takes the best action alone may take: what costs nothing, where there is such an action."""
    if rule.penalty is None:
        return rule.mask
    return supported(graph, graph.op("Equal", rule.penalty, graph.constant(0.0)), rule.mask)


def _followed(graph: Graph, probabilities: str, rule: EligibleInGraph) -> str:
    """The probabilities, but the logging policy's own where the rule's fallback is to follow it."""
    return probabilities if rule.behavior is None else graph.op("Where", rule.stranded, rule.behavior, probabilities)


def _with_history(graph: Graph, policy: WithHistory, contexts: str) -> str:
    return policy_in(graph, policy.policy, history_in(graph, policy.features, contexts))


def _recurrent(graph: Graph, policy: RecurrentPolicy, contexts: str) -> str:
    raise refuse_export("a recurrent policy", "it remembers the whole episode; learn one of the current context")


def _mixture(graph: Graph, policy: EpisodeMixture, contexts: str) -> str:
    raise refuse_export(
        "a mixture of the folds' policies", "each episode follows one of them; export the recommended policy"
    )


POLICIES: dict[type, Adds] = {
    NetworkPolicy: _network,
    RecurrentPolicy: _recurrent,
    GreedyQPolicy: _greedy_q,
    BlendedPolicy: _blended,
    SharpenedPolicy: _sharpened,
    TiltedPolicy: _tilted,
    PlainPolicy: _plain,
    BarringPolicy: _barring,
    CountedPolicy: _counted,
    WithHistory: _with_history,
    EpisodeMixture: _mixture,
    **dict.fromkeys(BEHAVIORS, behavior_in),
}
