"""Γ in terms of what was measured: by what factor weights would be wrong had a column not been recorded."""

from collections.abc import Mapping

import numpy as np

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import IntArray
from poela.core.ragged import episode_sums
from poela.data.trajectories import Trajectories

QUANTILE = 0.9  # of episodes: their weights are wrong by at most the factor that is named
MOST_COLUMNS, MOST_EPISODES = 30, 5000


def measured_factors(logs: Trajectories, seed: int = 0) -> dict[str, float]:
    """For each column of the context, the strongest first: how wrong weights were without it, in nine of ten episodes.

    The weight of an episode is over the probability of what was done in it, by a logistic regression with the column
    and by one without it: the factor is how far they are apart, whichever is larger. A column that was measured is a
    yardstick for one that was not: is it likely that those who decided looked at something stronger than age?

    >>> rng = np.random.default_rng(0)
    >>> contexts = rng.normal(size=(2000, 2))
    >>> actions = rng.random(2000) < 1 / (1 + np.exp(-contexts[:, 0]))
    >>> logs = Trajectories(contexts, actions, np.zeros(2000), np.arange(2001), feature_names=["age", "shoe size"])
    >>> {name: round(factor, 1) for name, factor in measured_factors(logs).items()}
    {'age': 1.7, 'shoe size': 1.0}
    """
    if len(np.unique(logs.action_space.kinds(logs.actions))) < 2 or logs.n_features < 1:
        return {}
    if logs.n_episodes > MOST_EPISODES:
        logs = logs.take(np.sort(np.random.default_rng((seed, 5)).permutation(logs.n_episodes)[:MOST_EPISODES]))
    columns = features_of(logs)
    if len(columns) > MOST_COLUMNS:
        return {}
    whole = _log_chances(logs, np.arange(logs.n_features))
    factors = {}
    for name, own in columns.items():
        without = _log_chances(logs, np.setdiff1d(np.arange(logs.n_features), own))
        apart = np.abs(episode_sums(whole - without, logs.offsets))
        factors[name] = float(np.exp(np.quantile(apart, QUANTILE)))
    return dict(sorted(factors.items(), key=lambda item: -item[1]))


def features_of(logs: Trajectories) -> Mapping[str, IntArray]:
    """The features that each column of the table became, by its name."""
    if logs.schema is None:
        return {name: np.array([place]) for place, name in enumerate(logs.feature_names)}
    places: dict[str, IntArray] = {}
    start = 0
    for variable in logs.schema.variables:
        width = len(variable.features)
        places[variable.name] = np.arange(start, start + width)
        start += width
    return places


def _log_chances(logs: Trajectories, features: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The log probability [N] of what was done, by a regression on some of the features."""
    contexts = logs.contexts[:, features] if len(features) else np.zeros((logs.n_steps, 1), np.float32)
    seen = Trajectories(contexts, logs.actions, np.zeros(logs.n_steps), logs.offsets, n_actions=logs.n_actions)
    chances = MultinomialBehavior().fit_quietly(seen, 0).along(seen)
    return np.asarray(np.log(np.maximum(chances[np.arange(logs.n_steps), logs.actions], 1e-6)))


def in_words(factors: Mapping[str, float], gamma: float) -> str:
    """How strong Γ is beside what was measured; empty where nothing is known.

    >>> in_words({"age": 2.04, "sex": 1.1}, 1.5)
    'Γ = 1.5 is weaker than age, without which weights would be wrong by a factor of 2.0, and stronger than sex (1.1).'
    """
    if not factors:
        return ""
    stronger = [(name, factor) for name, factor in factors.items() if factor > gamma]
    weaker = [(name, factor) for name, factor in factors.items() if factor <= gamma]
    if not stronger:
        name, factor = weaker[0]
        return f"Γ = {gamma:g} is stronger than any measured column: without {name} weights are off by {factor:.1f}."
    name, factor = stronger[-1]
    text = f"Γ = {gamma:g} is weaker than {name}, without which weights would be wrong by a factor of {factor:.1f}"
    if weaker:
        text += f", and stronger than {weaker[0][0]} ({weaker[0][1]:.1f})"
    return f"{text}."
