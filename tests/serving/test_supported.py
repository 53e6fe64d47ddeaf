"""Policies under learned support, on logs with a hole: graphs, the server and MLflow decide as the policy does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.serving.episodes import FEATURES, graph_inputs, random_episodes
from tests.serving.policies import GRADIENT, LOOKING_BACK, MULTINOMIAL, VALUES, blend, last
from tests.serving.test_far_away import outputs
from tests.serving.test_serve import asked, named, served

from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.eligibility.support import fit_support
from poela.eligibility.support_model import SupportedBehavior
from poela.learners.consensus import Consensus
from poela.learners.fitted_q import FittedQ
from poela.learners.policy_gradient import POELA
from poela.learners.q_learning import BCQ
from poela.learners.rules import Rules
from poela.learners.safe_improvement import SPIBB
from poela.policies.ruled import softmax
from poela.serving.pyfunc import save_mlflow
from poela.studies.defaults import SUPPORTED

DEFAULT: dict[str, Any] = dict(SUPPORTED)
RULE = Eligibility(**DEFAULT)
ACTIONS = ("wait", "low", "high")


def holed(propensities: str, episodes: int = 600, length: int = 1) -> Trajectories:
    """Nobody with more than 2.5 in the second feature ever gets "high"; elsewhere every action is common."""
    rng = np.random.default_rng(5)
    n = episodes * length
    contexts = np.stack([rng.normal(size=n), rng.integers(0, 5, n), rng.gamma(2.0, size=n)], axis=1)
    scores = np.stack([np.zeros(n), 0.5 * contexts[:, 0], np.where(contexts[:, 1] > 2.5, -np.inf, 0.4)], axis=1)
    chances = softmax(scores, np.ones((n, 3), bool))
    actions = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    known = {"hidden": None, "own": chances[np.arange(n), actions], "all": chances}[propensities]
    rewards = actions * (1 - contexts[:, 1] / 2) + rng.normal(size=n)
    offsets = np.arange(0, n + 1, length)
    logs = Trajectories(contexts, actions, rewards, offsets, known, feature_names=FEATURES, action_names=ACTIONS)
    return MULTINOMIAL.fit(logs).annotate(logs) if known is None else logs  # as a study does


LEARNED: dict[str, Callable[[Trajectories, Eligibility, Any], Any]] = {
    "fittedq": lambda train, rule, behavior: last(FittedQ(rule=rule, history=0), train, behavior, place=3),
    "fittedq, greedy": lambda train, rule, behavior: last(FittedQ(rule=rule, history=0), train, behavior),
    "consensus": lambda train, rule, behavior: last(Consensus(rule=rule), train, behavior),
    "poela": lambda train, rule, behavior: _network(train, rule, behavior),
    "poela, blended": lambda train, rule, behavior: blend(POELA(**DEFAULT, **GRADIENT), train, behavior),
    "bcq": lambda train, rule, behavior: last(BCQ(threshold=0.05, rule=rule, **VALUES), train, behavior),
    "bcq, mixed": lambda train, rule, behavior: blend(BCQ(threshold=0.05, rule=rule, **VALUES), train, behavior),
    "spibb": lambda train, rule, behavior: last(SPIBB(rule=rule), train, behavior),
}


def _network(train: Trajectories, rule: Eligibility, behavior: Any) -> Any:
    learned = last(POELA(**DEFAULT, **GRADIENT), train, behavior)
    return replace(learned, eligibility=rule.fit(train, None if behavior is None else behavior.fit(train, seed=0)))


def same_in_a_graph(policy: Any, train: Trajectories, path: Path) -> Any:
    episodes = random_episodes(train, 3000)
    found = outputs(policy, graph_inputs(episodes), path)
    eligible = policy.eligibility.along(episodes)
    np.testing.assert_allclose(found["probabilities"], policy.along(episodes), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(found["defer"], eligible.stranded)
    assert 30 < eligible.stranded.sum() < 2000
    return episodes, found["probabilities"], eligible


@pytest.mark.parametrize("propensities", ["hidden", "own", "all"])
@pytest.mark.parametrize("name", LEARNED)
def test_a_graph_has_the_hole_of_its_policy(name: str, propensities: str, tmp_path: Path) -> None:
    train = holed(propensities)
    behavior = None if propensities == "all" else MULTINOMIAL
    policy = LEARNED[name](train, RULE, behavior)
    assert policy.eligibility.support is not None
    episodes, found, eligible = same_in_a_graph(policy, train, tmp_path / "policy.onnx")
    hole = (episodes.contexts[:, 1] > 2.9) & ~eligible.stranded
    assert hole.sum() > 300
    assert (found[hole, 2] == 0).mean() > 0.98


@pytest.mark.parametrize("name", [name for name in LEARNED if "blended" not in name and "mixed" not in name])
def test_a_graph_pays_the_price_of_its_policy(name: str, tmp_path: Path) -> None:
    train = holed("hidden")
    free, priced = (LEARNED[name](train, replace(RULE, price=price), MULTINOMIAL) for price in (0.0, 3.0))
    episodes, found, eligible = same_in_a_graph(priced, train, tmp_path / "policy.onnx")
    hole = (episodes.contexts[:, 1] > 2.9) & ~eligible.stranded
    before, after = free.along(episodes)[hole, 2].mean(), found[hole, 2].mean()
    assert after < 0.9 * before or before < 1e-6


def test_support_by_the_history_and_practice_within_it(tmp_path: Path) -> None:
    train = holed("hidden", episodes=150, length=4)
    episodes = random_episodes(train, 3000)
    for remembers in (False, True):
        behavior = MULTINOMIAL.fit(train)
        support = fit_support(train, 0.02, LOOKING_BACK.fit(train) if remembers else behavior)
        assert support is not None
        policy = SupportedBehavior(behavior, support)
        found = outputs(policy, graph_inputs(episodes), tmp_path / "policy.onnx")["probabilities"]
        np.testing.assert_allclose(found, policy.along(episodes), rtol=0, atol=1e-5)
        assert (support.needs == "history") == remembers
        train = holed("hidden", episodes=150, length=4)  # what is known of a log is not fitted again
    ruled = last(Consensus(rule=RULE), train, given=LOOKING_BACK.fit(train))
    assert ruled.needs == "history"
    same_in_a_graph(ruled, train, tmp_path / "policy.onnx")


def cases(train: Trajectories) -> pa.Table:
    rows = random_episodes(train, 60).contexts
    return pa.table({name: rows[:, place] for place, name in enumerate(FEATURES)})


def test_the_server_decides_as_the_policy(tmp_path: Path) -> None:
    train = holed("hidden")
    policy = LEARNED["poela"](train, RULE, MULTINOMIAL)
    table = cases(train)
    decided = policy.decide(table)
    asked_for = [{"id": row + 1, "step": 0, "features": features} for row, features in enumerate(table.to_pylist())]
    answer = asked(served(policy), "POST", "/v1/decide", json={"cases": asked_for}).json()["decisions"]
    for name in ("action", "defer"):
        assert [one[name] for one in answer] == decided[name].to_pylist()
    eligible = policy.eligibility.resolve(policy.checked(table))
    for row, cell in enumerate(decided["eligible"].to_pylist()):
        allowed = set() if eligible.stranded[row] else {ACTIONS[place] for place in np.flatnonzero(eligible.mask[row])}
        assert {part.split(":")[0] for part in cell.split("; ") if part} == allowed
        assert {one["action"] for one in answer[row]["eligible"]} == allowed
        barred = set() if eligible.stranded[row] else set(ACTIONS) - allowed
        assert {part for part in decided["barred"][row].as_py().split("; ") if part} == barred
        assert answer[row]["barred"] == decided["barred"][row].as_py()
    assert "high" in decided["barred"].to_pylist()  # which nobody like that received


def test_what_a_policy_bars_and_what_support_bars_stand_together() -> None:
    """In the hole "high" is barred for want of support, everywhere "wait" by the policy itself."""
    train = holed("all")
    said = next(policy for policy, note, _ in Rules(rule=RULE).policies(train, 0, None) if note == "never wait")
    decided = said.decide(cases(train))
    hole = np.asarray(decided[FEATURES[1]]) > 2.9
    told = np.array(decided["barred"].to_pylist())[~np.asarray(decided["defer"])]
    hole = hole[~np.asarray(decided["defer"])]
    assert set(told[hole]) == {"wait; high"}
    assert "wait" in set(told[~hole])
    assert all(cell == "" for cell in np.array(decided["barred"].to_pylist())[np.asarray(decided["defer"])])


@pytest.mark.filterwarnings("ignore")  # of mlflow's own
def test_an_mlflow_model_decides_as_the_policy(tmp_path: Path) -> None:
    import mlflow
    import pandas as pd

    train = holed("all")
    policy = LEARNED["consensus"](train, RULE, None)
    save_mlflow(policy, tmp_path / "model")
    table = cases(train).to_pandas()
    table["case"] = [f"case {row}" for row in range(len(table))]
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(table)
    pd.testing.assert_frame_equal(found, policy.decide(table).to_pandas())


def test_an_explanation_says_what_similar_cases_received() -> None:
    train = holed("hidden")
    policy = LEARNED["fittedq"](train, RULE, MULTINOMIAL)
    context = train.contexts[3]
    case = {"features": named(context), "step": 0}
    answer = asked(served(policy), "POST", "/v1/explain", json={"cases": [case]}).json()
    told = policy.eligibility.explain(context, k=0)
    for one, expected in zip(answer["actions"], told.actions, strict=True):
        assert (one["action"], one["eligible"]) == (expected.action, expected.eligible)
        assert one["received"] == pytest.approx(expected.received, abs=1e-12)
        assert one["usually"] == pytest.approx(float((train.actions == ACTIONS.index(one["action"])).mean()))
    plain = last(FittedQ(rule=Eligibility(radius="q95"), history=0), train, MULTINOMIAL, place=3)
    answer = asked(served(plain), "POST", "/v1/explain", json={"cases": [case]}).json()
    assert all(one["received"] is one["usually"] is None for one in answer["actions"])
