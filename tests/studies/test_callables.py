"""Functions in the place of names: an estimator, an interval, a selection rule."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poela
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS, Estimator, snis
from poela.evaluation.evidence import Evidence
from poela.evaluation.scoring import Scoring
from poela.stats.bounds import Interval, Sample
from poela.stats.contributions import Contributions
from poela.studies.selection import Point
from poela.studies.study import Study

QUICK: dict[str, Any] = {"folds": 2, "no_audit": True, "learners": ["consensus"]}


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 200)
    return Trajectories(rng.normal(size=(200, 1)), actions, actions * 1.0, np.arange(201), np.full((200, 2), 0.5))


class Mostly:
    """Takes the second action three times in four."""

    def probabilities(self, contexts: Any) -> Any:
        return np.tile([0.25, 0.75], (len(contexts), 1))


def winsorised(evidence: Evidence) -> Contributions:
    """Weighted returns, none above 1."""
    return Contributions.mean(np.minimum(np.exp(evidence.weights.episodes) * evidence.returns, 1.0))


def whole_range(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """Everything between no return and the largest."""
    return [Interval(0.0, float(level), "whole range") for level in levels]


def test_an_estimator_and_an_interval_of_ones_own(logs: Trajectories) -> None:
    found = poela.evaluate(Mostly(), logs, estimator=winsorised, interval=whole_range, level=0.9)
    weighted = np.where(logs.actions == 1, 1.5, 0.5) * logs.returns()
    assert found.value == pytest.approx(np.minimum(weighted, 1.0).mean())
    assert (found.low, found.high, found.estimator, found.interval) == (0.0, 0.9, "winsorised", "whole range")


def test_an_estimator_that_says_what_it_needs_is_ours_by_another_name(logs: Trajectories) -> None:
    own = poela.evaluate(Mostly(), logs, estimator=Estimator(snis, "episode"), interval=None)
    assert own.value == poela.evaluate(Mostly(), logs, estimator="snis", interval=None).value


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_a_study_chooses_by_a_function(logs: Trajectories, backend: str, tmp_path: Path) -> None:
    def most_effective(points: Sequence[Point]) -> Point:
        return max(points, key=lambda point: point.metrics["ess"] or 0.0)

    how: dict[str, Any] = {"backend": backend, "jobs": 1, "estimator": winsorised, "out": tmp_path / "study"}
    study = poela.learn(logs, choose_by=most_effective, **how, **QUICK)
    assert study.choice.chosen == most_effective(study.points)
    assert "the choice of most_effective" in study.choice.reason
    opened = Study.open(tmp_path / "study")
    assert opened.choice.chosen == study.choice.chosen
    assert b"def " not in (tmp_path / "study" / "study.json").read_bytes()


def test_who_chooses_nothing_keeps_the_logging_policy(logs: Trajectories) -> None:
    study = poela.learn(logs, choose_by=lambda points: None, backend="inline", **QUICK)
    assert study.keeps_logging_policy
    assert "the logging policy is kept" in study.choice.reason


def test_a_function_of_another_session_is_named_when_it_is_asked_for() -> None:
    text = "winsorised [live 0123456789abcdef]"
    assert Scoring(estimator=text).estimator == text
    with pytest.raises(InputError, match="winsorised was an object of the Python session that used it"):
        ESTIMATORS[text]


def test_a_class_is_no_function() -> None:
    with pytest.raises(InputError, match="estimator is"):
        Scoring(estimator=Mostly)  # type: ignore[arg-type]
