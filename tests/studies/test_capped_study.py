"""Studies about capped returns: what lies beyond changes nothing, and the answer, record, page and card say so."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from poela.cli import main
from poela.core.errors import InputError
from poela.core.typed import to_plain
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import Cap
from poela.studies.candidates import Candidate
from poela.studies.evaluation import evaluate_study
from poela.studies.learning import learn
from poela.studies.planning import plan
from poela.studies.study import Study

CANDIDATES = [Candidate("fittedq", {"regressor": "ridge"})]


def rewards_of(rng: np.random.Generator, good: np.ndarray) -> np.ndarray:
    """A clear effect, and disasters that hide it."""
    n = len(good)
    return np.where(rng.random(n) < 0.005, -300.0 - 100 * rng.random(n), 0.8 * good + rng.normal(size=n))


def costs(seed: int = 0, n: int = 600, steps: int = 1) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts, actions = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    rewards = rewards_of(rng, np.where((contexts[:, 0] > 0) == (actions == 1), 1.0, -1.0))
    half = np.full((n, 2), 0.5)
    return Trajectories(contexts, actions, rewards, np.arange(0, n + 1, steps), propensities=half)


def study_of(logs: Trajectories, **settings: object) -> Study:
    return learn(logs, candidates=CANDIDATES, backend="inline", **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(costs(), cap=0.99, out=tmp_path_factory.mktemp("capped") / "study")


def test_nothing_can_be_verified_without_a_cap_and_much_with_one(stored: Study) -> None:
    without = study_of(costs())
    assert all(point.metrics["shown"] is None for point in without.points)
    assert "capped" not in str(without.answer)
    assert not stored.keeps_logging_policy
    assert stored.gain is not None
    assert stored.gain.low is not None
    assert stored.gain.low > 0


def test_it_is_said_wherever_the_claim_is(stored: Study, tmp_path: Path) -> None:
    cap = stored.settings.scoring.cap
    returns = np.sort(costs().returns())
    assert cap == Cap(float(returns[6]), float(returns[-7]), 0.99)  # 594 of 600 are at least, and at most, as high
    words = f"({cap.in_words})."
    assert stored.answer.headline.endswith(words)
    assert "1% of logged episodes" in stored.answer.why
    assert stored.answer.why.endswith("How much lies beyond is not bounded.")
    assert json.loads((stored.directory / "study.json").read_text())["settings"]["scoring"]["cap"]["share"] == 0.99
    page = stored.report(tmp_path / "page.html", costs()).read_text()
    assert cap.in_words in page
    assert "--cap 0.99" in page
    cards = [path.read_text() for path in (stored.directory / "policy").iterdir() if path.suffix == ".md"]
    assert len(cards) == 1
    assert cap.in_words in cards[0].replace("\\", "")


def test_values_beyond_the_cap_change_nothing(stored: Study) -> None:
    logs, cap = costs(), stored.settings.scoring.cap
    assert cap is not None
    assert cap.lowest is not None
    rewards = np.where(logs.rewards < cap.lowest, logs.rewards * 50, logs.rewards)
    other = study_of(replace(logs, rewards=rewards), cap=0.99)
    assert other.points == stored.points
    assert other.answer == stored.answer
    assert other.record.logging_policy == stored.record.logging_policy


def test_resuming_with_another_cap_is_refused(stored: Study) -> None:
    with pytest.raises(InputError, match=r"cap was '0.99' and is now '0.95'"):
        study_of(costs(), cap=0.95, out=stored.directory, resume=True)
    with pytest.raises(InputError, match=r"cap was '0.99' and is now not given"):
        study_of(costs(), out=stored.directory, resume=True)
    with pytest.raises(InputError, match="not those that this study began with"):
        study_of(costs(seed=5), cap=0.99, out=stored.directory, resume=True)
    again = study_of(costs(), cap=0.99, out=stored.directory, resume=True)
    assert to_plain(again.result) == to_plain(stored.result)


def test_later_logs_are_capped_where_the_studys_own_were(stored: Study) -> None:
    later = costs(seed=9)
    found = evaluate_study(Study.open(stored.directory), later).estimate
    assert found.beyond is not None
    assert found.beyond.cap == stored.settings.scoring.cap
    whole = evaluate_study(Study.open(stored.directory), later, cap=None).estimate
    assert whole.beyond is None
    assert whole.value != found.value


def test_the_declared_range_bounds_what_lies_beyond() -> None:
    study = study_of(costs(), cap=0.99, returns=(-400, 20))
    beyond = study.estimate.beyond
    assert beyond is not None
    assert beyond.lost is not None
    assert beyond.lost > 400 * beyond.policy[0]
    assert study.answer.why.endswith("of a gain: without the cap none is shown.")


def test_episodes_of_many_steps_are_judged_by_capped_returns_and_plans_made_by_them() -> None:
    logs = costs(n=600, steps=2)
    study = study_of(logs, cap=(-4, 4))
    assert study.record.logging_policy.value == pytest.approx(np.clip(logs.returns(), -4, 4).mean(), abs=1e-12)
    found = plan(logs, 1.0, candidates=CANDIDATES, backend="inline", cap=(-4, 4))
    assert found.cap == Cap(-4.0, 4.0)
    assert "a gain of 1.00 (returns capped to [-4.00, 4.00]) takes about" in str(found)


def test_a_cap_that_nothing_lies_within_is_refused_before_any_work() -> None:
    with pytest.raises(InputError, match="cap is 500,600, which leaves all 600 returns alike"):
        study_of(costs(), cap=(500, 600))


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = costs(n=300)
    columns = {"x": logs.contexts[:, 0], "y": logs.contexts[:, 1], "action": logs.actions, "reward": logs.rewards}
    pq.write_table(pa.table(columns | {"propensity": np.full(300, 0.5)}), tmp_path / "logs.parquet")
    for text in ("0.3", "2,1", "1,2,3", "lots"):
        assert main(["learn", str(tmp_path / "logs.parquet"), "--out", str(tmp_path / "no"), "--cap", text]) == 2
        assert f"--cap {text} must be" in capsys.readouterr().err
    where = [str(tmp_path / "logs.parquet"), "--no-audit", "--learners", "fittedq", "--backend", "inline"]
    assert main(["learn", *where, "--out", str(tmp_path / "study"), "--cap", "-3,3"]) == 0
    assert "(returns capped to [-3.00, 3.00])." in " ".join(capsys.readouterr().out.split())
    evaluated = ["evaluate", str(tmp_path / "study"), "--logs", str(tmp_path / "logs.parquet"), "--no-audit", "--json"]
    assert main([*evaluated, "--cap=-2,2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["estimate"]["beyond"]["cap"] == {"lowest": -2.0, "highest": 2.0, "share": None}
