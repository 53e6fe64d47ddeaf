"""Who made the logs: propensities estimated, kept and asked by rules; and the logging policy where it is kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import poela
from poela.behavior.history import HistoryModel
from poela.core.errors import InputError
from poela.core.policy import as_policy
from poela.core.storage import load_stored
from poela.data.layout import LogLayout
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.evaluation import evaluate_study
from poela.studies.fold_data import read_behavior
from poela.studies.keeping_apart import episode_digests
from poela.studies.logging_policy import best_behavior
from poela.studies.selection import Selection
from poela.studies.study import LOGGING_POLICY, Study

Run = Callable[..., Study]
ESTIMATED = "the propensities are estimated, and the interval treats them as known"


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
        (out / "runs" / f"{run}.safetensors").unlink()

    def again(*_: Any) -> None:
        raise AssertionError("the logging policy is estimated twice")

    with monkeypatch.context() as patched:
        patched.setattr("poela.studies.logging_policy.find_logging_policy", again)
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
        assert ESTIMATED in estimate.reasons
    with pytest.raises(InputError, match="behavior is 'magic'"):
        poela.learn(bare, candidates=tiny_candidates, behavior="magic", backend="inline")


def test_logs_that_carry_estimates_are_known_to(
    tiny_logs: Trajectories, tiny_candidates: list[Candidate], tmp_path: Path
) -> None:
    annotated = poela.MultinomialBehavior().annotate(tiny_logs.with_propensities(None))
    settings: dict[str, Any] = {"candidates": tiny_candidates[2:], "restarts": 1, "backend": "inline"}
    settings |= {"shares": (0.5, 0.3, 0.2)}
    study = poela.learn(annotated, out=tmp_path / "study", selection=Selection("sntis", "final"), **settings)
    assert study.record.data.estimated
    assert study.record.data.propensities == "propensities: estimates that the logs carry"
    assert ESTIMATED in study.estimate.reasons
    assert not (tmp_path / "study" / "propensities").exists()  # which are not ours to keep
    known = poela.learn(tiny_logs, out=tmp_path / "known", selection=Selection("sntis", "final"), **settings)
    assert not known.record.data.estimated
    assert known.record.data.propensities == "propensities: as logged"
    later = evaluate_study(known, annotated.take(np.arange(20)))
    assert ESTIMATED in later.estimate.reasons


@pytest.fixture(scope="module")
def stubborn_logs() -> Trajectories:
    """Decisions that are the last one again four times in five."""
    rng = np.random.default_rng(0)
    changes = rng.random((120, 6)) < 0.2
    changes[:, 0] = rng.random(120) < 0.5
    actions = (np.cumsum(changes, axis=1) % 2).ravel()
    contexts = rng.normal(size=(720, 2))
    return Trajectories(contexts, actions, rng.normal(size=720) + actions, np.arange(0, 721, 6))


def test_a_logging_policy_that_remembers_is_modelled_with_its_memory(
    stubborn_logs: Trajectories, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"restarts": 1, "backend": "inline", "selection": Selection(proof=0.0)}
    candidates = [Candidate("fittedq", {"temperature": 1.0, "history": 0}), Candidate("pomu", {"steps": 2})]
    study = poela.learn(stubborn_logs, out=tmp_path / "study", candidates=candidates, **settings)
    note = study.record.data.propensities
    assert "with the last step's action, since the logging policy remembers it" in note
    assert " with history -0." in note
    assert {run.status for run in study.runs.values()} == {"done"}
    model = read_behavior(tmp_path / "study" / "behavior")
    assert isinstance(model, HistoryModel)
    again = model.along(stubborn_logs)[np.arange(720), np.roll(stubborn_logs.actions, 1)]
    assert 0.65 < again[stubborn_logs.step_numbers > 0].mean() < 0.85  # one that sees the context alone gives 0.5
    assert study.policy.along(stubborn_logs).shape == (720, 2)
    later = evaluate_study(Study.open(tmp_path / "study"), stubborn_logs.take(np.arange(30)))
    assert later.estimate.n_episodes == 30


def test_a_logging_policy_without_memory_is_not_given_one(tiny_logs: Trajectories) -> None:
    assert set(best_behavior(tiny_logs.with_propensities(None), seed=0)[1]) == {"multinomial", "boosted", "knn"}


def test_clusters_stay_together_in_studies_and_later_logs(
    tiny_logs: Trajectories, tiny_candidates: list[Candidate], tmp_path: Path
) -> None:
    table = tiny_logs.to_table().append_column("patient", [np.repeat(np.arange(60) % 20, 3)])
    pq.write_table(table, tmp_path / "logs.parquet")
    pq.write_table(table.drop_columns(["patient"]), tmp_path / "anonymous.parquet")
    layout = LogLayout(cluster="patient")
    settings: dict[str, Any] = {"candidates": tiny_candidates[2:], "restarts": 1, "backend": "inline"}
    study = poela.learn(tmp_path / "logs.parquet", layout=layout, out=tmp_path / "study", folds=2, **settings)
    assert study.record.data.layout.cluster == "patient"
    assert study.record.data.train_episodes == study.record.data.validation_episodes == 60
    arrays = load_stored(tmp_path / "study" / "episodes", file_format="poela-episodes", version=1)[0].arrays
    digests = episode_digests(tiny_logs)
    patients = {role: set(np.flatnonzero(np.isin(digests, arrays[role])) % 20) for role in ("train", "validation")}
    assert not patients["train"] & patients["validation"]
    assert len(patients["train"]) == len(patients["validation"]) == 10  # of the first fold
    assert all((point.metrics["ess"] or 0) <= 20 for point in study.points)  # as many as there are patients
    assert evaluate_study(study, tmp_path / "logs.parquet").estimate.n_episodes == 60
    with pytest.raises(InputError, match=r"column 'patient' is missing .*: add it, or name another with cluster="):
        evaluate_study(study, tmp_path / "anonymous.parquet")
