"""A rule of eligible actions in words: what it asks, and how much it bars."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from poela.core.readable import escaped, share_in_words
from poela.data.action_space import ActionName
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
MOST_ACTIONS, LEAST_TOLD = 2, 0.005  # actions that are named, and the share of cases from which on they are
LONGEST_NAME = 40


def action_in_words(name: ActionName) -> str:
    """The name of an action, on one line and not too long.

    >>> action_in_words(2), action_in_words("beta blocker")
    ('action 2', 'action beta blocker')
    """
    text = escaped(str(name))
    return f"action {text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + '…'}"


def rule_in_words(
    rule: FittedEligibility | FittedContinuousEligibility, named: Callable[[ActionName], str] = action_in_words
) -> str:
    """What makes an action eligible, in a sentence or two; `named` writes the name of an action."""
    if not isinstance(rule, FittedContinuousEligibility) and rule.schema is not None and rule.schema.limits is not None:
        limits = f"Never what is not allowed: {rule.schema.limits}."
        return f"{rule_in_words(replace(rule, schema=None), named)} {limits}"
    if isinstance(rule, FittedContinuousEligibility):
        return (
            "It only suggests amounts close to those that similar past cases received: within "
            f"{rule.settings.radius:.4g} of a logged pair of context and action (mean squared difference of features "
            "and largest of actions, in standard deviations). Where no logged context is near, the nearest one counts."
        )
    settings, parts, reach = rule.settings, _asked(rule), _reach_in_words(rule)
    if settings.support is not None:
        also = f" An action is eligible only where {' and '.join(parts)}." if parts else ""
        return f"{_support_in_words(rule, named)}{also}{reach}"
    if not parts:
        return f"Every action is eligible.{reach}"
    eligible = f"An action is eligible where {' and '.join(parts)}."
    if rule.radius is None and settings.minimum_probability is None and settings.allows is None:
        return f"{eligible}{reach}"  # the likeliest action always is
    return f"{eligible} Where none is, the policy falls back to {FALLBACKS[settings.fallback]}.{reach}"


def _asked(rule: FittedEligibility) -> list[str]:
    """What an action must pass, but for support; that it is done at all goes without saying where support is asked."""
    settings, parts = rule.settings, []
    if rule.radius is not None:
        scaled = SCALES.get(settings.scale, "") if isinstance(settings.scale, str) else ""
        if rule.logged is not None and callable(settings.scale):
            scaled = f", on features by {rule.logged.scale!r}"
        metric = "Euclidean distance" if settings.metric == "euclidean" else "mean squared difference of features"
        step = " at the same step" if settings.neighbours == "same_step" else ""
        step += f" (found by a search that {_recall_in_words(rule)})" if settings.search == "approximate" else ""
        step += " (measured to a sample of logged cases)" if settings.search == "sample" else ""
        parts.append(f"it was logged{step} within {rule.radius:.4g} ({metric}{scaled})")
    if settings.minimum_probability or (settings.minimum_probability == 0 and settings.support is None):
        least = f"at least {settings.minimum_probability:g}" if settings.minimum_probability else "above 0"
        parts.append(f"the logging policy takes it with a probability of {least}")
    if settings.relative_probability is not None:
        share = f"{settings.relative_probability:g}"
        parts.append(f"its probability under the logging policy is above {share} of the most probable action's")
    if settings.allows is not None:
        parts.append(f"{settings.allows!r} allows it")
    return parts


def _support_in_words(rule: FittedEligibility, named: Callable[[ActionName], str]) -> str:
    """What the rule says of actions that cases like this one did not receive."""
    absent = None if rule.support is None else rule.support.absent
    if rule.support is None or (absent is not None and not absent.any()):
        return "Every action was taken in all kinds of cases, so nothing is barred."
    suggests = (
        "It only suggests actions that similar past cases received"
        if rule.settings.price is None
        else "It prefers actions that similar past cases received: others are not barred, but penalised"
    )
    if absent is None:
        return f"{suggests}."
    most = [place for place in np.argsort(-absent, kind="stable")[:MOST_ACTIONS] if absent[place] >= LEAST_TOLD]
    if not most:
        return f"{suggests}, which are nearly all actions in all kinds of cases."
    (share, first), *others = [
        (share_in_words(float(absent[place])), named(rule.action_names[place])) for place in most
    ]
    if not others:
        return f"{suggests}; for {share} of cases {first} is not among them."
    second, other = others[0]
    return f"{suggests}; for {share} of cases {first} is not among them, for {second} {other}."


def _reach_in_words(rule: FittedEligibility) -> str:
    """What the rule says of cases unlike any logged one; empty without a reach."""
    if rule.reach is None:
        return ""
    if rule.settings.support is not None:
        return " A case unlike any logged case is deferred to those who decide."
    return f" A case farther than {rule.reach:.4g} from every logged one is unlike anything logged: it is deferred."


def _barred_in_words(rule: FittedEligibility) -> str:
    support = rule.support
    if support is None or rule.settings.price is not None or (support.absent is not None and not support.absent.any()):
        return ""
    return f"It would bar {share_in_words(support.barred)} of the decisions that were made."


def _recall_in_words(rule: FittedEligibility) -> str:
    """How many of the eligible pairs of context and action an approximate search finds, on some logged contexts."""
    share = rule.recall()
    return "may miss some" if share is None else f"finds {share:.1%} of what an exact one would, at logged contexts"


def strictness_in_words(rule: FittedEligibility | FittedContinuousEligibility) -> str:
    """How much the rule bars: of logged decisions, or how many actions it leaves at contexts of the training log.

    Empty where it bars nothing for want of support, or has a radius but holds no logged contexts.

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
        return _barred_in_words(rule)
    some = np.unique(np.linspace(0, len(logged.contexts) - 1, MOST_CONTEXTS).astype(np.int64))
    sizes = rule.mask(logged.contexts[some], logged.steps[some]).sum(axis=1)
    if sizes.min() == logged.n_actions:
        return "At logged contexts it bars nothing."
    return f"At logged contexts it leaves {sizes.mean():.1f} of {logged.n_actions} actions on average."
