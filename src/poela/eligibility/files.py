"""Eligibility rules from files."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.core.policy import Policy
from poela.core.storage import Stored
from poela.core.typed import from_plain
from poela.core.validation import (
    expect_array,
    expect_contents,
    expect_names,
    expect_part,
    expect_setting,
    expect_sizes,
    refuse,
)
from poela.data.schema import TableSchema
from poela.eligibility.fitted import WHOLE_NUMBERS, FittedEligibility
from poela.eligibility.foreign import OwnScale
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.rules import Eligibility
from poela.eligibility.support_model import SupportModel
from poela.neighbours.scales import FeatureRange, FeatureScale, names_of_scale

RULE = tuple(field.name for field in fields(Eligibility))
LIVE = ("allows", "scale")  # which may be objects of this session, and then are parts
NEWER = ("schema", "search", "reach", "support", "price", "allows")  # which older files do not have
ABOUT_THE_LOG = ("action_names", "feature_names", "holds_logged_contexts", "episode_ids")
MOST_ROWS = 2**40


def eligibility_from_stored(stored: Stored, load_part: Callable[[Stored], Any]) -> FittedEligibility:
    """The rule that `FittedEligibility.stored` stored; `load_part` makes its parts from theirs."""
    live: dict[str, Any] = {name: load_part(stored.parts[name]) for name in LIVE if name in stored.parts}
    rule = replace(_rule(stored), **live)
    supported = ("support",) if rule.support is not None and "support" in stored.parts else ()
    parts = (*(("behavior",) if rule.asks_behavior else ()), *supported, *live)
    own = ("contexts", *(() if "scale" in live else names_of_scale(rule)), *WHOLE_NUMBERS) if rule.measures else ()
    ranges = ("low", "high") if own and "low" in stored.arrays else ()  # which older files do not have
    known = (*(name for name in RULE if name not in NEWER), *ABOUT_THE_LOG)
    newer = tuple(name for name in NEWER if name in stored.settings)
    expect_contents(stored, settings=(*known, *newer), arrays=(*own, *ranges), parts=parts)
    feature_names, action_names = expect_names(stored)
    schema = TableSchema.from_json(stored.settings["schema"]) if "schema" in newer else None
    if schema is not None and schema.feature_names != feature_names:
        raise InputError("the schema gives other features than feature_names")
    rule.check(len(feature_names))
    expect_setting(stored, "holds_logged_contexts", bool)
    ids = stored.settings["episode_ids"]
    if ids is not None and not (isinstance(ids, list | tuple) and all(isinstance(id, str | int | float) for id in ids)):
        raise InputError("episode_ids must be a list of names, or null")
    behavior = support = None
    if supported:
        support = expect_part(stored, "support", load_part, SupportModel, "a model of support")
        expect_sizes("support", support, len(feature_names), len(action_names))
    if rule.asks_behavior:
        behavior = expect_part(stored, "behavior", load_part, Policy, "a behavior model")
        expect_sizes("behavior", behavior, len(feature_names), len(action_names))
    return FittedEligibility(
        settings=rule,
        n_actions=len(action_names),
        action_names=action_names,
        feature_names=feature_names,
        logged=_logged(stored, rule, len(feature_names), len(action_names), ids) if own else None,
        episode_ids=None if ids is None else tuple(ids),
        behavior=behavior,
        schema=schema,
        support=support,
        ranges=FeatureRange.from_stored(stored, len(feature_names)) if ranges else None,
    )


def _rule(stored: Stored) -> Eligibility:
    plain = {name: stored.settings[name] for name in RULE if name in stored.settings}
    radius = plain.get("radius")
    if isinstance(radius, str):
        try:
            plain["radius"] = float(radius)
        except ValueError:
            refuse("radius", radius, "a number")
    if plain.get("reach") == "auto":
        refuse("reach", "auto", "a number")
    return from_plain(Eligibility, plain, "the rule")


def _logged(
    stored: Stored, rule: Eligibility, n_features: int, n_actions: int, ids: Sequence[Any] | None
) -> LoggedContexts:
    contexts = expect_array(stored, "contexts", np.float32, (None, n_features))
    if not len(contexts):
        raise InputError("a distance needs logged contexts, but there are none")
    limits = {"actions": n_actions - 1, "episodes": MOST_ROWS if ids is None else len(ids) - 1}
    whole = {
        name: expect_array(stored, name, np.int64, (len(contexts),), low=0, high=limits.get(name, MOST_ROWS))
        for name in WHOLE_NUMBERS
    }
    return LoggedContexts(
        contexts=contexts,
        scale=rule.scale if isinstance(rule.scale, OwnScale) else FeatureScale.from_stored(stored, n_features),
        **whole,
        n_actions=n_actions,
        same_step=rule.neighbours == "same_step",
        approximate=rule.search == "approximate",
    )
