"""A rule of eligible actions, fitted on training logs."""

from typing import Any

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.propensities import nearest_propensities
from poela.eligibility.rules import Eligibility
from poela.eligibility.scales import FeatureRange, FeatureScale


def fit_eligibility(settings: Eligibility, train: Trajectories, behavior: Any) -> FittedEligibility:
    """The rule over these logs, with everything checked."""
    from poela.eligibility.quantiles import with_numeric_radius, with_numeric_reach

    settings.check(train.n_features)
    settings = with_numeric_reach(with_numeric_radius(settings, train), train)
    scale = FeatureScale.of(settings, train.contexts)
    if settings.asks_behavior:
        if behavior is None and train.propensities is not None and train.propensities.ndim == 2:
            behavior = nearest_propensities(train, scale)
        if not callable(getattr(behavior, "probabilities", None)):
            raise InputError(
                "this rule asks how probable actions were: give a behavior model (behavior=...), "
                "or training logs with the propensities of every action"
            )
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
        ranges=FeatureRange.of(train.contexts) if settings.measures else None,
    )
