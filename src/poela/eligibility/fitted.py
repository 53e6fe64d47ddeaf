"""Eligible actions over training logs: distances, masks, what happens where nothing is eligible, storage."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.live import stored_or_live
from poela.core.log_cache import cached
from poela.core.policy import LoggedSteps, along_once, steps_of
from poela.core.storage import Stored
from poela.data.action_space import ActionName
from poela.data.limits import LimitsInContexts
from poela.data.schema import TableSchema
from poela.eligibility.eligible import Eligible as Eligible
from poela.eligibility.eligible import (
    checked_contexts,
    largest_squared,
    nearness_where_stranded,
    on_metric_scale,
    refuse_closed,
    squared_from,
)
from poela.eligibility.explanation import Explanation, explain
from poela.eligibility.foreign import OwnRule, OwnScale
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.nearness import Nearness
from poela.eligibility.support_model import SupportModel
from poela.neighbours.grouped import FEW
from poela.neighbours.scales import FeatureRange, FeatureScale

if TYPE_CHECKING:
    from poela.eligibility.rules import Eligibility

KIND = "eligibility"
WHOLE_NUMBERS = ("actions", "steps", "rows", "episodes")
SAID_IF_SET = ("reach", "support", "price", "allows")  # so that older policies stay the same, and their fingerprints


@dataclass(frozen=True, eq=False)
class FittedEligibility:
    """An eligibility rule over training logs; made by `Eligibility(...).fit(train)`.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.eligibility.rules import Eligibility
    >>> logs = Trajectories(contexts=[[0.0], [1.0]], actions=[0, 1], rewards=[0, 0], offsets=[0, 1, 2])
    >>> fitted = Eligibility(radius=0.5).fit(logs)
    >>> fitted.distances([[0.5]])
    array([[0.25, 0.25]])
    >>> fitted.resolve([[0.0], [4.0]]).stranded
    array([False,  True])
    """

    settings: "Eligibility"
    n_actions: int
    action_names: tuple[ActionName, ...]
    feature_names: tuple[str, ...]
    logged: LoggedContexts | None  # None: loaded from a file that needs no logged contexts
    episode_ids: tuple[ActionName, ...] | None = None  # of the training log, by position
    behavior: Any = None  # has probabilities(contexts); None where the rule does not ask for it
    schema: TableSchema | None = None  # how columns of a table become the features; None: the log came as arrays
    support: SupportModel | None = None  # None: the rule does not ask, or the log takes every action everywhere
    ranges: FeatureRange | None = None  # None: no distances are measured, or by an older file, which has no ranges

    @cached_property
    def limits(self) -> LimitsInContexts | None:
        """Which actions are forbidden at a context; None where none ever is."""
        return LimitsInContexts.of(self.feature_names, self.action_names)

    @property
    def radius(self) -> float | None:
        """The radius as a number, on the metric's scale."""
        return None if self.settings.radius is None else float(self.settings.radius)

    @property
    def reach(self) -> float | None:
        """The distance beyond which a context is unlike anything logged, as a number on the metric's scale."""
        return None if self.settings.reach is None else float(self.settings.reach)

    @property
    def nearby(self) -> float | None:
        """The distance within which logged cases are similar: the radius or, without one, the reach."""
        return self.reach if self.radius is None else self.radius

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return len(self.feature_names)

    def distances(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """To the nearest logged context with each action [N, A], on the metric's scale; inf if never logged."""
        return self._distances(*self._checked(contexts, steps))

    def counts(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """How many contexts with each action were logged within the radius, or the reach of a rule without one [N, A].

        >>> from poela.data.trajectories import Trajectories
        >>> from poela.eligibility.rules import Eligibility
        >>> logs = Trajectories(contexts=[[0.0], [1.0], [1.2]], actions=[0, 1, 1], rewards=[0, 0, 0], offsets=[0, 3])
        >>> Eligibility(radius=0.5).fit(logs).counts([[0.9], [0.4]])
        array([[0., 2.],
               [1., 1.]])
        """
        return self._counts(*self._checked(contexts, steps))

    def counts_along(self, logs: LoggedSteps) -> FloatArray:
        """The same along logged episodes, done once for each log."""
        checked = self._checked(logs.contexts, steps_of(logs))
        source = None if self.logged is None else self.logged.contexts
        return cached(logs, ("counts", self.settings), source, lambda: self._counts(*checked))

    def counts_of(self, logs: LoggedSteps, actions: IntArray) -> IntArray:
        """How many contexts with the given action [N] were logged within the radius of each step of episodes."""
        checked, numbers = self._checked(logs.contexts, steps_of(logs))
        if self.logged is None or self.nearby is None:
            raise InputError("neighbours cannot be counted: this rule has no radius")
        return self.logged.counts_of(checked, numbers, actions, self.squared_radius)

    def outcomes_of(self, logs: LoggedSteps, actions: IntArray, outcomes: FloatArray, k: int) -> FloatArray:
        """The mean outcome of up to k nearest logged cases with the given action within the radius; NaN without any.

        `outcomes` holds one number for each row of the training log.
        """
        checked, numbers = self._checked(logs.contexts, steps_of(logs))
        if self.logged is None or self.nearby is None:
            raise InputError("neighbours cannot be found: this rule has no radius")
        return self.logged.outcomes_of(checked, numbers, actions, self.squared_radius, outcomes, k)

    def mask(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> BoolArray:
        """Which actions may be taken [N, A]: at least one for each context, by the fallback where need be."""
        return self.resolve(contexts, steps).mask

    def resolve(
        self,
        contexts: ArrayLike,
        steps: ArrayLike | None = None,
        behavior: FloatArray | None = None,
        support: FloatArray | None = None,
    ) -> Eligible:
        """The mask, where the fallback acted, and what to follow there.

        `behavior` and `support` [N, A] hold the logging policy's probabilities, and those of the model of support,
        where they are known already.
        """
        checked, numbers = self._checked(contexts, steps)
        rule = self.settings
        probabilities = behavior
        if probabilities is None and rule.asks_behavior:
            probabilities = self.behavior_probabilities(checked)
        if support is None and self.support is not None:
            support = self.support.probabilities(checked)
        nearness = None
        if rule.measures and self.asks_reach_alone and len(checked) > FEW:
            nearness = Nearness(None, self._reached(checked), lambda here: self._distances(checked[here], None))
        elif rule.measures:
            nearness = Nearness.of(self._distances(checked, numbers))
        refuse_closed(self.limits, checked)
        return self._resolved(checked, nearness, probabilities, support)

    def along(self, logs: LoggedSteps) -> Eligible:
        """The same along logged episodes; what takes long is done once for each log, whatever the radius."""
        rule, checked = self.settings, self._checked(logs.contexts, steps_of(logs))
        probabilities, nearness = None, None
        if rule.measures and self.asks_reach_alone:
            nearness = Nearness(None, self._reached_along(logs), lambda here: self._distances(checked[0][here], None))
        elif rule.measures:
            nearness = Nearness.of(self.distances_along(logs))
        if rule.asks_behavior:
            probabilities = along_once(self.behavior, logs)
            probabilities = self.checked_behavior(probabilities, len(checked[0]))
        support = None if self.support is None else along_once(self.support, logs)
        return self._resolved(checked[0], nearness, probabilities, support)

    @property
    def asks_reach_alone(self) -> bool:
        """Whether distances only tell who is unlike anything logged: one near case settles that, whichever it is."""
        logged = self.logged
        plain = logged is not None and not logged.same_step and not logged.approximate
        return plain and self.radius is None and self.reach is not None

    def _reached(self, contexts: Float32Array) -> BoolArray:
        """Whether any logged context is within the reach [N]."""
        assert self.logged is not None
        assert self.reach is not None
        return self.logged.any_within(contexts, largest_squared(self.reach, self.settings.metric, self.n_features))

    def _reached_along(self, logs: LoggedSteps) -> BoolArray:
        """The same along logged episodes, done once for each log."""
        checked, _ = self._checked(logs.contexts, steps_of(logs))
        source = None if self.logged is None else self.logged.contexts
        return cached(logs, ("reached", self.settings.measure, self.reach), source, lambda: self._reached(checked))

    def distances_along(self, logs: LoggedSteps) -> FloatArray:
        """Distances [N, A] along logged episodes, worked out once for each log, whatever the radius."""
        source = None if self.logged is None else self.logged.contexts
        checked = self._checked(logs.contexts, steps_of(logs))
        return cached(logs, self.settings.measure, source, lambda: self._distances(*checked))

    def in_range(self, contexts: ArrayLike) -> BoolArray | None:
        """Whether every feature lies within its range in the training log [N]; None without logged contexts."""
        return None if self.known_ranges is None else self.known_ranges(np.asarray(contexts, np.float32))

    @property
    def known_ranges(self) -> FeatureRange | None:
        """The ranges of the training log or, in the place of unknown ones, of the logged contexts at hand."""
        if self.ranges is not None or self.logged is None or not self.settings.measures:
            return self.ranges
        return FeatureRange.of(self.logged.contexts)

    def recall(self, contexts: int = 200) -> float | None:
        """The share of pairs of logged context and action within the radius that the search finds; None without one."""
        if self.logged is None or self.radius is None:
            return None
        return self.logged.recall(self.squared_radius, contexts)

    def _resolved(
        self,
        checked: Float32Array,
        nearness: Nearness | None,
        probabilities: FloatArray | None,
        support: FloatArray | None,
    ) -> Eligible:
        rule = self.settings
        probable = np.ones((len(checked), self.n_actions), bool)
        if probabilities is not None:
            probable = rule.probable(probabilities)
        if isinstance(rule.allows, OwnRule):
            probable = probable & rule.allows.mask(checked)
        if self.support is not None and support is not None and rule.price is None:
            probable = probable & self.support.supported(support)
        allowed = None if self.limits is None else self.limits.allowed(checked)
        if allowed is not None:
            probable = probable & allowed
        mask: BoolArray = probable.copy()
        if self.radius is not None and nearness is not None:
            mask &= nearness.within(self.radius)
        if self.reach is not None and nearness is not None:
            mask &= nearness.reached_by(self.reach)[:, None]
        stranded: BoolArray = np.asarray(~mask.any(axis=1))
        followed = None
        if rule.fallback == "behavior" and probabilities is not None:
            followed = np.where(stranded[:, None], probabilities, 0.0)
            mask = mask | (followed > 0)
        elif rule.fallback == "all":
            mask = mask | stranded[:, None]
        elif stranded.any():
            here = np.flatnonzero(stranded)
            usual = probabilities if support is None else support
            distances = None if nearness is None else nearness.at(here)
            smallest = nearness_where_stranded(self, checked, distances, usual, probable, here)
            smallest = smallest if allowed is None else np.where(allowed[here], smallest, np.inf)
            mask[here] = smallest == smallest.min(axis=1, keepdims=True)
        found = Eligible(mask, stranded, self._penalty(support), followed)
        return found if allowed is None else found.within(allowed)

    def _penalty(self, support: FloatArray | None) -> FloatArray | None:
        price = self.settings.price
        return None if self.support is None or support is None or not price else price * self.support.shortfall(support)

    def explain(self, context: ArrayLike, k: int = 3, step: int | None = None) -> Explanation:
        """For one context and each action: eligible or why not, and the k nearest logged cases.

        >>> from poela.data.trajectories import Trajectories
        >>> from poela.eligibility.rules import Eligibility
        >>> logs = Trajectories(contexts=[[0.0], [1.0]], actions=[0, 1], rewards=[0, 0], offsets=[0, 1, 2])
        >>> print(Eligibility(radius=0.5).fit(logs).explain([0.0]))
        action  eligible  distance  why                           nearest logged cases
        0       yes       0         logged within the radius 0.5  row 0 (episode 0, step 0) at 0
        1       no        1.00      logged beyond the radius 0.5  row 1 (episode 1, step 0) at 1.00
        """
        return explain(self, context, k, step)

    def thinned(self, gap: float | None = None) -> "FittedEligibility":
        """The same rule over fewer logged contexts, for files that should hold fewer: it can only shrink.

        Every logged context left out has a kept one with the same action within `gap`, on the metric's scale (by
        default, half the Euclidean radius). Distances can only grow, so an action that the radius rule bars stays
        barred. That holds for the rule, before the fallback: more contexts may be stranded, and there the fallback
        may choose otherwise. With many features few contexts lie that near another: a larger gap leaves out more of
        them, at the price of fewer eligible actions. The ids of episodes are left out; a behavior model is kept whole.
        """
        if self.logged is None or self.nearby is None:
            return replace(self, episode_ids=None)
        if gap is None:
            gap = self.nearby / (4 if self.settings.metric == "mean_squared" else 2)
        if not gap >= 0:
            raise InputError(f"gap is {gap}: it must be 0 or more")
        squared = squared_from(gap, self.settings.metric, self.n_features)
        return replace(self, logged=self.logged.cover(squared), episode_ids=None)

    @property
    def holds_logged_contexts(self) -> bool:
        """Whether a file of this rule holds contexts of the training log."""
        return self.settings.measures or bool(getattr(self.behavior, "holds_logged_contexts", False))

    def stored(self) -> Stored:
        """For a file: the settings, and the logged contexts where the rule measures distances to them."""
        return _stored(self)

    def on_metric_scale(self, squared: FloatArray) -> FloatArray:
        """Squared Euclidean distances as the metric expresses them."""
        return on_metric_scale(squared, self.settings.metric, self.n_features)

    def _counts(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        if self.logged is None or self.nearby is None:
            raise InputError("neighbours cannot be counted: this rule has no radius")
        return self.logged.counts(contexts, steps, self.squared_radius)

    @cached_property
    def squared_radius(self) -> float:
        """The largest squared Euclidean distance at which logged cases are similar, to the last bit."""
        distance = np.inf if self.nearby is None else self.nearby
        return largest_squared(distance, self.settings.metric, self.n_features)

    def _distances(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        if self.logged is None:
            raise InputError(
                "distances are not at hand: this rule has no radius, so its file holds no logged contexts; "
                "fit it again on the training logs"
            )
        return self.on_metric_scale(self.logged.squared_distances(contexts, steps))

    def behavior_probabilities(self, contexts: Float32Array) -> FloatArray:
        """The logging policy's probabilities [N, A] at loose contexts, by the behavior model of this rule."""
        return self.checked_behavior(self.behavior.probabilities(contexts), len(contexts))

    def checked_behavior(self, probabilities: ArrayLike, rows: int) -> FloatArray:
        """What the behavior model of this rule says [N, A], or one clear sentence."""
        rows_of_behavior = np.asarray(probabilities, np.float64)
        if rows_of_behavior.shape != (rows, self.n_actions):
            raise InputError(
                f"the behavior model gives probabilities of shape {rows_of_behavior.shape}, "
                f"not ({rows}, {self.n_actions}): fit it on the same logs"
            )
        return rows_of_behavior

    def _checked(self, contexts: ArrayLike, steps: ArrayLike | None) -> tuple[Float32Array, IntArray | None]:
        return checked_contexts(self, contexts, steps)


def _stored(fitted: FittedEligibility) -> Stored:
    """The settings, the logged contexts where the rule measures distances to them, and the behavior model."""
    own = _own_parts(fitted)
    rule = replace(fitted.settings, **dict.fromkeys(own))  # type: ignore[arg-type]
    settings: dict[str, Any] = {
        **{name: value for name, value in asdict(rule).items() if name not in SAID_IF_SET or value is not None},
        "radius": None if rule.radius is None else repr(float(rule.radius)),  # JSON has no infinity
        "action_names": list(fitted.action_names),
        "feature_names": list(fitted.feature_names),
        "holds_logged_contexts": fitted.holds_logged_contexts,
        "episode_ids": None,  # names of episodes are never written, be it as a policy or within a study
        **({} if fitted.schema is None else {"schema": fitted.schema.to_json()}),
    }
    arrays: dict[str, Any] = {}
    if rule.measures and fitted.logged is not None:
        arrays |= {} if fitted.ranges is None else fitted.ranges.arrays
        arrays |= {name: getattr(fitted.logged, name) for name in ("contexts", *WHOLE_NUMBERS)}
        arrays |= fitted.logged.scale.arrays if isinstance(fitted.logged.scale, FeatureScale) else {}
    parts = {name: part.stored() for name, part in own.items()}
    if fitted.behavior is not None:
        parts["behavior"] = stored_or_live(fitted.behavior)
    if fitted.support is not None:
        parts["support"] = fitted.support.stored()
    return Stored(KIND, settings, arrays, parts)


def _own_parts(fitted: FittedEligibility) -> dict[str, OwnRule | OwnScale]:
    """What a rule is made of that lives in this process alone."""
    scale = fitted.logged.scale if fitted.settings.measures and fitted.logged is not None else None
    parts = {"allows": fitted.settings.allows, "scale": scale}
    return {name: part for name, part in parts.items() if isinstance(part, OwnRule | OwnScale)}
