"""Studies of logs in which some outcomes were not seen: what they say of what is done now."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import poela
from poela.behavior.staying import with_staying
from poela.cli.study_output import print_study
from poela.data.trajectories import Trajectories
from poela.report.numbers.judged import frontier_of
from poela.studies.candidates import Candidate


def lossy(n: int = 700, seed: int = 0) -> Trajectories:
    """One step: nothing gains, and the treated go more often."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    lost = rng.random(n) < np.where(actions == 1, 0.5, 0.1)
    outcomes = rng.normal(size=n)
    return Trajectories(x, actions, outcomes, np.arange(n + 1), np.full((n, 2), 0.5), lost=lost)


def kish(weights: NDArray[Any]) -> float:
    return float(weights.sum() ** 2 / np.square(weights).sum())


@pytest.mark.parametrize("folds", [2, 3])
def test_what_is_done_now_has_the_effective_cases_of_its_estimate(folds: int, capsys: Any) -> None:
    study: Any = poela.learn(lossy(), candidates=[Candidate("fittedq")], folds=folds, backend="inline")
    assert study.keeps_logging_policy
    estimate, ess = study.result.estimate, study.record.logging_policy.ess
    known = with_staying(lossy(), study.settings.seed)
    lost = known.lost
    assert known.staying is not None
    assert lost is not None
    assert ess == pytest.approx(kish(np.exp(known.staying)))
    assert estimate.ess == pytest.approx(ess)
    assert frontier_of(study).units == pytest.approx(ess)
    assert (estimate.verdict, estimate.reasons[0].split("%")[0]) == ("caution", f"{100 * lost.mean():.0f}")
    print_study(study, as_json=False)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("* what is done now")]
    assert row.split()[-3] == f"{ess:.0f}"


def test_effective_cases_of_clusters_are_clusters() -> None:
    logs = lossy(400)
    clustered = Trajectories(
        logs.contexts, logs.actions, logs.rewards, logs.offsets, logs.propensities, lost=logs.lost,
        clusters=np.repeat(np.arange(200), 2),
    )  # fmt: skip
    study: Any = poela.learn(clustered, candidates=[Candidate("fittedq")], folds=2, backend="inline")
    assert study.record.logging_policy.ess == pytest.approx(study.result.estimate.ess)
    assert study.record.logging_policy.ess < 200
