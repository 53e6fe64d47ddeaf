"""Eligibility rules as stored objects."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from poela.core.arrays import IntArray, readonly
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.rules import Eligibility

KIND = "eligibility"
WHOLE_NUMBERS = ("actions", "steps", "rows", "episodes")


def stored_eligibility(fitted: FittedEligibility) -> Stored:
    """The settings, the logged contexts where the rule measures distances to them, and the behavior model."""
    rule = fitted.settings
    settings: dict[str, Any] = {
        **asdict(rule),
        "radius": None if rule.radius is None else repr(float(rule.radius)),  # JSON has no infinity
        "action_names": list(fitted.action_names),
        "feature_names": list(fitted.feature_names),
        "holds_logged_contexts": fitted.holds_logged_contexts,
        "episode_ids": None,
    }
    arrays = {}
    if rule.radius is not None and fitted.logged is not None:
        arrays = {name: getattr(fitted.logged, name) for name in ("contexts", "factors", *WHOLE_NUMBERS)}
        settings["episode_ids"] = None if fitted.episode_ids is None else list(fitted.episode_ids)
    parts = {}
    if fitted.behavior is not None:
        if not callable(getattr(fitted.behavior, "stored", None)):
            raise InputError(
                f"the behavior model {type(fitted.behavior).__name__} cannot be saved (it has no method stored()): "
                "fit the rule with one of poela's behavior models"
            )
        parts["behavior"] = fitted.behavior.stored()
    return Stored(KIND, settings, arrays, parts)


def eligibility_from_stored(stored: Stored, load_part: Callable[[Stored], Any]) -> FittedEligibility:
    """The rule that `stored_eligibility` stored."""
    settings = dict(stored.settings)
    action_names = tuple(settings.pop("action_names"))
    feature_names = tuple(settings.pop("feature_names"))
    episode_ids = settings.pop("episode_ids")
    del settings["holds_logged_contexts"]
    for name in ("scale", "weights"):
        if isinstance(settings[name], list):
            settings[name] = tuple(settings[name])
    if settings["radius"] is not None:
        settings["radius"] = float(settings["radius"])
    rule = Eligibility(**settings)
    logged = None
    if stored.arrays:
        whole: dict[str, IntArray] = {name: readonly(stored.arrays[name], np.int64) for name in WHOLE_NUMBERS}
        logged = LoggedContexts(
            contexts=readonly(stored.arrays["contexts"], np.float32),
            factors=readonly(stored.arrays["factors"], np.float64),
            **whole,
            n_actions=len(action_names),
            same_step=rule.neighbours == "same_step",
        )
    return FittedEligibility(
        settings=rule,
        n_actions=len(action_names),
        action_names=action_names,
        feature_names=feature_names,
        logged=logged,
        episode_ids=None if episode_ids is None else tuple(episode_ids),
        behavior=load_part(stored.parts["behavior"]) if "behavior" in stored.parts else None,
    )
