"""A policy run by ONNX Runtime inside a server: the same numbers in a fraction of the time, and the same draws.

The graph is that of the export, but that distances and counts are given to it by the policy's own rule. What rounding
may decide is left to the policy: the graph says how far its probabilities may be off, and whether anything that it
compared was about equal; where a draw lies that near the edge of an action, or a comparison was that close, the policy
answers for this case, so that actions are those of `decide`.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import steps_of
from poela.core.registry import how_to_install
from poela.data.history import StepsToFollow
from poela.policies.deciding import KnownSteps, known_of
from poela.policies.ruled import RuledPolicy
from poela.serving.runtime import PACKAGES, missing_packages, products_by_runtime, session_of

LEAST_ERROR, GROWTH = 1e-9, 4.0  # of probabilities: what float64 loses, and how much more than scores they are off


@dataclass(frozen=True, eq=False)
class CompiledPolicy:
    """A policy, and the session of its graph."""

    policy: RuledPolicy
    session: Any
    givers: dict[str, Any]  # the rules by which inputs are worked out
    inputs: tuple[str, ...]
    lags: int  # how many earlier steps are looked at

    def known(self, steps: StepsToFollow, rows: IntArray, uniform: FloatArray) -> KnownSteps:
        """What the policy says of some rows of episodes, one in each, that are drawn by these numbers."""
        alone = alone_at(steps, rows)
        given = {name: self._given(name, alone) for name in self.givers}
        found = dict(zip(self._outputs, self.session.run(None, {**self._asked(steps, rows), **given}), strict=True))
        known = KnownSteps(
            found["probabilities"], found["mask"], found["stranded"], found.get("barred"), given.get("distances")
        )
        unsure = np.flatnonzero(found["doubt"] | near_an_edge(known.probabilities, uniform, found["error"]))
        if not len(unsure):
            return known
        some, ends = episodes_of(steps, unsure)
        return known.with_rows(unsure, known_of(self.policy, some).take(ends))

    @property
    def _outputs(self) -> list[str]:
        return [one.name for one in self.session.get_outputs()]

    def _given(self, name: str, alone: StepsToFollow) -> FloatArray:
        rule = self.givers[name]
        found: FloatArray = rule.distances_along(alone) if name == "distances" else rule.counts_along(alone)
        return found

    def _asked(self, steps: StepsToFollow, rows: IntArray) -> dict[str, Any]:
        """The inputs of the graph that tell contexts and what came before."""
        numbers, contexts = steps_of(steps)[rows], steps.contexts
        lags = np.arange(1, self.lags + 1)
        before = np.where(numbers[:, None] >= lags, rows[:, None] - lags, rows[:, None])
        every: dict[str, Any] = {
            "contexts": contexts[rows],
            "steps": numbers,
            "previous_contexts": contexts[before],
            "previous_actions": steps.actions[before],
            "first_contexts": contexts[steps.offsets[:-1]],
        }
        return {name: every[name] for name in self.inputs if name in every}


def alone_at(steps: StepsToFollow, rows: IntArray) -> StepsToFollow:
    """Some rows as steps that stand for themselves."""
    numbers = np.arange(len(rows) + 1)
    return StepsToFollow(
        steps.contexts[rows], steps.actions[rows], numbers, steps.feature_names, before=steps_of(steps)[rows]
    )


def episodes_of(steps: StepsToFollow, episodes: IntArray) -> tuple[StepsToFollow, IntArray]:
    """Some of the episodes, and the last row of each."""
    lengths = np.diff(steps.offsets)[episodes]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.concatenate([np.arange(steps.offsets[one], steps.offsets[one + 1]) for one in episodes])
    before = None if steps.before is None else steps.before[episodes]
    own = StepsToFollow(steps.contexts[rows], steps.actions[rows], offsets, steps.feature_names, before=before)
    return own, offsets[1:] - 1


def near_an_edge(probabilities: FloatArray, uniform: FloatArray, error: FloatArray) -> BoolArray:
    """Where a draw [N] would be another one if the probabilities [N, A] were off by as much as this [N].

    >>> rows = np.array([[0.25, 0.75], [0.25, 0.75], [0.25, 0.75]])
    >>> near_an_edge(rows, np.array([0.2, 0.2500001, 0.3]), np.full(3, 1e-6))
    array([False,  True, False])
    """
    edges = probabilities.cumsum(axis=1)
    drawn = uniform * edges[:, -1]
    return np.asarray((np.abs(edges - drawn[:, None]) <= error[:, None]).any(axis=1))


def compiled(policy: RuledPolicy) -> CompiledPolicy | str:
    """The policy with its graph, or why there is none, in half a sentence."""
    missing = missing_packages()
    if missing:
        are = "is" if len(missing) == 1 else "are"
        return f"{' and '.join(missing)} {are} not installed: {how_to_install('compiled')}"
    try:
        found = _compiled(policy)
    except InputError as error:
        return str(error)
    except ImportError:  # installed for another machine or another version of what it is built on
        return f"{' or '.join(PACKAGES)} cannot be imported: {how_to_install('compiled')}"
    rule = policy.eligibility
    if rule.settings.measures and rule.logged is not None:
        rule.logged.in_bytes(products_by_runtime)
    return found


def _compiled(policy: RuledPolicy) -> CompiledPolicy:
    from poela.serving.graph import Graph
    from poela.serving.graph_policies import policy_in
    from poela.serving.graph_rules import eligible_in

    graph = Graph(policy.n_features, policy.n_actions, deciding=True)
    contexts = graph.input("contexts")
    probabilities = policy_in(graph, policy, contexts)
    eligible = eligible_in(graph, policy.eligibility, contexts)
    error, doubt = _doubts(graph, contexts)
    outputs: dict[str, tuple[str, int | None, str]] = {
        "probabilities": ("float64", policy.n_actions, probabilities),
        "mask": ("bool", policy.n_actions, eligible.mask),
        "stranded": ("bool", None, graph.flat(eligible.stranded)),
        "error": ("float64", None, graph.flat(error)),
        "doubt": ("bool", None, graph.flat(doubt)),
    }
    if hasattr(policy, "barred_along"):
        if graph.doubts.barred is None:
            raise InputError("what this policy bars is in no graph")
        here = graph.op("And", graph.doubts.barred, graph.op("Not", eligible.stranded))
        outputs["barred"] = ("bool", policy.n_actions, here)
    session = session_of(graph.model(outputs, {}))
    return CompiledPolicy(policy, session, graph.givers, graph.inputs, graph.lags)


def _doubts(graph: Any, contexts: str) -> tuple[str, str]:
    """How far probabilities may be off, and whether anything was as close as that, [N, 1]."""
    doubts = graph.doubts
    error = graph.repeated([LEAST_ERROR], contexts)
    for one in doubts.errors:
        error = graph.op("Add", error, graph.op("Mul", one, graph.constant(GROWTH * doubts.gain)))
    sure = [graph.all_of(graph.op("Greater", gap, error)) for gap in doubts.gaps] + doubts.sure
    whole = reduce(lambda one, other: graph.op("And", one, other), sure, graph.repeated([True], contexts, np.bool_))
    return error, graph.op("Not", whole)
