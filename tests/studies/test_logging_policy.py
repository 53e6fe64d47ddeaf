"""Who made the logs: propensities estimated, kept and asked by rules; and the logging policy where it is kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poela
from poela.core.errors import InputError
from poela.core.policy import as_policy
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.evaluation import evaluate_study
from poela.studies.material import read_behavior
from poela.studies.selection import Selection
from poela.studies.study import LOGGING_POLICY, Study

Run = Callable[..., Study]


def test_where_nothing_qualifies_the_logging_policy_is_kept(
    tiny_study: Run, tiny_logs: Trajectories, tmp_path: Path
) -> None:
    study = tiny_study(out=tmp_path / "study", selection=Selection("sntis", "final", min_ess=1000))
    assert study.chosen_name == LOGGING_POLICY
    assert "effective sample size of 1000" in study.choice.reason
    assert study.policy.along(tiny_logs).shape == (tiny_logs.n_steps, 2)
    assert json.loads((tmp_path / "study" / "choice.json").read_text())["policy"] == LOGGING_POLICY
    assert not (tmp_path / "study" / "policy").exists()  # nothing to act by: a model of it can be worse
    assert study.result is not None
    assert study.result.logging_policy_on_test is not None
    assert study.estimate.value == study.result.logging_policy_on_test.value
    assert study.estimate.ess == study.estimate.n_episodes == 12
    later = evaluate_study(study, tiny_logs.with_propensities(None))
    assert later.seen == 0  # though most of these episodes took part in learning
    assert later.estimate.value == tiny_logs.returns().mean()


def test_a_policy_that_is_no_longer_chosen_does_not_stay(tiny_study: Run, tmp_path: Path) -> None:
    out = tmp_path / "study"
    tiny_study(out=out, selection=Selection("sntis", "final"))
    assert (out / "policy").exists()
    tiny_study(out=out, selection=Selection("sntis", "final", min_ess=1000), resume=True)
    assert not (out / "policy").exists()


def test_with_logged_propensities_a_named_model_serves_rules_at_new_contexts(
    tiny_study: Run, tiny_logs: Trajectories, tmp_path: Path
) -> None:
    ruled = [Candidate("pomu", {"minimum_probability": 0.1, "steps": 2, "warm_start_steps": 2})]
    weights = Selection("sntis", "final")
    study = tiny_study(out=tmp_path / "knn", candidates=ruled, behavior="knn", selection=weights)
    assert study.record.data.propensities == "propensities: as logged; at contexts outside the logs, by knn"
    bare = tiny_study(out=tmp_path / "auto", candidates=ruled, selection=weights)
    assert not (bare.directory / "behavior").exists()
    contexts = tiny_logs.contexts + np.float32(0.37)
    allowed = as_policy(read_behavior(study.directory / "behavior")).probabilities(contexts) >= 0.1
    taken = study.policy.probabilities(contexts) > 0
    assert (taken == allowed)[allowed.any(axis=1)].all()
    assert (taken != (bare.policy.probabilities(contexts) > 0)).any()


def test_estimated_propensities_are_kept_when_a_study_goes_on(
    tiny_logs: Trajectories, tiny_candidates: list[Candidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, out = tiny_logs.with_propensities(None), tmp_path / "study"
    settings: dict[str, Any] = {"candidates": tiny_candidates, "backend": "inline", "out": out, "resume": True}
    whole = poela.learn(bare, **settings, restarts=2)
    table, choice = (out / "table.parquet").read_bytes(), (out / "choice.json").read_bytes()
    for run in list(whole.runs)[::2]:
        (out / "runs" / f"{run}.json").unlink()

    def again(*_: Any) -> None:
        raise AssertionError("the logging policy is estimated twice")

    with monkeypatch.context() as patched:
        patched.setattr("poela.studies.logging_policy.logging_policy", again)
        poela.learn(bare, **settings, restarts=2)
        with pytest.raises(InputError, match="behavior was 'auto' and is now 'multinomial'"):
            poela.learn(bare, **settings, restarts=2, behavior="multinomial")
    assert ((out / "table.parquet").read_bytes(), (out / "choice.json").read_bytes()) == (table, choice)
    other = bare.take(np.arange(bare.n_episodes)[::-1])
    with pytest.raises(InputError, match="logs are not those that this study began with"):
        poela.learn(other, **settings, restarts=2)
    poela.learn(bare, **settings, restarts=2)
    assert (out / "table.parquet").read_bytes() == table


def test_logs_without_propensities_are_annotated_and_it_is_said(
    tiny_study: Run, tiny_logs: Trajectories, tiny_candidates: list[Candidate], tmp_path: Path
) -> None:
    bare = tiny_logs.with_propensities(None)
    settings: dict[str, Any] = {"candidates": tiny_candidates[1:], "restarts": 1, "backend": "inline"}
    study = poela.learn(bare, out=tmp_path / "study", selection=Selection("sntis", "final"), **settings)
    note = study.record.data.propensities
    assert note.startswith("propensities: estimated, since the logs carry none, by ")
    look = evaluate_study(Study.open(tmp_path / "study"), bare.take(np.arange(20)))
    assert look.estimate.n_episodes == 20
    for estimate in (study.estimate, look.estimate):
        assert "the propensities are estimates: the interval takes them for known" in estimate.reasons
    with pytest.raises(InputError, match="behavior is 'magic'"):
        poela.learn(bare, candidates=tiny_candidates, behavior="magic", backend="inline")
