"""What a policy shows on its own, by hand; and that only what is needed of it is computed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, t

import poela
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.stats.gain import least_value
from poela.studies.candidates import Candidate
from poela.studies.final_gain import FinalEstimates
from poela.studies.held_out import Episodes
from poela.studies.own_bounds import Yardstick, fold_factor, with_own_bounds
from poela.studies.selection import Point
from poela.studies.study import Study

N, FOLDS = 600, 3


def coins(effect: float, clusters: int | None = None, seed: int = 0) -> Trajectories:
    """One step, two actions by a fair coin, and what the second one adds."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, N)
    rewards = effect * actions + rng.normal(size=N)
    of = None if clusters is None else np.arange(N) % clusters
    return Trajectories(rng.normal(size=(N, 1)), actions, rewards, np.arange(N + 1), np.full((N, 2), 0.5), clusters=of)


def learned(logs: Trajectories, out: Path, **settings: object) -> tuple[Study, FinalEstimates, list[Trajectories]]:
    candidates = [Candidate("fittedq", {"history": 0, "regressor": "ridge", "temperatures": (2.0,)})]
    study = poela.learn(logs, candidates=candidates, folds=FOLDS, out=out, backend="inline", **settings)  # type: ignore[arg-type]
    fold_of = fold_numbers(logs, FOLDS, seed=0)
    parts = [logs.take(np.flatnonzero(fold_of == fold)) for fold in range(FOLDS)]
    return study, FinalEstimates(study, Episodes.of(parts, 1.0), study.settings), parts


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, FinalEstimates, list[Trajectories]]:
    return learned(coins(0.6), tmp_path_factory.mktemp("own") / "study")


def by_hand(study: Study, point: Point, parts: list[Trajectories]) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Weights and returns, fold by fold, the paired gain, and its standard error."""
    pairs = [
        2 * study.fold_policy(point, fold).along(part)[np.arange(part.n_steps), part.actions]
        for fold, part in enumerate(parts)
    ]
    weights, returns = np.concatenate(pairs), np.concatenate([part.rewards for part in parts])
    value = weights @ returns / weights.sum()
    influence = weights * (returns - value) / weights.mean() - (returns - returns.mean())
    return weights, returns, value - returns.mean(), float(np.sqrt(influence @ influence) / N)


def test_the_own_bound_is_the_paired_gain_less_a_one_sided_reach_that_knows_of_the_folds(
    plain: tuple[Study, FinalEstimates, list[Trajectories]],
) -> None:
    study, gains, parts = plain
    point = replace(
        study.points[0], metrics={**study.points[0].metrics, "folds_factor": None, "controlled": None, "shown": None}
    )
    _, _, gain, error = by_hand(study, point, parts)
    assert point.metrics["own_error"] == pytest.approx(error)
    reach = {
        factor: gain - (gains.own_bound(replace(point, metrics={**point.metrics, "folds_factor": factor})) or 0.0)
        for factor in (None, 1.0, 1.2)
    }
    # Many equal weights: no less than Student's, and no more than a little above the normal.
    assert t.ppf(0.95, N - 1) * error <= reach[1.0] < 1.15 * norm.ppf(0.95) * error
    assert reach[1.2] == pytest.approx(1.2 * reach[1.0])
    assert reach[None] == pytest.approx(np.sqrt(2) * reach[1.0])  # not known: the worst case
    returns = np.concatenate([part.rewards for part in parts])
    limit = Yardstick(returns.mean(), returns.std(), 0.95, FOLDS).at_most(point)
    assert limit == pytest.approx(gain - np.sqrt(2) * norm.ppf(0.95) * error)
    assert limit is not None
    assert limit > gain - reach[None]
    assert fold_factor(point, 1) == 1.0
    other = replace(point, metrics={**point.metrics, "folds_factor": 1.0, "controlled": 0.3})
    assert fold_factor(other, FOLDS) == np.sqrt(2)  # what is known is the error of another way to judge


def test_the_own_bound_of_estimated_propensities_survives_gamma(
    plain: tuple[Study, FinalEstimates, list[Trajectories]],
) -> None:
    study, gains, parts = plain
    point = replace(study.points[0], metrics={**study.points[0].metrics, "shown": None})
    weights, returns, gain, _ = by_hand(study, point, parts)
    doubted = FinalEstimates(study, replace(Episodes.of(parts, 1.0), estimated=True), study.settings)
    lost = gain + returns.mean() - least_value(np.log(weights), returns, 1.5)
    known, less = gains.own_bound(point), doubted.own_bound(point)
    assert known is not None
    assert less == pytest.approx(known - lost)


def test_no_more_intervals_than_needed_are_made() -> None:
    def point(name: str, limit: float, error: float = 1.0, verdict: str = "caution") -> Point:
        return Point(name, 0, True, {"sntis": limit + norm.ppf(0.95) * error, "own_error": error}, verdict)

    yardstick, asked = Yardstick(mean=0.0, spread=1.0, confidence=0.95, folds=1), list[str]()
    bounds = {"a": 0.9, "b": 0.5, "c": 1.1, "d": 0.3, "lost": 8.0, "same": 7.0, "low": -0.1, "lower": -0.6}

    def own(one: Point) -> float | None:
        asked.append(one.path_id)
        return bounds[one.path_id]

    lost, same = point("lost", 9.0, verdict="do not trust"), point("same", 7.0, error=1e-9)
    points = [point("a", 1.0), point("b", 3.0), point("c", 2.5, error=3.0), point("d", 0.4), lost, same]
    found, closest = with_own_bounds(points, yardstick, own)
    assert asked == ["b", "c"]  # 1.1 is above all that a and d can be
    assert [one.metrics["own"] for one in found] == [None, 0.5, 1.1, None, None, None]
    assert closest is found[1]
    asked.clear()
    found, closest = with_own_bounds([point("lower", -0.5), point("low", -0.1, error=0.05), same], yardstick, own)
    assert asked == ["lower"]  # none can be above zero, but how far the closest is from it is told
    # Of gains 1.14 and -0.02 the first is more errors above zero, though its bound is lower.
    assert closest is found[0]
    gone = replace(points[1], metrics={**points[1].metrics, "own_lost": 4.0})  # to Γ
    assert with_own_bounds([gone, points[3]], yardstick, own)[1].path_id == "d"  # type: ignore[union-attr]
    assert with_own_bounds([lost, same], yardstick, own)[1] is None


def test_a_policy_worth_a_trial_is_handed_out_beside_keep_and_named_so(tmp_path: Path) -> None:
    """Between what one policy shows alone and what many show together."""
    study, gains, _ = learned(coins(0.6), tmp_path / "study", min_ess=0.999999)  # nothing can be verified
    assert study.keeps_logging_policy
    assert study.result is not None
    assert study.result.promising is not None
    point = study.points[study.result.promising]
    assert study.gain is not None
    assert point.metrics["own"] == study.gain.low == gains.own_bound(point)
    assert study.gain.low is not None
    assert study.gain.low > 0
    assert study.gain.undone_by is not None
    assert study.promising is not None
    assert (study.directory / "promising").is_dir()
    assert "worth a trial" in study.answer.headline
    assert r"Worth a trial: at least \+" in (study.directory / "promising" / "MODEL_CARD.md").read_text()


def test_where_nothing_is_worth_a_trial_none_is_handed_out(tmp_path: Path) -> None:
    study, _, _ = learned(coins(0.0, seed=1), tmp_path / "study")
    assert study.promising is None
    assert not (study.directory / "promising").exists()
    assert study.result is not None
    assert study.result.closest is not None
    assert study.gain is not None
    assert study.gain.undone_by is None
    assert "No policy is worth a trial" in study.answer.why


def test_effective_cases_and_shares_of_them_count_clusters(tmp_path: Path) -> None:
    logs = coins(0.6, clusters=60)
    study, _, _ = learned(logs, tmp_path / "study", min_ess=0.5)
    assert study.result is not None
    assert study.result.units == "60 clusters"
    # Of 60 clusters more than half are effective, of 600 episodes fewer.
    assert all(30 < (point.metrics["ess"] or 0) <= 60 for point in study.points)
    assert all(point.metrics["shown"] is not None for point in study.points if point.verdict == "trust")
    assert any(point.verdict == "trust" for point in study.points)
    assert "of 60 clusters" in str(study.estimate.reasons) or study.keeps_logging_policy
