"""One number everywhere: a study's table, `evaluate` and `evaluate_study` agree, for every learner."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from poela.data.action_space import Box
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.scoring import Evaluator
from poela.learners.registry import LEARNERS
from poela.studies.candidates import Candidate
from poela.studies.evaluation import evaluate_study
from poela.studies.learning import learn
from poela.studies.selection import Selection

SHARES = (0.5, 0.3, 0.2)
QUICK: dict[str, Any] = {
    "steps": 4, "warm_start_steps": 2, "density_steps": 2, "checkpoints": 2, "hidden": (3,), "temperatures": (1.0,),
    "sharpness": (1.5, 3.0), "device": "cpu",
}  # fmt: skip


def same(number: Any) -> Any:
    """Sums of many policies at once may differ in the last bit from those of one."""
    return pytest.approx(number, rel=1e-12)


NEEDS_COSTS = "hullwalk"


@pytest.mark.parametrize("name", [n for n in LEARNERS if LEARNERS[n].acts_in is not Box and n != NEEDS_COSTS])
def test_table_evaluate_and_evaluate_study_agree(name: str, tiny_logs: Trajectories) -> None:
    known = [field.name for field in fields(LEARNERS[name])]  # type: ignore[arg-type]
    candidate = Candidate(name, {setting: value for setting, value in QUICK.items() if setting in known})
    study = learn(
        tiny_logs, candidates=[candidate], shares=SHARES, selection=Selection("wdr", "best"), discount=0.9, history=0,
        backend="inline",
    )  # fmt: skip
    assert study.points
    train, held_out, _ = tiny_logs.split(SHARES, seed=0)
    scoring = study.settings.scoring
    beside = Evaluator(held_out, scoring, beside=train)
    rows = study.table().to_pylist()
    for point, row in zip(study.points, rows, strict=True):
        policy = study.policy_of(point)
        estimate = evaluate(policy, held_out, scoring=scoring)
        assert row["sntis"] == estimate.value
        assert (row["sntis_error"], row["ess"]) == same((estimate.standard_error, estimate.ess))
        assert estimate.gain is not None
        assert estimate.gain.value == estimate.value - held_out.returns(0.9).mean()
        (evidence,) = beside.evidence([policy], ("wdr", "guarded"))
        for estimator in ("wdr", "guarded"):
            assert row[estimator] == same(beside.value(evidence, estimator)[0])
    if study.choice.chosen is not None:
        (chosen,) = (row for row in rows if row["chosen"])
        look = evaluate_study(study, held_out)
        assert (look.estimate.value, look.estimate.standard_error) == same((chosen["sntis"], chosen["sntis_error"]))
        assert look.seen == held_out.n_episodes
        assert np.isfinite(look.estimate.value)
