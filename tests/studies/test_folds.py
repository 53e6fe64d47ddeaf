"""Cross-fitted studies: pooled numbers against those by hand, what is handed back, and studies that go on."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.studies.coins import coins

import poela
from poela.behavior.history import memory_of
from poela.core.arrays import FloatArray
from poela.core.errors import PoelaError
from poela.core.storage import load_stored
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.learners.stacked import Learned
from poela.studies import finishing, logging_policy, runs
from poela.studies.candidates import Candidate
from poela.studies.fold_data import read_behavior
from poela.studies.records import Task
from poela.studies.selection import Selection
from poela.studies.study import LOGGING_POLICY, Study

Run = Callable[..., Study]
QUICK = {"folds": 3, "restarts": 1}
RESULTS = ("table.parquet", "choice.json")


@pytest.fixture(scope="module")
def better(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study of logs in which one action is better."""
    out = tmp_path_factory.mktemp("better") / "study"
    candidates = [Candidate("fittedq", {"history": 0, "regressor": "ridge"}), Candidate("consensus")]
    return poela.learn(coins(300, effect=1.0), candidates=candidates, folds=3, out=out, backend="inline")


def weights_by_hand(policy: Any, logs: Trajectories) -> FloatArray:
    rows, along = np.arange(logs.n_steps), policy.along(logs)
    assert logs.propensities is not None
    if (along.max(axis=1) == 1).all():
        along = 0.99 * along + 0.01 * logs.propensities  # a greedy policy is smoothed
    ratios = along[rows, logs.actions] / logs.propensities[rows, logs.actions]
    return np.asarray(np.multiply.reduceat(ratios, logs.offsets[:-1]))


@pytest.mark.parametrize("discount", [1.0, 0.6])
def test_pooled_values_are_those_of_the_fold_policies_by_hand(
    tiny_study: Run, tiny_logs: Trajectories, discount: float
) -> None:
    candidates = [
        Candidate("fittedq", {"history": 0, "regressor": "ridge", "temperatures": (2.0, 0.5)}),
        Candidate("consensus"),
    ]
    study = tiny_study(**QUICK, candidates=candidates, discount=discount)
    fold_of = fold_numbers(tiny_logs, 3, seed=0)
    parts = [tiny_logs.take(np.flatnonzero(fold_of == fold)) for fold in range(3)]
    returns = np.concatenate(
        [np.add.reduceat(discount**part.step_numbers * part.rewards, part.offsets[:-1]) for part in parts]
    )
    assert len(study.points) == 3 + 10  # temperatures and greedy, sharpness
    for point in study.points:
        policies = [study.fold_policy(point, fold) for fold in range(3)]
        weights = np.concatenate([weights_by_hand(*pair) for pair in zip(policies, parts, strict=True)])
        value = weights @ returns / weights.sum()
        assert point.metrics["sntis"] == pytest.approx(value, rel=1e-9)
        if point.metrics["controlled"] is None:
            assert point.metrics["gain"] == pytest.approx(value - returns.mean(), abs=1e-9)
        else:
            assert point.metrics["gain"] == point.metrics["controlled"]
        assert point.metrics["ess"] == pytest.approx(weights.sum() ** 2 / np.square(weights).sum(), rel=1e-9)


def test_what_is_recommended_was_learned_from_all_episodes(better: Study) -> None:
    logs, chosen = coins(300, effect=1.0), better.choice.chosen
    assert chosen is not None
    assert chosen.path_id.startswith("fittedq")
    path = list(
        Candidate("fittedq", {"history": 0, "regressor": "ridge"})
        .build()
        .fit_path(logs, seed=better.settings.restart_seed(0))
    )
    expected = path[chosen.number].policy.along(logs)
    np.testing.assert_array_equal(better.policy.along(logs), expected)
    np.testing.assert_array_equal(poela.load_policy(better.directory / "policy").along(logs), expected)
    assert (better.directory / "promising").exists()


def test_the_exact_policy_is_one_of_those_of_the_folds_in_each_episode(better: Study) -> None:
    logs, chosen = coins(300, effect=1.0), better.choice.chosen
    assert chosen is not None
    each = [weights_by_hand(better.fold_policy(chosen, fold), logs) for fold in range(3)]
    np.testing.assert_allclose(weights_by_hand(better.exact_policy, logs), np.mean(each, axis=0), rtol=1e-9)


def test_a_gain_that_is_there_is_shown_and_said(better: Study) -> None:
    assert not better.keeps_logging_policy
    assert better.gain is not None
    assert better.gain.low is not None
    assert 0 < better.gain.low < better.gain.value < 0.5 + 0.3  # always the better action: half of 1 more
    assert better.answer.change
    assert str(better.answer).startswith(f"Change: at least {better.gain.low:+.3f} better than what is done now (95%)")
    assert better.estimate.verdict == "trust"
    assert better.estimate.n_episodes == 300
    ladder = better.ladder().to_pylist()
    assert [row["ess"] for row in ladder] == sorted((row["ess"] for row in ladder), reverse=True)
    assert max(row["shown"] for row in ladder if row["shown"] is not None) == better.gain.low


def test_where_actions_make_no_difference_the_logging_policy_is_kept() -> None:
    study = poela.learn(
        coins(200), candidates=[Candidate("fittedq", {"history": 0, "regressor": "ridge"})], folds=3, backend="inline"
    )
    assert study.keeps_logging_policy
    assert study.chosen_name == LOGGING_POLICY
    assert str(study.answer).startswith("Keep what you do: nothing is shown to be better (95%)")
    assert study.estimate.value == pytest.approx(coins(200).returns().mean())  # what it achieved


@pytest.mark.parametrize("lost", ["all", "2", "choice"])
def test_a_study_that_goes_on_comes_to_the_same_end(better: Study, tmp_path: Path, lost: str) -> None:
    out = Path(shutil.copytree(better.directory, tmp_path / "study"))
    (out / "choice.json").unlink()
    gone = list(out.glob(f"runs/*-{lost}.safetensors"))
    for path in gone:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.safetensors")}
    candidates = better.settings.candidates
    logs = coins(300, effect=1.0)
    poela.learn(logs, candidates=candidates, folds=3, out=out, resume=True, backend="inline")
    assert len(gone) == {"all": 1, "2": 2, "choice": 0}[lost]
    assert all(path.exists() for path in gone)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    for name in RESULTS:
        assert (out / name).read_bytes() == (better.directory / name).read_bytes()
    assert not (out / ".scratch").exists()


def test_a_study_stopped_while_it_fits_on_all_episodes_goes_on(
    better: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    out = Path(shutil.copytree(better.directory, tmp_path / "study"))
    settings: dict[str, Any] = {"candidates": better.settings.candidates, "folds": 3, "out": out, "resume": True}
    (out / "choice.json").unlink()
    for path in out.glob("runs/*-all.safetensors"):
        path.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(finishing, "carry_out", stop)
        with pytest.raises(KeyboardInterrupt):
            poela.learn(coins(300, effect=1.0), backend="inline", **settings)
    assert not (out / ".scratch").exists()
    assert Study.open(out).result is None
    poela.learn(coins(300, effect=1.0), backend="inline", **settings)
    for name in RESULTS:
        assert (out / name).read_bytes() == (better.directory / name).read_bytes()


def test_a_path_that_fails_in_one_fold_is_left_out(tiny_study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    learned_by = runs.learned_by

    def fails(tasks: list[Task], material: Any) -> Any:
        if tasks[0].candidate.learner == "pocrm" and tasks[0].fold == 1:
            return [Learned(error=PoelaError("no luck"))]
        return learned_by(tasks, material)

    monkeypatch.setattr(runs, "learned_by", fails)
    candidates = [Candidate("pocrm", {"steps": 2, "hidden": (2,), "device": "cpu"}), Candidate("consensus")]
    study = tiny_study(**QUICK, candidates=candidates)
    assert [run.message for run in study.runs.values() if run.status == "failed"] == ["no luck"]
    assert {point.path_id.split("-")[0] for point in study.points} == {"consensus"}


def test_a_budget_leaves_out_paths_that_not_all_folds_have_finished(
    tiny_study: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10_000))
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: float(next(clock)))
        candidates = [Candidate("consensus"), Candidate("fittedq", {"history": 0, "regressor": "ridge"})]
        study = tiny_study(**QUICK, candidates=candidates, out=tmp_path / "study", time="18s")
    finished = [run.task for run in study.runs.values()]
    assert [(task.candidate.learner, task.fold) for task in finished][:3] == [("consensus", fold) for fold in range(3)]
    assert 3 < len(finished) < 6
    assert {point.path_id for point in study.points} == {finished[0].path_id}
    tiny_study(**QUICK, candidates=candidates, out=tmp_path / "study", resume=True)
    tiny_study(**QUICK, candidates=candidates, out=tmp_path / "fresh")
    for name in RESULTS:
        assert (tmp_path / "study" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_choosing_anew_needs_no_fits_but_of_what_is_chosen(better: Study, tmp_path: Path) -> None:
    out = Path(shutil.copytree(better.directory, tmp_path / "study"))
    settings: dict[str, Any] = {"candidates": better.settings.candidates, "folds": 3, "out": out, "resume": True}
    kept = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.safetensors")}
    study = poela.learn(
        coins(300, effect=1.0), selection=Selection("guarded", "best", 0.99), backend="inline", **settings
    )
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    chosen = study.choice.chosen
    assert chosen is not None
    scores = [study.settings.selection.score(point.metrics) for point in study.points]
    assert study.choice.score == max(score for score in scores if score is not None)
    assert [point.path_id for point in study.points] == [point.path_id for point in better.points]
    poela.learn(coins(300, effect=1.0), backend="inline", **settings)
    assert (out / "choice.json").read_bytes() == (better.directory / "choice.json").read_bytes()


def test_propensities_are_estimated_inside_each_fold_and_the_claim_survives_wrong_ones(tmp_path: Path) -> None:
    logs, fold_of = coins(300, effect=1.0).with_propensities(None), fold_numbers(coins(300), 2, seed=0)
    settings: dict[str, Any] = {
        "candidates": [Candidate("fittedq", {"history": 0, "regressor": "ridge"})],
        "folds": 2,
        "backend": "inline",
    }
    found = {}
    for sensitivity in (1.0, 1.5):
        out, selection = tmp_path / f"study-{sensitivity}", Selection("gain", "best", 0.95, sensitivity=sensitivity)
        found[sensitivity] = poela.learn(logs, out=out, behavior="multinomial", selection=selection, **settings)
        assert found[sensitivity].estimate.verdict == "caution"
        assert "trust" not in {point.verdict for point in found[sensitivity].points}
        for fold in range(2):
            kept = load_stored(out / "folds" / str(fold) / "propensities", file_format="poela-propensities", version=1)
            held_out = logs.take(np.flatnonzero(fold_of == fold))
            model = read_behavior(out / "folds" / str(fold) / "behavior")
            again = poela.MultinomialBehavior().fit(logs.take(np.flatnonzero(fold_of != fold)))
            np.testing.assert_array_equal(kept[0].arrays["1"], model.annotate(held_out).propensities)
            np.testing.assert_allclose(model.along(held_out), again.along(held_out))
    for plain, doubted in zip(found[1.0].points, found[1.5].points, strict=True):
        assert plain.metrics["sntis"] == doubted.metrics["sntis"]
        if plain.metrics["shown"] is not None and doubted.metrics["shown"] is not None:
            assert doubted.metrics["shown"] < plain.metrics["shown"]
    assert not found[1.0].keeps_logging_policy
    for study in found.values():
        answer = study.answer
        assert "Change" not in answer.headline  # nobody knows what else decisions rested on
        assert answer.kind == ("keep" if study.keeps_logging_policy else "worth a trial")
        assert not answer.change


def test_clusters_stay_together_in_every_fold(tmp_path: Path) -> None:
    logs = coins(60, effect=1.0)
    patients = Trajectories(
        logs.contexts, logs.actions, logs.rewards, logs.offsets, logs.propensities, clusters=np.arange(60) % 15
    )
    study = poela.learn(patients, candidates=[Candidate("consensus")], folds=4, backend="inline")
    fold_of = fold_numbers(patients, 4, seed=0)
    assert all(len(set(fold_of[np.arange(60) % 15 == patient])) == 1 for patient in range(15))
    sizes = [study.store.held_out(run).log_weights.shape[1] for run in study.runs]
    assert sizes == np.bincount(fold_of).tolist()


def test_a_fold_may_be_a_single_cluster(tiny_logs: Trajectories) -> None:
    one_large = np.maximum(np.arange(60) - 30, 0)  # half of the episodes are one patient's
    candidates = [Candidate("consensus"), Candidate("fittedq", {"history": 0, "regressor": "ridge"})]
    study = poela.learn(replace(tiny_logs, clusters=one_large), candidates=candidates, folds=3, backend="inline")
    assert {run.status for run in study.runs.values()} == {"done"}
    assert all(point.metrics["guarded"] is not None for point in study.points)


def test_a_last_look_at_episodes_that_the_folds_have_not_seen() -> None:
    logs = coins(300, effect=1.0)
    study = poela.learn(
        logs,
        candidates=[Candidate("fittedq", {"history": 0, "regressor": "ridge"})],
        folds=2,
        test=0.2,
        backend="inline",
    )
    assert (study.record.data.train_episodes, study.record.data.test_episodes) == (240, 60)
    assert study.test_evaluation is not None
    assert (study.test_evaluation.number, study.test_evaluation.seen, study.estimate.n_episodes) == (1, 0, 60)


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_folds_run_anywhere(tiny_study: Run, tiny_candidates: list[Candidate], tmp_path: Path, backend: str) -> None:
    settings: dict[str, Any] = {**QUICK, "candidates": [tiny_candidates[2], Candidate("consensus")]}
    tiny_study(**settings, out=tmp_path / "here", backend=backend, jobs=2)
    tiny_study(**settings, out=tmp_path / "there")
    for name in RESULTS:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


def test_memory_is_asked_once_for_all_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(logs: Trajectories, seed: int = 0) -> Any:
        asked.append(logs.n_episodes)
        return memory_of(logs, seed)

    monkeypatch.setattr(logging_policy, "memory_of", counted)
    logs = coins(120).with_propensities(None)
    poela.learn(logs, candidates=[Candidate("consensus")], backend="inline", folds=3)
    assert asked == [120]
