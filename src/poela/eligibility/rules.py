"""The rules that make an action eligible, as settings: near logged contexts, probable enough, or anything."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Protocol

import numpy as np

from poela.behavior.history import HistoryModel
from poela.behavior.propensities import nearest_propensities
from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.options import HasParams
from poela.core.typed import Check, NonNegative, Positive, Share, one_of, refuse_problems
from poela.data.limits import LimitsInContexts
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.foreign import OwnRule, OwnScale
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.quantiles import RadiusSetting, ReachSetting, with_numeric_radius, with_numeric_reach
from poela.eligibility.support import fit_support, has_holes
from poela.neighbours.scales import FeatureRange, FeatureScale

# A rule of eligible actions, fitted on training logs.


def _without_limits(settings: "Eligibility", train: Trajectories) -> "Eligibility":
    """Settings by which what is forbidden makes no case nearer: the features that say so count nothing in distances."""
    limits = LimitsInContexts.of(train.feature_names, train.action_names)
    if limits is None or not settings.measures or callable(settings.scale):
        return settings
    counted = np.ones(train.n_features) if settings.weights is None else np.array(settings.weights)
    if len(counted) != train.n_features:
        return settings  # which the check refuses
    counted[[feature for feature, _ in limits.places]] = 0.0
    return replace(settings, weights=tuple(counted.tolist()))


def _scale(settings: "Eligibility", train: Trajectories) -> FeatureScale | OwnScale:
    own = settings.scale
    if isinstance(own, OwnScale):
        return own
    return (
        OwnScale(own, settings.metric, train.contexts) if callable(own) else FeatureScale.of(settings, train.contexts)
    )


def _plain(scale: FeatureScale | OwnScale) -> FeatureScale | None:
    """The scale by which a model's file can hold it: of somebody's features it cannot."""
    return scale if isinstance(scale, FeatureScale) else None


def fit_eligibility(settings: "Eligibility", train: Trajectories, behavior: Any) -> FittedEligibility:
    """The rule over these logs, with everything checked."""
    settings = _without_limits(settings, train)
    settings.check(train.n_features)
    settings = with_numeric_reach(with_numeric_radius(settings, train), train)
    scale = _scale(settings, train)
    if settings.allows is not None:
        settings = replace(settings, allows=OwnRule.fitted(settings.allows, train, behavior))
    if settings.asks_behavior:
        if behavior is None and train.propensities is not None and train.propensities.ndim == 2:
            behavior = nearest_propensities(train, _plain(scale))
        if not callable(getattr(behavior, "probabilities", None)):
            raise InputError(
                "this rule asks how probable actions were: give a behavior model (behavior=...), "
                "or training logs with the propensities of every action"
            )
    support = None if settings.support is None else fit_support(train, settings.support, behavior)
    by_model = behavior is not None and (settings.asks_behavior or isinstance(behavior, HistoryModel))
    if support is not None and not by_model and has_holes(train) and settings.minimum_probability is None:
        # Zero is zero: where the nearest logged case says that an action is never taken, no model says otherwise.
        settings, behavior = replace(settings, minimum_probability=0.0), nearest_propensities(train, _plain(scale))
    ids = None if train.episode_ids is None else tuple(train.episode_ids.tolist())
    return FittedEligibility(
        settings=settings,
        n_actions=train.n_actions,
        action_names=train.action_names,
        feature_names=train.feature_names,
        logged=LoggedContexts.of(train, scale, settings),
        episode_ids=ids,
        behavior=behavior if settings.asks_behavior else None,
        schema=train.schema,
        support=support,
        ranges=FeatureRange.of(train.contexts) if settings.measures else None,
    )


Metric = Annotated[str, one_of("mean_squared", "euclidean")]
Neighbourhood = Annotated[str, one_of("pooled", "same_step")]
Fallback = Annotated[str, one_of("nearest", "behavior", "all")]
Search = Annotated[str, one_of("exact", "approximate", "sample")]
USUAL_SUPPORT = 0.02  # of logged decisions that a rule may bar for want of support


class HasMask(Protocol):
    """Somebody's rule; it may learn from logs by `fit(train, behavior)`, too."""

    def mask(self, contexts: Any) -> Any:
        """Which actions may be taken [N, A]."""


def _own_problem(value: Any) -> str | None:
    if isinstance(value, type):
        return f"it is a class: give an object, {value.__name__}()"
    if callable(value) or callable(getattr(value, "mask", None)):
        return None
    return "give a function from contexts [N, d] to true or false for each action [N, A], or an object with such a mask"


def _map_problem(value: Any) -> str | None:
    return None if callable(value) and not isinstance(value, type) else "give a function from contexts to features"


OwnMask = Annotated[Callable[[Float32Array], Any] | HasMask, Check(_own_problem)]
FeatureMap = Annotated[Callable[[Float32Array], Any], Check(_map_problem)]
Scale = Annotated[str, one_of("standard", "robust")] | tuple[Positive, ...] | FeatureMap | None


def _is_own(value: Any) -> bool:
    """Whether a setting is somebody's object."""
    return callable(value) or hasattr(value, "mask")


@dataclass(frozen=True, eq=False)
class Eligibility(HasParams):
    """When an action may be taken at a context; an action must pass every rule that is set.

    `radius` (δ) asks for a logged context with that action at most that far away: ‖x − x′‖²/d with the default
    metric, as in the published experiments, or the Euclidean distance; "q75" is the distance within which three
    quarters of all pairs of context and action have a precedent in another training episode. `minimum_probability` asks
    the logging policy to take the action at least that often (0: at all); `relative_probability` asks for more than
    that share of its most probable action's probability (BCQ). `scale` divides the features (`"standard"`: by their
    standard deviations in the training data; `"robust"`: see below), `weights` multiply their squared differences.
    `reach` asks for a logged context with any action at most that far away; `"auto"` is 1.5 times the largest Euclidean
    distance from a training context to the nearest one in another episode. `support` asks a cross-fitted model of what
    was done for support in like cases, as strictly as barring that share of logged decisions allows (see
    `poela.eligibility.support`); with a `price` such actions are not barred, but cost that much for each nat they fall
    short, up to the hard rule as the price grows. Where no action passes, `fallback` decides: the nearest action (of a
    rule without distances: the most probable), the logging policy, or all actions.
    `search="approximate"` is for millions of logged steps: it may miss the nearest context, so that distances can only
    be too large and fewer actions have a precedent, never more; where it finds none at all, `fallback` decides.
    `search="sample"` measures exactly, to 20,000 of the logged contexts at most, evenly spread over the log and the
    actions: the work grows like the log, files stay small, and distances can only be too large here, too.

    `scale="robust"` takes normal scores of ranks in the place of features, so that no unit, tail or rare gap outvotes
    the others; a feature with two values, such as the indicator of a category or a gap, counts ½ at most in squared
    distances. The mean of squared differences is then taken over what varies: two random cases are 2 apart.
    A function from contexts to features [N, k] makes any distance: it is measured between these.

    `allows` is a rule of your own: a function from contexts to a mask [N, A], or an object with `mask(contexts)` and,
    where it learns, `fit(train, behavior)`. It is one more rule to pass.

    >>> logs = Trajectories(contexts=[[0.0], [1.0], [1.2]], actions=[0, 1, 1], rewards=[0, 0, 0], offsets=[0, 1, 3])
    >>> Eligibility(radius=0.5).fit(logs).mask([[0.1], [0.6], [9.0]])
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    """

    radius: RadiusSetting | None = None  # farthest logged case of an action (δ): a number, or "q75"; None: no such rule
    minimum_probability: Share | None = None  # least probability under practice; None: no such rule
    relative_probability: Share | None = None  # least share of the likeliest action's probability
    metric: Metric = "mean_squared"  # of distances: "mean_squared" (as published) or "euclidean"
    scale: Scale = None  # "standard", "robust", one number for each feature, or a function that gives features
    weights: tuple[NonNegative, ...] | None = None  # of the features' squared differences
    neighbours: Neighbourhood = "pooled"  # the logged contexts that count: of all steps ("pooled") or of the same one
    fallback: Fallback = "nearest"  # what decides where nothing is eligible
    search: Search = "exact"  # "exact", "approximate" (millions of steps) or "sample" (of 20,000)
    reach: ReachSetting | None = None  # farthest logged context with any action; None: no limit
    support: Share | None = None  # of logged decisions, that may be barred for want of support
    price: NonNegative | None = None  # of a nat of missing support; None: it is barred
    allows: OwnMask | None = None  # somebody's rule

    def __post_init__(self) -> None:
        refuse_problems(self)
        if self.price is not None and self.support is None:
            raise InputError("a price is that of missing support: say what has support (support=0.02), too")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Eligibility) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @cached_property
    def _values(self) -> tuple[object, ...]:
        values = (getattr(self, one.name) for one in fields(self))
        return tuple(id(value) if _is_own(value) else value for value in values)  # which need not be hashable

    def fit(self, train: Trajectories, behavior: Any = None) -> FittedEligibility:
        """The rule over these training logs; `behavior` is any object with `probabilities(contexts)`."""
        return fit_eligibility(self, train, behavior)

    @property
    def asks_behavior(self) -> bool:
        """Whether the logging policy's probabilities are needed."""
        uses_probability = self.minimum_probability is not None or self.relative_probability is not None
        return uses_probability or self.fallback == "behavior"

    @property
    def measures(self) -> bool:
        """Whether distances to logged contexts are needed."""
        return self.radius is not None or self.reach is not None

    @cached_property
    def measure(self) -> "Eligibility":
        """All that distances depend on, and no rule."""
        return Eligibility(
            metric=self.metric,
            scale=self.scale,
            weights=self.weights,
            neighbours=self.neighbours,
            search=self.search,
        )

    def probable(self, probabilities: FloatArray) -> BoolArray:
        """Which actions [N, A] pass the rules on the logging policy's probabilities [N, A].

        >>> import numpy as np
        >>> Eligibility(relative_probability=0.2).probable(np.array([[0.8, 0.2, 0.0], [0.9, 0.1, 0.0]]))
        array([[ True,  True, False],
               [ True, False, False]])
        """
        passed = probabilities >= 0
        if self.minimum_probability is not None:
            passed = (probabilities >= self.minimum_probability) & (probabilities > 0)
        if self.relative_probability is not None:
            passed = passed & (probabilities > self.relative_probability * probabilities.max(axis=1, keepdims=True))
        return passed

    def check(self, n_features: int) -> None:
        """Refuse scales and weights that are not one number for each feature."""
        by_feature = {"scale": self.scale if isinstance(self.scale, tuple) else None, "weights": self.weights}
        if callable(self.scale) and self.weights is not None:
            raise InputError("weights are of features as they are: where scale is a function, let it weigh them")
        problems = [
            f"{name} has {len(values)} numbers for {n_features} features: give one for each"
            for name, values in by_feature.items()
            if values is not None and len(values) != n_features
        ]
        if problems:
            raise InputError(problems)


class Radius(Eligibility):
    """Actions logged within this distance (POELA).

    >>> Radius(0.1).radius, Radius(0.1) == Eligibility(radius=0.1)
    (0.1, True)
    """

    def __init__(self, radius: float | str, **settings: Any) -> None:
        super().__init__(radius=radius, **settings)


class MinimumProbability(Eligibility):
    """Actions that the logging policy takes with at least this probability (PO-μ); 0 asks for more than 0.

    >>> MinimumProbability(0.05).minimum_probability
    0.05
    """

    def __init__(self, minimum_probability: float, **settings: Any) -> None:
        super().__init__(minimum_probability=minimum_probability, **settings)


class AnyAction(Eligibility):
    """Every action, even those never logged (PO-CRM).

    >>> AnyAction() == Eligibility()
    True
    """


AnyRule = Eligibility | OwnMask  # what learners take for a rule


def as_rule(rule: AnyRule | None) -> Eligibility:
    """Any rule as one of ours: a function or an object as one that asks nothing else; None bars nothing.

    >>> as_rule(None) == Eligibility()
    True
    """
    if rule is None:
        return Eligibility()
    return rule if isinstance(rule, Eligibility) else Eligibility(allows=rule)
