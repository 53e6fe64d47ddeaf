"""Folds teach each other: the variance that they share, by hand and by simulation, and when it is learned."""

import itertools
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.studies.coins import coins

import poela
from poela.core.arrays import FloatArray
from poela.core.errors import InputError, PoelaError
from poela.core.files import sha256
from poela.core.stored import canonical
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import Evidence
from poela.evaluation.tails import NO_TAIL
from poela.learners.stacked import Learned
from poela.stats.weights import LogWeights
from poela.studies import fold_errors, runs, shown_gain
from poela.studies.candidates import Candidate
from poela.studies.fold_errors import added_by_weights, shared_variance
from poela.studies.held_out import Episodes
from poela.studies.records import Task
from poela.studies.settings import StudySettings
from poela.studies.splits import splits_of
from poela.studies.store import Store
from poela.studies.study import Study

FITTED, CONSENSUS = Candidate("fittedq", {"history": 0, "regressor": "ridge"}), Candidate("consensus")
RESULTS = ("table.parquet", "choice.json")


def learn(logs: Any, **settings: Any) -> Study:
    return poela.learn(logs, **{"candidates": [FITTED, CONSENSUS], "folds": 3, "backend": "inline", **settings})


def without_two(study: Study) -> list[str]:
    """The runs that leave two folds out."""
    return [run_id for run_id in study.all_runs if run_id.rpartition("-")[2] in {"3", "4", "5"}]


def by_weights(
    log_weights: FloatArray, returns: FloatArray, sizes: Sequence[int], left_out: Mapping[tuple[int, int], FloatArray]
) -> float:
    """What folds share in a self-normalised value with these weights."""
    n = len(returns)
    logs = Trajectories(np.zeros((n, 1)), np.zeros(n, np.int64), returns, np.arange(n + 1))
    evidence = Evidence(LogWeights(log_weights, logs.offsets), logs)
    starts = np.cumsum([0, *sizes])
    own = {pair: np.concatenate([np.arange(starts[fold], starts[fold + 1]) for fold in pair]) for pair in left_out}
    added = {pair: added_by_weights(evidence, weights, own[pair]) for pair, weights in left_out.items()}
    return shared_variance(added_by_weights(evidence, log_weights, np.arange(n)), sizes, added)


@pytest.fixture(scope="module")
def better(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study of logs in which one action is a little better."""
    return learn(coins(300, effect=0.5), out=tmp_path_factory.mktemp("better") / "study")


def test_it_is_twice_the_sum_of_the_positive_products_of_what_folds_do_to_each_other() -> None:
    rng = np.random.default_rng(0)
    sizes, n = (4, 6, 5, 3), 18
    weights, returns = rng.lognormal(size=n), rng.normal(size=n)
    fold_of = np.repeat(range(4), sizes)
    left_out = {
        (j, k): rng.lognormal(size=sizes[j] + sizes[k]) for j, k in itertools.combinations(range(4), 2)
    }  # fmt: skip
    value, mean = weights @ returns / weights.sum(), weights.mean()

    def part(own: FloatArray, fold: int) -> float:
        """Σ w (R − v) / mean(w) over the fold, over n."""
        return float(sum(w * (r - value) for w, r in zip(own, returns[fold_of == fold], strict=True)) / mean / n)

    products = []
    for (j, k), other in left_out.items():
        d_jk = part(weights[fold_of == j], j) - part(other[: sizes[j]], j)
        d_kj = part(weights[fold_of == k], k) - part(other[sizes[j] :], k)
        products.append(d_jk * d_kj)
    assert min(products) < 0 < max(products)
    logs = {pair: np.log(own) for pair, own in left_out.items()}
    found = by_weights(np.log(weights), returns, sizes, logs)
    assert found == pytest.approx(2 * sum(product for product in products if product > 0), rel=1e-9)


def test_what_folds_teach_each_other_doubles_the_variance_where_nothing_is_to_be_gained() -> None:
    """Two actions alike in ten kinds of cases; policies lean to what did better there in the other folds."""
    rng = np.random.default_rng(1)
    n, folds, kinds = 400, 5, 10
    fold_of, kind = np.arange(n) * folds // n, np.arange(n) % kinds
    sizes = np.bincount(fold_of).tolist()
    gains, plain, shared = [], [], []
    for _ in range(400):
        sign, returns = rng.choice([-1.0, 1.0], n), rng.normal(size=n)
        sums = np.zeros((folds, kinds))
        np.add.at(sums, (fold_of, kind), sign * returns)

        def weights(fold: int, *left_out: int, sign: FloatArray = sign, sums: FloatArray = sums) -> FloatArray:
            taught = np.delete(sums, left_out, axis=0).sum(axis=0)
            own = fold_of == fold
            return np.asarray(1 + np.clip(0.05 * taught, -0.9, 0.9)[kind[own]] * sign[own])

        pooled = np.concatenate([weights(fold, fold) for fold in range(folds)])
        left_out = {
            (j, k): np.log(np.concatenate([weights(j, j, k), weights(k, j, k)]))
            for j, k in itertools.combinations(range(folds), 2)
        }
        value = pooled @ returns / pooled.sum()
        influence = pooled * (returns - value) / pooled.mean() - (returns - returns.mean())
        gains.append(value - returns.mean())
        plain.append(influence @ influence / n**2)
        shared.append(by_weights(np.log(pooled), returns, sizes, left_out))
    assert 1.6 < np.var(gains) / np.mean(plain) < 2.5  # a degenerate U-statistic: 2
    assert 0.8 < np.mean(shared) / np.mean(plain) < 2.0  # the positive products alone: somewhat more than it takes
    assert np.mean(np.array(gains) > 1.645 * np.sqrt(plain)) > 0.1
    assert np.mean(np.array(gains) > 1.645 * np.sqrt(np.add(plain, shared))) < 0.07


def test_the_bound_of_a_study_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything learned again here: without one fold, and without two; by weights alone, and without tails."""
    with monkeypatch.context() as patched:
        patched.setattr(shown_gain, "tail_of", lambda ways, evidence: NO_TAIL)
        patched.setattr(Episodes, "controlled", lambda self, evidence, folds: evidence)
        better = learn(coins(300, effect=0.5))
    logs, point = coins(300, effect=0.5), better.points[3]
    assert point.path_id.startswith("fittedq")
    fold_of, n = fold_numbers(logs, 3, seed=0), 300
    seed = better.settings.restart_seed(0)

    def weights(fold: int, *left_out: int) -> FloatArray:
        train = logs.take(np.flatnonzero(~np.isin(fold_of, left_out)))
        path = list(FITTED.build().fit_path(train, seed=seed))
        judged = logs.take(np.flatnonzero(fold_of == fold))
        return np.asarray(2 * path[point.number].policy.along(judged)[np.arange(judged.n_steps), judged.actions])

    pooled = [weights(fold, fold) for fold in range(3)]
    returns = [logs.rewards[fold_of == fold] for fold in range(3)]
    total = sum(own.sum() for own in pooled)
    value = sum(own @ r for own, r in zip(pooled, returns, strict=True)) / total
    assert point.metrics["sntis"] == pytest.approx(value)
    shared = 0.0
    for j, k in itertools.combinations(range(3), 2):
        changes = [(pooled[a] - weights(a, j, k)) @ (returns[a] - value) / total for a in (j, k)]
        shared += 2 * max(changes[0] * changes[1], 0)
    mean = logs.rewards.mean()
    d = [n * own * (r - value) / total - (r - mean) for own, r in zip(pooled, returns, strict=True)]
    error = np.sqrt(np.square(np.concatenate(d)).sum()) / n
    factor = np.sqrt(1 + shared / error**2)
    assert factor > 1.05
    assert point.metrics["folds_factor"] == pytest.approx(factor, rel=1e-9)
    gain, low, shown = (point.metrics[name] for name in ("gain", "gain_low", "shown"))
    assert gain is not None
    assert low is not None
    assert shown is not None
    assert (gain - low) / error > 1.645  # one-sided 95%, and a little for what is not normal
    assert (gain - low) / error < 1.8
    # All points are widened alike by the max-t, each by what its own folds share.
    other = next(p for p in better.points if p.path_id == point.path_id and p.number == 9)
    widened = [
        (p.metrics["gain"] - p.metrics["shown"])  # type: ignore[operator]
        / (p.metrics["gain"] - p.metrics["gain_low"])  # type: ignore[operator]
        / p.metrics["folds_factor"]
        for p in (point, other)
    ]
    assert widened[0] == pytest.approx(widened[1], rel=1e-9)
    assert widened[0] > 1


def test_the_bound_by_control_variates_by_hand(better: Study) -> None:
    """What values foresee is taken out; the share of it in each fold is the best in the two others."""
    point = next(p for p in better.points if p.metrics["controlled"] is not None)
    store, fold_of = better.store, fold_numbers(coins(300, effect=0.5), 3, seed=0)
    sizes = [int((fold_of == fold).sum()) for fold in range(3)]
    folds = [np.asarray(store.held_out(f"{point.path_id}-{fold}").controls)[point.number] for fold in range(3)]

    def share(fold: int) -> float:
        plain, control = np.concatenate([folds[other] for other in range(3) if other != fold], axis=1)
        return float(np.clip(-np.cov(plain, control)[0, 1] / np.var(control, ddof=1), 0, 1))

    shares = [share(fold) for fold in range(3)]
    assert any(0 < own < 1 for own in shares)
    own = [folds[fold][0] + shares[fold] * folds[fold][1] for fold in range(3)]
    pooled = np.concatenate(own)
    assert point.metrics["controlled"] == pytest.approx(pooled.mean())
    shared = 0.0
    for number, (j, k) in enumerate(itertools.combinations(range(3), 2), start=3):
        other = np.asarray(store.held_out(f"{point.path_id}-{number}").controls)[point.number]
        parts = np.split(other, [sizes[j]], axis=1)
        changes = [
            (own[fold] - part[0] - shares[fold] * part[1]).sum() / 300 for fold, part in zip((j, k), parts, strict=True)
        ]
        shared += 2 * max(changes[0] * changes[1], 0)
    error = pooled.std() / np.sqrt(300)
    assert point.metrics["folds_factor"] == pytest.approx(np.sqrt(1 + shared / error**2), rel=1e-6)
    assert point.metrics["shown"] is not None
    assert point.metrics["shown"] < pooled.mean() - 1.645 * error


def test_the_record_says_what_was_done_and_on_which_runs_it_rests(better: Study) -> None:
    assert better.result is not None
    assert better.result.folds_error == "leave-two-out"
    assert len(without_two(better)) == 3  # of the best path alone
    assert set(without_two(better)) < set(better.result.runs)
    assert {run_id.partition("-")[0] for run_id in without_two(better)} == {"fittedq"}
    assert better.table().column("folds_factor").null_count < better.table().num_rows


def test_where_no_bound_is_above_zero_nothing_more_is_learned() -> None:
    study = learn(coins(200))
    assert study.keeps_logging_policy
    assert without_two(study) == []
    assert {point.metrics["folds_factor"] for point in study.points} == {None}
    assert study.result is not None
    assert study.result.folds_error == "leave-two-out"


def test_policies_that_are_the_same_are_learned_once() -> None:
    twins = [
        Candidate("fittedq", {"history": 0, "regressor": "ridge"}),
        Candidate("fittedq", {"history": 0, "regressor": "ridge", "backup": "max"}),
    ]
    study = learn(coins(300, effect=0.5), candidates=[*twins, Candidate("fittedq", {"history": 2})])
    assert len({point.path_id for point in study.points}) == 3
    assert len(without_two(study)) in (3, 6)  # two of the three at most: in one step memory makes no difference
    for number in (0, 5):
        bounds = [p.metrics["shown"] or 0.0 for p in study.points if p.number == number]
        assert max(bounds) == pytest.approx(min(bounds), abs=0.05)


def test_two_folds_take_the_worst_case_and_one_split_has_none() -> None:
    logs = coins(300, effect=1.0)
    halves, split = learn(logs, folds=2), learn(logs, folds=None, shares=(0.4, 0.4, 0.2))
    assert halves.choice.chosen is not None
    assert halves.choice.chosen.metrics["folds_factor"] == pytest.approx(np.sqrt(2))
    assert split.choice.chosen is not None
    assert split.choice.chosen.metrics["folds_factor"] is None
    assert halves.result is not None
    assert split.result is not None
    assert (halves.result.folds_error, split.result.folds_error) == ("doubled", "")


def test_the_runs_of_a_path_without_two_folds_are_one_file(better: Study, tmp_path: Path) -> None:
    runs = better.directory / "runs"
    (pairs,) = runs.glob("*-pairs.safetensors")
    alone = {run_id for run_id in better.all_runs if run_id not in without_two(better)}
    assert {path.name for path in runs.iterdir()} == {pairs.name, *(f"{run_id}.safetensors" for run_id in alone)}
    copy = tmp_path / "study"
    shutil.copytree(better.directory, copy)
    store = Store(copy)
    for run_id in without_two(better):  # as a kill leaves them, between the file of all and the end of their own
        (copy / "runs" / f"{run_id}.safetensors").write_bytes(store._content(run_id))
    before = {run_id: store.held_out(run_id).log_weights for run_id in without_two(better)}
    resumed = learn(coins(300, effect=0.5), out=copy, resume=True)
    assert {path.name for path in (copy / "runs").iterdir()} == {path.name for path in runs.iterdir()}
    for run_id, weights in before.items():
        np.testing.assert_array_equal(resumed.store.held_out(run_id).log_weights, weights)
        np.testing.assert_array_equal(better.store.held_out(run_id).log_weights, weights)
    assert (copy / "choice.json").read_bytes() == (better.directory / "choice.json").read_bytes()


@pytest.mark.parametrize("place", [0.02, 0.5, 0.99])
def test_a_changed_file_of_several_runs_is_noticed(better: Study, tmp_path: Path, place: float) -> None:
    copy = tmp_path / "study"
    shutil.copytree(better.directory, copy)
    (pairs,) = (copy / "runs").glob("*-pairs.safetensors")
    content = bytearray(pairs.read_bytes())
    content[int(place * len(content))] ^= 1
    pairs.write_bytes(content)
    with pytest.raises(InputError):
        read_all(copy)
    pairs.unlink()
    with pytest.raises(InputError, match="missing or were changed"):
        read_all(copy)


def read_all(directory: Path) -> None:
    """Open a study, and read all that its runs show."""
    study = Study.open(directory)
    for run_id in study.all_runs:
        study.store.held_out(run_id)


def test_what_cannot_be_learned_without_two_folds_takes_the_worst_case(monkeypatch: pytest.MonkeyPatch) -> None:
    learned_by = runs.learned_by

    def fails(tasks: list[Task], fold: Any) -> Any:
        return [Learned(error=PoelaError("no luck"))] if tasks[0].fold == 4 else learned_by(tasks, fold)

    monkeypatch.setattr(runs, "learned_by", fails)
    study = learn(coins(300, effect=1.0), candidates=[FITTED])
    assert study.choice.chosen is not None
    assert study.choice.chosen.metrics["folds_factor"] == pytest.approx(np.sqrt(2))
    assert study.result is not None
    assert study.result.folds_error == "doubled"


def test_a_budget_that_is_spent_takes_the_worst_case_until_the_study_goes_on(
    better: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, out = coins(300, effect=0.5), tmp_path / "study"
    late = iter([False] * 6 + [True] * 10_000)  # before each of six runs

    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: 1e9 if "inline" in caller() and next(late) else 0.0)
        study = learn(logs, out=out, time="60s")
    assert not study.left_out
    assert without_two(study) == []
    assert study.result is not None
    assert study.result.folds_error == "doubled"
    learn(logs, out=out, resume=True)
    for name in RESULTS:
        assert (out / name).read_bytes() == (better.directory / name).read_bytes()


def caller() -> str:
    """The function that asked for the time."""
    import sys

    return sys._getframe(2).f_code.co_name


@pytest.mark.parametrize("stopped", [0, 2])
def test_a_study_stopped_among_these_runs_goes_on(
    better: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: int
) -> None:
    logs, out = coins(300, effect=0.5), tmp_path / "study"
    learned_by, done = runs.learned_by, list[Task]()

    def stops(tasks: list[Task], fold: Any) -> Any:
        if (tasks[0].fold or 0) >= 3:
            if len(done) == stopped:
                raise KeyboardInterrupt
            done.append(tasks[0])
        return learned_by(tasks, fold)

    with monkeypatch.context() as patched:
        patched.setattr(runs, "learned_by", stops)
        with pytest.raises(KeyboardInterrupt):
            learn(logs, out=out)
    assert len(without_two(Study.open(out))) == stopped
    assert not (out / ".scratch").exists()
    learn(logs, out=out, resume=True)
    for name in RESULTS:
        assert (out / name).read_bytes() == (better.directory / name).read_bytes()


def test_worker_processes_come_to_the_same(better: Study, tmp_path: Path) -> None:
    learn(coins(300, effect=0.5), out=tmp_path / "study", backend="local", jobs=2)
    for name in RESULTS:
        assert (tmp_path / "study" / name).read_bytes() == (better.directory / name).read_bytes()


def test_results_of_before_are_read(better: Study, tmp_path: Path) -> None:
    import shutil

    out = tmp_path / "study"
    shutil.copytree(better.directory, out)
    document = json.loads((out / "choice.json").read_text())
    del document["folds_error"], document["checksum"]
    for point in document["points"]:
        del point["metrics"]["folds_factor"]
    document["checksum"] = sha256(canonical(document))
    (out / "choice.json").write_text(json.dumps(document))
    study = Study.open(out)
    assert study.result is not None
    assert study.result.folds_error == ""
    assert study.gain == better.gain
    assert study.table().column("folds_factor").null_count == study.table().num_rows


def settings(**more: Any) -> StudySettings:
    return StudySettings.checked([CONSENSUS], folds=4, shares=None, **more)


def test_two_folds_held_out_have_the_propensities_of_their_own_folds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 200
    x = rng.normal(size=(n, 1))
    actions = (rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int64)
    clusters = np.arange(n) // 2
    logs = Trajectories(x, actions, rng.normal(size=n), np.arange(n + 1), clusters=clusters)
    splits = splits_of(logs, None, None, settings(behavior="multinomial"), tmp_path)
    assert splits.fold_of is not None
    fold = splits.pair_data(1, 3, settings())
    assert isinstance(fold.held_out, Trajectories)
    expected = np.concatenate([np.asarray(splits.folds[number].parts[1].logging_probabilities) for number in (1, 3)])  # type: ignore[union-attr]
    np.testing.assert_array_equal(fold.held_out.propensities, expected)
    assert fold.held_out.estimated
    assert fold.train.estimated
    held_out, train = fold.held_out.contexts[:, 0], fold.train.contexts[:, 0]
    np.testing.assert_array_equal(held_out[: (splits.fold_of == 1).sum()], np.float32(x[splits.fold_of == 1, 0]))
    assert set(held_out) | set(train) == set(x[:, 0].astype(np.float32))
    assert not set(held_out) & set(train)
    units = [set(clusters[np.isin(np.float32(x[:, 0]), part)]) for part in (held_out, train)]
    assert not units[0] & units[1]
    assert fold.judging.times == pytest.approx(2 / 3)


def test_real_valued_actions_have_it_too() -> None:
    rng = np.random.default_rng(3)
    n = 300
    x, noise = rng.normal(size=(n, 1)), rng.normal(size=n)
    actions = 0.5 * x[:, 0] + noise
    rewards = 1.0 * actions + 0.5 * rng.normal(size=n)
    densities = -0.5 * noise**2 - 0.5 * np.log(2 * np.pi)
    logs = Trajectories(x, actions[:, None], rewards, np.arange(n + 1), log_densities=densities)
    candidates = [Candidate("continuouspoela", {"steps": 30, "hidden": (), "least_ess": 60.0, "device": "cpu"})]
    study = learn(logs, candidates=candidates, restarts=1)
    chosen = study.choice.chosen
    assert chosen is not None
    assert chosen.metrics["folds_factor"] is not None
    assert chosen.metrics["folds_factor"] >= 1
    assert study.result is not None
    assert study.result.folds_error == "leave-two-out"
    assert fold_errors.LEAST == 3
