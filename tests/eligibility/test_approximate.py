"""An approximate search errs to one side only: what it finds is logged, at its true distance."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.core import approximate
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility
from poela.eligibility.words import rule_in_words


def logs_of(steps: int, features: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(steps, features)).round(1)
    return Trajectories(contexts, rng.integers(3, size=steps), np.zeros(steps), np.arange(0, steps + 1, 10))


def both(logs: Trajectories, **rule: object) -> tuple[FittedEligibility, FittedEligibility]:
    settings: Any = rule
    exact, found = (Eligibility(search=search, **settings).fit(logs) for search in ("exact", "approximate"))
    return exact, found


@pytest.fixture
def small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed: pip install 'poela[large]'")
    for name, value in {"FEW": 40, "MOST": 150, "PER_LIST": 40, "ASKED_LISTS": 1}.items():
        monkeypatch.setattr(approximate, name, value)


@pytest.mark.usefixtures("small_index")
def test_eligible_actions_can_only_become_fewer() -> None:
    @settings(max_examples=30, deadline=None)
    @given(
        steps=st.sampled_from([50, 300, 900]),
        features=st.integers(1, 8),
        seed=st.integers(0, 99),
        radius=st.sampled_from([0.0, 0.1, 0.5, 2.0, "q50"]),
        neighbours=st.sampled_from(["pooled", "same_step"]),
        away=st.sampled_from([1.0, 1e6, 1e30]),
    )
    def fewer(steps: int, features: int, seed: int, radius: float | str, neighbours: str, away: float) -> None:
        logs = logs_of(steps, features, seed)
        exact, found = both(logs, radius=radius, neighbours=neighbours)
        assert found.radius == exact.radius
        asked = away * logs_of(40, features, seed + 1).contexts, np.arange(40) % 10
        true, near = exact.distances(*asked), found.distances(*asked)
        assert (near >= true).all()
        np.testing.assert_array_equal(np.isinf(near), np.isinf(true))

    fewer()


@pytest.mark.usefixtures("small_index")
def test_a_poor_index_says_so() -> None:
    logs = logs_of(3000, 5, 0)
    exact, found = both(logs, radius=0.05)
    some = np.unique(np.linspace(0, 2999, 200).astype(int))
    within = [(rule.distances(logs.contexts[some]) <= 0.05).sum() for rule in (exact, found)]
    assert found.recall() == within[1] / within[0]
    assert within[1] < within[0]
    assert f"finds {within[1] / within[0]:.1%} of what an exact one would" in rule_in_words(found)
    assert exact.recall() == 1.0


def test_a_full_index_finds_nearly_all() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed: pip install 'poela[large]'")
    _, found = both(logs_of(30_000, 8, 1), radius=0.1)
    recall = found.recall()
    assert recall is not None
    assert recall > 0.95


def test_without_faiss_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(InputError, match=r"needs faiss, which is not installed: pip install 'poela\[large\]'"):
        Eligibility(radius=0.1, search="approximate").fit(logs_of(50, 2, 0))
