"""Guardrails at work: the outcomes of pooled episodes that they are about, and what a policy does to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.ragged import episode_sums
from poela.data.costs import Costs
from poela.data.groups import Grouping
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import Evidence
from poela.studies.guards import FEW, HARM, HOLDS, RETURN, Guard, GuardRecord
from poela.studies.held_out import Episodes, part_of, units_of

Groupings = Callable[[str], Grouping]  # the groups of the pooled episodes by a column


@dataclass(frozen=True, eq=False)
class Guarded:
    """A guardrail on pooled episodes: what each brought, the higher the better, and which of them it is about."""

    record: GuardRecord
    values: FloatArray  # [n]
    members: BoolArray | None = None  # [n] of its group; None: everybody

    @property
    def slack(self) -> float:
        """What the gain in this outcome may at least be, turned round: a bound plus this must not be below zero."""
        guard = self.record.guard
        if guard.limit is None:
            return np.inf
        return guard.limit if guard.at_most else -guard.limit

    def episodes(self, episodes: Episodes) -> Episodes:
        """Pooled episodes whose returns are this outcome, of the group alone."""
        logs = replace(episodes.logs, rewards=self.values)
        guarded = replace(episodes, logs=logs, uncapped=None)
        return guarded if self.members is None else guarded.take(self.members)

    def evidence(self, evidence: Evidence, episodes: Episodes) -> Evidence:
        """A policy's evidence on this outcome; `episodes` are those of `episodes(…)`."""
        if self.members is not None:
            evidence = part_of(evidence, self.members)
        return replace(evidence, logs=episodes.logs, controlled=None)

    def recombined(self, log_weights: Float32Array) -> Float32Array:
        """Log weights [copies, n] of recombined episodes, those of the group alone."""
        return log_weights if self.members is None else log_weights[:, self.members]

    def units(self, episodes: Episodes) -> slice | IntArray:
        """The units that this outcome rests on."""
        return slice(None) if self.members is None else units_of(episodes.logs.units[self.members])

    def state(self, value: float, bound: float | None) -> float:
        """Whether the guardrail holds: harm if the estimate is beyond it, too few cases if its bound alone is."""
        if self.record.guard.limit is None:
            return HOLDS
        if not value + self.slack >= 0:
            return HARM
        return FEW if bound is None or not bound + self.slack >= 0 else HOLDS


def guarded_in(
    guards: Sequence[Guard], held_out: Sequence[Trajectories], returns: FloatArray, groups: Groupings
) -> tuple[Guarded, ...]:
    """Each guardrail on these episodes, fold by fold; one by group once for each group. `returns` [n] are the goal's.

    >>> pain = {"outcomes": [[1], [2], [9]], "outcome_names": ["pain"]}
    >>> logs = Trajectories([[0.0]] * 3, [0] * 3, [1, 2, 3], [0, 2, 3], **pain)
    >>> [one] = guarded_in([Guard.of("pain per step <= +0.5")], [logs], logs.returns(), lambda column: None)
    >>> one.values, one.slack, one.state(-0.2, -0.6), one.state(-0.7, -0.9), one.state(0.0, -0.4)
    (array([-1.5, -9. ]), 0.5, 0.0, -1.0, 1.0)
    """
    found = []
    for guard in guards:
        values = _values(guard, held_out, returns)
        if guard.by is None:
            found.append(Guarded(GuardRecord(guard), values))
            continue
        grouping = groups(guard.by)
        for place, name in enumerate(grouping.names):
            group = f"{grouping.column}: {name}"
            found.append(Guarded(GuardRecord(guard, group), values, np.asarray(grouping.place == place)))
    return tuple(found)


def _values(guard: Guard, held_out: Sequence[Trajectories], returns: FloatArray) -> FloatArray:
    """What each episode [n] brought, the higher the better."""
    values = returns
    if guard.level:
        costs = Costs.of(guard.outcome)
        values = np.concatenate([episode_sums(costs.of_steps(logs), logs.offsets) for logs in held_out])
    elif guard.outcome != RETURN:
        values = np.concatenate([episode_sums(logs.outcome(guard.outcome), logs.offsets) for logs in held_out])
    if guard.per_step:
        values = values / np.concatenate([logs.lengths for logs in held_out])
    return np.asarray(0.0 - values if guard.at_most else values)
