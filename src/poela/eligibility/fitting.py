"""A rule of eligible actions, fitted on training logs."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.behavior.history import HistoryModel
from poela.behavior.propensities import nearest_propensities
from poela.core.errors import InputError
from poela.data.limits import LimitsInContexts
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.foreign import OwnRule, OwnScale
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.quantiles import with_numeric_radius, with_numeric_reach
from poela.eligibility.support import fit_support, has_holes
from poela.neighbours.scales import FeatureRange, FeatureScale

if TYPE_CHECKING:
    from poela.eligibility.rules import Eligibility


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
