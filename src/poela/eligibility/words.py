"""A rule of eligible actions in words: what it asks, and how much it bars."""

import numpy as np

from poela.eligibility.continuous import FittedContinuousEligibility
from poela.eligibility.fitted import FittedEligibility

FALLBACKS = {
    "nearest": "the action that was logged nearest",
    "behavior": "what the logging policy does",
    "all": "any action",
}
SCALES = {
    "standard": ", on features divided by their standard deviations",
    "robust": ", on normal scores of the features' ranks",
}
MOST_CONTEXTS = 500


def rule_in_words(rule: FittedEligibility | FittedContinuousEligibility) -> str:
    """What makes an action eligible, in a sentence or two."""
    if isinstance(rule, FittedContinuousEligibility):
        return (
            f"An action is eligible within {rule.settings.radius:.4g} of a logged pair of context and action (mean "
            "squared difference of features and largest of actions, in standard deviations). Where no logged context "
            "is near, the nearest one stands for it."
        )
    settings, parts = rule.settings, []
    reach = _reach_in_words(rule)
    if rule.radius is not None:
        scaled = SCALES.get(settings.scale, "") if isinstance(settings.scale, str) else ""
        metric = "Euclidean distance" if settings.metric == "euclidean" else "mean squared difference of features"
        step = " at the same step" if settings.neighbours == "same_step" else ""
        step += f" (found by a search that {_recall_in_words(rule)})" if settings.search == "approximate" else ""
        parts.append(f"it was logged{step} within {rule.radius:.4g} ({metric}{scaled})")
    if settings.minimum_probability is not None:
        least = f"at least {settings.minimum_probability:g}" if settings.minimum_probability else "above 0"
        parts.append(f"the logging policy takes it with a probability of {least}")
    if settings.relative_probability is not None:
        share = f"{settings.relative_probability:g}"
        parts.append(f"its probability under the logging policy is above {share} of the most probable action's")
    if not parts:
        return f"Every action is eligible.{reach}"
    eligible = f"An action is eligible where {' and '.join(parts)}."
    if rule.radius is None and settings.minimum_probability is None:
        return f"{eligible}{reach}"  # the likeliest action always is
    return f"{eligible} Where none is, the policy falls back to {FALLBACKS[settings.fallback]}.{reach}"


def _reach_in_words(rule: FittedEligibility) -> str:
    """What the rule says of cases unlike any logged one; empty without a reach."""
    if rule.reach is None:
        return ""
    return f" A case farther than {rule.reach:.4g} from every logged one is unlike anything logged: it is deferred."


def _recall_in_words(rule: FittedEligibility) -> str:
    """How many of the eligible pairs of context and action an approximate search finds, on some logged contexts."""
    share = rule.recall()
    return "may miss some" if share is None else f"finds {share:.1%} of what an exact one would, at logged contexts"


def strictness_in_words(rule: FittedEligibility | FittedContinuousEligibility) -> str:
    """How many actions the rule leaves at contexts of the training log: a wide radius bars nothing.

    Empty where the rule holds no logged contexts.

    >>> import numpy as np
    >>> from poela import Radius, Trajectories
    >>> logs = Trajectories(np.array([[0.0], [0.1], [9.0]]), [0, 1, 1], [0, 1, 1], [0, 1, 2, 3])
    >>> strictness_in_words(Radius(1.0).fit(logs)), strictness_in_words(Radius(100.0).fit(logs))
    ('At logged contexts it leaves 1.7 of 2 actions on average.', 'At logged contexts it bars nothing.')
    """
    if isinstance(rule, FittedContinuousEligibility):
        return ""  # what is left is no number of actions
    logged = rule.logged
    if logged is None or rule.radius is None:
        return ""
    some = np.unique(np.linspace(0, len(logged.contexts) - 1, MOST_CONTEXTS).astype(np.int64))
    sizes = rule.mask(logged.contexts[some], logged.steps[some]).sum(axis=1)
    if sizes.min() == logged.n_actions:
        return "At logged contexts it bars nothing."
    return f"At logged contexts it leaves {sizes.mean():.1f} of {logged.n_actions} actions on average."
