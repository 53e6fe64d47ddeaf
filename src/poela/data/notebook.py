"""Logs as notebooks show them: how many, of what, and whether propensities are known."""

from typing import TYPE_CHECKING

from poela.core.readable import facts, readable
from poela.data.words import quoted

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories


def html_of(logs: "Trajectories") -> str:
    """A small table in HTML."""
    returns, lengths = logs.returns(), logs.lengths
    known = {
        "episodes": f"{len(logs):,}",
        "clusters": "" if logs.clusters is None else f"{logs.n_units:,}",
        "steps": f"{logs.n_steps:,}, {lengths.min():,} to {lengths.max():,} in an episode",
        "features": f"{logs.n_features:,}: {quoted(logs.feature_names)}",
        "actions": f"{len(logs.action_names):,}: {quoted(logs.action_names)}",
        "mean return": readable(float(returns.mean()), float(returns.std()) / len(logs) ** 0.5),
        "propensities": logs.logging_in_words,
    }
    return facts("Logged decisions", known)
