"""Which holes a log could not notice, said where they can be."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import binom

from poela.studies.groups import Group, Groups
from poela.studies.logging_policy import NOT_TAKEN, least_noticed, unseen_holes


@pytest.mark.parametrize("rate", [0.03, 0.2, 0.5, 0.9])
def test_the_smallest_group_that_is_noticed_has_none_by_chance_in_one_of_twenty(rate: float) -> None:
    size = least_noticed(rate)
    assert binom.pmf(0, size, rate) <= 0.05 < binom.pmf(0, size - 1, rate)


def study(propensities: str, estimated: bool = False, **other: Any) -> Any:
    everybody = Group("", "everybody", 600, 600, 1.0, (0.4, 0.4, 0.2), (0.2, 0.2, 0.6))
    groups = replace(Groups("tilt", ("wait", "drug", "surgery"), (everybody,)), **other)
    data = SimpleNamespace(propensities=propensities, estimated=estimated)
    return SimpleNamespace(result=SimpleNamespace(groups=groups), record=SimpleNamespace(data=data))


def test_the_rarest_actions_are_named_with_how_many_cases_that_is() -> None:
    expected = "fewer than about 14 cases (2%) for action surgery, 6 cases (1%) for action drug, often more."
    for made in (study(f"propensities: as logged; {NOT_TAKEN}, by knn"), study("estimated", estimated=True)):
        assert unseen_holes(made).endswith(expected)


def test_nothing_is_said_where_every_propensity_tells_or_amounts_are_given() -> None:
    assert unseen_holes(study("propensities: as logged")) == ""
    assert unseen_holes(study("propensities: as logged; at contexts outside the logs, by knn")) == ""
    assert unseen_holes(study("log densities: estimated", estimated=True, amounts=True)) == ""
    unfinished: Any = SimpleNamespace(result=None, record=study("", estimated=True).record)
    assert unseen_holes(unfinished) == ""
