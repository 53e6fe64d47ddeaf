"""The settings of eligibility: what they refuse, and the shorthands."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import poela
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import AnyAction, Eligibility, MinimumProbability, Radius


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return Trajectories(contexts=[[0.0, 0.0], [1.0, 2.0]], actions=[0, 1], rewards=[0, 0], offsets=[0, 1, 2])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius": -0.1}, "radius is -0.1: it must be 0 or more"),
        ({"radius": np.nan}, "radius is nan: it must be 0 or more"),
        ({"minimum_probability": 1.5}, "minimum_probability is 1.5: it must lie between 0 and 1"),
        ({"relative_probability": -1.0}, "relative_probability is -1.0: it must lie between 0 and 1"),
        ({"metric": "cosine"}, "metric is 'cosine': choose 'mean_squared' or 'euclidean'"),
        ({"neighbours": "some"}, "neighbours is 'some': choose 'pooled' or 'same_step'"),
        ({"fallback": "none"}, "fallback is 'none': choose 'nearest' or 'behavior' or 'all'"),
        ({"scale": "robust"}, "scale is 'robust': choose 'standard', or give one number for each feature"),
        ({"scale": (1.0,)}, "scale has 1 numbers for 2 features: give one for each"),
        ({"scale": (1.0, 0.0)}, "1 numbers of scale are not finite and above 0: correct them"),
        ({"weights": (1.0, -1.0)}, "1 numbers of weights are not finite and 0 or more: correct them"),
        ({"weights": (np.inf, np.nan)}, "2 numbers of weights are not finite and 0 or more: correct them"),
    ],
)
def test_each_bad_setting_gets_one_sentence(logs: Trajectories, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as raised:
        Eligibility(**settings).fit(logs)
    assert raised.value.problems == (words,)


def test_all_problems_are_told_at_once(logs: Trajectories) -> None:
    with pytest.raises(InputError) as raised:
        Eligibility(radius=-1.0, metric="cosine", fallback="none", weights=(1.0,)).fit(logs)
    assert len(raised.value.problems) == 4


def test_making_settings_checks_nothing_and_they_are_frozen() -> None:
    settings = Eligibility(radius=-1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.radius = 1.0  # type: ignore[misc]


def test_shorthands_are_public_and_take_further_settings() -> None:
    assert poela.Radius(0.2, metric="euclidean") == Eligibility(radius=0.2, metric="euclidean")
    assert poela.MinimumProbability(0.1, fallback="all") == Eligibility(minimum_probability=0.1, fallback="all")
    assert poela.AnyAction() == poela.Eligibility()
    assert (Radius, MinimumProbability, AnyAction) == (poela.Radius, poela.MinimumProbability, poela.AnyAction)
