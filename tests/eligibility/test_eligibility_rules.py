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


RADIUS = "it must be a number, at least 0, or a quantile from 'q0' to 'q100'"
MAP = ", or give a function from contexts to features"
SHARE = "it must be a number, at least 0 and at most 1"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius": -0.1}, f"radius is -0.1: {RADIUS}"),
        ({"radius": np.nan}, f"radius is nan: {RADIUS}"),
        ({"minimum_probability": 1.5}, f"minimum_probability is 1.5: {SHARE}"),
        ({"relative_probability": -1.0}, f"relative_probability is -1.0: {SHARE}"),
        ({"metric": "cosine"}, "metric is 'cosine': choose 'mean_squared' or 'euclidean'"),
        ({"neighbours": "some"}, "neighbours is 'some': choose 'pooled' or 'same_step'"),
        ({"fallback": "none"}, "fallback is 'none': choose 'nearest', 'behavior' or 'all'"),
        ({"scale": "ranks"}, f"scale is 'ranks': choose 'standard' or 'robust', or it must be a list{MAP}"),
        ({"reach": -1.0}, "reach is -1.0: it must be a number, at least 0, or 'auto'"),
        ({"reach": "q50"}, "reach is 'q50': it must be a number, at least 0, or 'auto'"),
        ({"reach": np.inf}, "reach is inf: it must be a number, at least 0, or 'auto'"),
        ({"scale": (1.0,)}, "scale has 1 numbers for 2 features: give one for each"),
        (
            {"scale": (1.0, 0.0)},
            f"scale is (1.0, 0.0): choose 'standard' or 'robust', or each must be a number, above 0{MAP}",
        ),
        ({"weights": (1.0, -1.0)}, "weights is (1.0, -1.0): each must be a number, at least 0"),
        ({"weights": (np.inf, np.nan)}, "weights is (inf, nan): each must be a number, at least 0"),
    ],
)
def test_each_bad_setting_gets_one_sentence(logs: Trajectories, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as raised:
        Eligibility(**settings).fit(logs)
    assert raised.value.problems == (words,)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InputError) as raised:
        Eligibility(radius="q101", metric="cosine", fallback="none", weights=(-1.0,))
    assert len(raised.value.problems) == 4


def test_settings_are_frozen() -> None:
    settings = Eligibility(radius=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.radius = 1.0  # type: ignore[misc]


def test_shorthands_are_public_and_take_further_settings() -> None:
    assert poela.Radius(0.2, metric="euclidean") == Eligibility(radius=0.2, metric="euclidean")
    assert poela.MinimumProbability(0.1, fallback="all") == Eligibility(minimum_probability=0.1, fallback="all")
    assert poela.AnyAction() == poela.Eligibility()
    assert (Radius, MinimumProbability, AnyAction) == (poela.Radius, poela.MinimumProbability, poela.AnyAction)
