"""Exported graphs are the policies: the same probabilities, at logged contexts, far from all, and at the radius."""

import json
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from tests.serving.episodes import ACTIONS, FEATURES, graph_inputs, logs, random_episodes
from tests.serving.policies import BOOSTED, CLONE, GRADIENT, KNN, MULTINOMIAL, NEAR, POLICIES, last

from poela.behavior.clone import RecurrentCloneBehavior
from poela.behavior.history import HistoryBehavior
from poela.cli import main
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.consensus import Consensus
from poela.learners.fitted_q import FittedQ
from poela.learners.policy_gradient import POCRM, POELA
from poela.learners.safe_improvement import SoftSPIBB
from poela.policies.mixture import EpisodeMixture
from poela.policies.saving import plain
from poela.policies.storage import load_policy
from poela.serving.export import export_onnx
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.study import Study

ROWS_AT_A_TIME = 1000


def session(policy: Any, path: Path, **settings: Any) -> Any:
    export_onnx(policy, path, **settings)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def answers(graph: Any, given: dict[str, Any]) -> FloatArray:
    asked = {one.name: one.shape for one in graph.get_inputs()}
    lags = asked.get("previous_actions", [0, 0])[1]
    history = {name: given[name][:, :lags] for name in ("previous_contexts", "previous_actions") if name in given}
    whole: dict[str, Any] = given | history
    parts = [
        graph.run(None, {name: whole[name][start : start + ROWS_AT_A_TIME] for name in asked})[0]
        for start in range(0, len(given["contexts"]), ROWS_AT_A_TIME)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", POLICIES)
def test_a_graph_is_its_policy(name: str, tmp_path: Path) -> None:
    train = logs()
    policy = POLICIES[name](train)
    episodes = random_episodes(train)
    found = answers(session(policy, tmp_path / "policy.onnx"), graph_inputs(episodes))
    expected = policy.along(episodes)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    rule = getattr(policy, "eligibility", None)
    if rule is not None:
        eligible = rule.along(episodes)
        assert (found[~eligible.mask & (expected == 0)] == 0).all()
        assert rule.radius is None or 100 < eligible.n_stranded < 9000


def test_actions_drawn_outside_a_graph_are_those_that_decide_draws(tmp_path: Path) -> None:
    """As the guide to serving does it: five lines, from the hash in the metadata, the case and its step."""
    train = logs()
    policy, episodes = POLICIES["fittedq"](train), random_episodes(train, 2000)
    graph = session(policy, tmp_path / "policy.onnx")
    probabilities = answers(graph, graph_inputs(episodes))
    about = graph.get_modelmeta().custom_metadata_map
    names, seed = json.loads(about["action_names"]), about["policy_sha256"][:16]

    def drawn(chances: Any, case: object, step: object) -> Any:
        digest = blake2b(f"{seed}\n{case}\n{step}".encode(), digest_size=8).digest()
        uniform = (int.from_bytes(digest, "little") >> 11) / 2**53
        return names[int((np.cumsum(chances) <= uniform * np.sum(chances)).sum())]

    keys = {"episode": [f"e{one}" for one in episodes.episode_of_step], "step": episodes.step_numbers}
    columns = {name: episodes.contexts[:, place] for place, name in enumerate(FEATURES)}
    acted = {"action": [ACTIONS[one] for one in episodes.actions]}
    decided = policy.decide(pa.table({**keys, **columns, **acted}))
    named: Any = keys
    rows = zip(probabilities, named["episode"], named["step"], decided["defer"].to_pylist(), strict=True)
    assert decided["action"].to_pylist() == [None if defer else drawn(*row) for *row, defer in rows]
    assert about["policy_sha256"] == policy.content_hash


@pytest.mark.parametrize("regressor", ["ridge", "boosted"])
def test_graphs_of_single_decisions_ask_for_nothing_but_contexts(regressor: Any, tmp_path: Path) -> None:
    train = logs(300, length=1)
    policy: Any = last(FittedQ(rule=NEAR, regressor=regressor), train, MULTINOMIAL, place=3)
    assert (policy.history, policy.needs) == (None, "context")
    graph = session(policy, tmp_path / "policy.onnx")
    assert [one.name for one in graph.get_inputs()] == ["contexts"]
    contexts = random_episodes(train, 1000).contexts
    alone = Trajectories(contexts, np.zeros(1000, int), np.zeros(1000), np.arange(1001), n_actions=3)
    np.testing.assert_allclose(answers(graph, {"contexts": contexts}), policy.probabilities(contexts), atol=1e-5)
    np.testing.assert_array_equal(policy.probabilities(contexts), policy.along(replace(alone, feature_names=FEATURES)))


def test_discrete_logs_with_many_equally_near_contexts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    train = Trajectories(
        rng.integers(0, 4, (600, 3)),
        rng.integers(3, size=600),
        np.zeros(600),
        np.arange(0, 601, 6),
        rng.dirichlet(np.ones(3), size=600),
    )
    near = Eligibility(radius=0.5, scale="standard")
    policies = [last(Consensus(rule=near), train), KNN.fit(train), HistoryBehavior(KNN).fit(train)]
    half_way = Trajectories(
        rng.integers(-4, 12, (10_000, 3)) / 2, rng.integers(3, size=10_000), np.zeros(10_000), np.arange(0, 10_001, 5)
    )
    for number, policy in enumerate(policies):
        found = answers(session(policy, tmp_path / f"{number}.onnx"), graph_inputs(half_way))
        np.testing.assert_allclose(found, policy.along(half_way), rtol=0, atol=1e-5)


@pytest.mark.parametrize("metric", ["mean_squared", "euclidean"])
def test_contexts_at_the_radius_and_just_beyond_it(metric: str, tmp_path: Path) -> None:
    train, rng = logs(), np.random.default_rng(3)
    rows = (train.contexts[:300] + rng.normal(size=(300, 3)) * 0.5).astype(np.float32)
    distances = Eligibility(radius=1.0, scale="standard", metric=metric).fit(train).distances(rows)
    network = last(POCRM(**GRADIENT), train)
    sides = []
    for row in range(40):
        # The radius is one context's distance to its nearest logged one with some action, to the last bit.
        rule = Eligibility(radius=float(distances[row, row % 3]), scale="standard", metric=metric).fit(train)
        policy = replace(network, eligibility=rule)
        # That context, and the same one moved by as little as float32 can.
        ways = rng.choice(np.array([-np.inf, np.inf], np.float32), size=(200, 3))
        moved = np.nextafter(rows[row], ways)
        given = np.vstack([rows[row : row + 1], moved, rows])
        found = answers(session(policy, tmp_path / f"{row}.onnx"), {"contexts": given})
        expected = policy.probabilities(given)
        assert expected[0, row % 3] > 0
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        sides.append(rule.mask(moved)[:, row % 3].mean())
    assert 0.2 < np.mean(sides) < 0.8


def test_one_context_at_a_time_is_answered_as_all_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(2, 11)).astype(np.float32)  # one logged context for each action
    train = Trajectories(contexts, [0, 1], [0, 0], [0, 1, 2], np.full((2, 2), 0.5))
    rows = rng.normal(size=(300, 11)).astype(np.float32)
    for row in range(20):
        rule = Eligibility(radius=float(Eligibility(radius=1.0).fit(train).distances(rows)[row, 0])).fit(train)
        policy = replace(last(Consensus(), train), eligibility=rule)
        graph = session(policy, tmp_path / f"{row}.onnx")
        singly = np.concatenate([graph.run(None, {"contexts": one[None]})[0] for one in rows])
        np.testing.assert_array_equal(singly, graph.run(None, {"contexts": rows})[0])
        np.testing.assert_allclose(singly, policy.probabilities(rows), rtol=0, atol=1e-5)


def test_large_offsets_lose_no_digits(tmp_path: Path) -> None:
    """A feature such as a year or an id, whose size is large beside its differences."""
    train = logs()
    shifted = Trajectories(
        train.contexts + np.array([0, 4e5, 0], np.float32),
        train.actions,
        train.rewards,
        train.offsets,
        train.propensities,
    )
    policy = last(Consensus(rule=Eligibility(radius=0.02)), shifted)
    episodes = random_episodes(shifted)
    found = answers(session(policy, tmp_path / "policy.onnx"), graph_inputs(episodes))
    np.testing.assert_allclose(found, policy.along(episodes), rtol=0, atol=1e-5)


BEHAVIORS = {"multinomial": MULTINOMIAL, "knn": KNN, "boosted": BOOSTED, "clone": CLONE}


@pytest.mark.parametrize("name", BEHAVIORS)
def test_actions_that_were_never_logged(name: str, tmp_path: Path) -> None:
    train = logs()
    few = Trajectories(train.contexts, np.minimum(train.actions, 1), train.rewards, train.offsets, n_actions=4)
    episodes = random_episodes(few)
    policy = last(Consensus(rule=NEAR), few, given=BEHAVIORS[name].fit_quietly(few, 0))
    found = answers(session(policy, tmp_path / "few.onnx"), graph_inputs(episodes))
    np.testing.assert_allclose(found, policy.along(episodes), rtol=0, atol=1e-5)
    assert (found[:, 2:] == 0).all()
    one = Trajectories(train.contexts, np.ones(train.n_steps), train.rewards, train.offsets, n_actions=3)
    model = BEHAVIORS[name].fit_quietly(one, 0)
    assert (answers(session(model, tmp_path / "one.onnx"), graph_inputs(episodes)) == [0, 1, 0]).all()


def test_what_a_graph_says_about_itself(tmp_path: Path) -> None:
    policy = last(POELA(radius="q90", **GRADIENT), logs())
    graph = session(policy, tmp_path / "policy.onnx", findings={"verdict on the estimate": "trust"})
    told = graph.get_modelmeta().custom_metadata_map
    assert json.loads(told["feature_names"]) == list(FEATURES)
    assert json.loads(told["action_names"]) == list(ACTIONS)
    assert json.loads(told["findings"]) == {"verdict on the estimate": "trust"}
    assert json.loads(told["contains_logged_contexts"]) is True
    assert list(json.loads(told["inputs"])) == ["contexts"]
    policy.save(tmp_path / "policy")
    again = session(load_policy(tmp_path / "policy"), tmp_path / "again.onnx")
    assert again.get_modelmeta().custom_metadata_map["policy_sha256"] == told["policy_sha256"]
    assert told["policy_sha256"] in (tmp_path / "policy" / "MODEL_CARD.md").read_text()
    other = session(last(POELA(radius="q80", **GRADIENT), logs()), tmp_path / "other.onnx")
    assert other.get_modelmeta().custom_metadata_map["policy_sha256"] != told["policy_sha256"]


def test_a_cover_is_smaller_and_equal_to_the_policy_of_the_cover(tmp_path: Path) -> None:
    train = logs()
    policy = last(POELA(radius="q99", **GRADIENT), train)
    whole = session(policy, tmp_path / "whole.onnx")
    cover = session(policy, tmp_path / "cover.onnx", include_contexts="cover")
    assert (tmp_path / "cover.onnx").stat().st_size < (tmp_path / "whole.onnx").stat().st_size
    policy.save(tmp_path / "cover", include_contexts="cover")
    given = graph_inputs(random_episodes(train))
    expected = load_policy(tmp_path / "cover").probabilities(given["contexts"])
    np.testing.assert_allclose(answers(cover, given), expected, rtol=0, atol=1e-5)
    assert not np.allclose(answers(whole, given), expected)


def test_what_cannot_be_exported_is_said_in_words(tmp_path: Path) -> None:
    train = logs()
    recurrent = RecurrentCloneBehavior(hidden=(4,), steps=2, device="cpu").fit(train)
    network = last(POCRM(**{**GRADIENT, "network": "gru", "hidden": (4,)}), train)
    soft = last(SoftSPIBB(rule=NEAR), train, MULTINOMIAL)

    class Own:
        def probabilities(self, contexts: Any) -> FloatArray:
            return np.full((len(contexts), 3), 1 / 3)

    for policy, words in {
        recurrent: "remembers the whole episode; learn with another behavior model",
        network: "a recurrent policy cannot be exported to ONNX: it remembers the whole episode",
        soft: "soft SPIBB cannot be exported to ONNX",
        EpisodeMixture((network,)): "export the recommended policy",
        Own(): "Own cannot be exported to ONNX",
        last(Consensus(), train, given=recurrent): "remembers the whole episode",
    }.items():
        with pytest.raises(InputError, match=words):
            export_onnx(policy, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    policy = last(POCRM(**GRADIENT), logs())
    (tmp_path / "mine.onnx").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export_onnx(policy, tmp_path / "mine.onnx")
    assert (tmp_path / "mine.onnx").read_text() == "mine"
    export_onnx(policy, tmp_path / "mine.onnx", overwrite=True)
    assert onnxruntime.InferenceSession(tmp_path / "mine.onnx").get_inputs()[0].name == "contexts"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of coins: two actions, of which the second one pays, so that something is recommended."""
    rng = np.random.default_rng(0)
    n = 400
    actions = rng.integers(2, size=n)
    train = Trajectories(
        rng.normal(size=(n, 2)),
        actions,
        actions + 0.3 * rng.normal(size=n),
        np.arange(n + 1),
        np.full((n, 2), 0.5),
        feature_names=("age", "<b>"),
        action_names=("wait", "treat"),
    )
    folder = tmp_path_factory.mktemp("study") / "study"
    learn(train, out=folder, candidates=[Candidate("fittedq", {"history": 0})], folds=3, backend="inline")
    return folder


def test_a_study_is_exported_with_what_it_found(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Study.open(study)
    assert not found.keeps_logging_policy
    assert main(["export", str(study), "--onnx", str(tmp_path / "policy.onnx"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["findings"]["answer"] == found.answer.headline
    assert told["findings"]["verdict on the estimate"] == "trust"
    assert list(told["inputs"]) == ["contexts"]  # these are single decisions
    graph = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    contexts = np.random.default_rng(1).normal(size=(1000, 2)).astype(np.float32)
    expected = found.policy.probabilities(contexts)
    np.testing.assert_allclose(graph.run(None, {"contexts": contexts})[0], expected, rtol=0, atol=1e-5)
    card = (study / "policy" / "MODEL_CARD.md").read_text()
    assert plain(found.answer.headline) in card
    assert "verdict on the estimate: trust" in card
    assert "<b>" not in card
    assert main(["export", str(study), "--onnx", str(tmp_path / "policy.onnx")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["export", str(study / "promising"), "--onnx", str(tmp_path / "promising.onnx"), "--cover"]) == 0
    assert "contexts: the features of each case" in capsys.readouterr().out
    assert found.result is not None
    other = found.result.promising != found.result.chosen
    assert ("Try it only where that is safe" in (study / "promising" / "MODEL_CARD.md").read_text()) == other


def test_a_study_that_recommends_nothing_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    train = Trajectories(
        rng.normal(size=(60, 2)), rng.integers(2, size=60), rng.normal(size=60), np.arange(61), np.full((60, 2), 0.5)
    )
    candidates = [Candidate("consensus")]
    learn(train, out=tmp_path / "study", candidates=candidates, folds=3, backend="inline")
    assert main(["export", str(tmp_path / "study"), "--onnx", str(tmp_path / "policy.onnx")]) == 2
    assert "carry on as before" in capsys.readouterr().err
    assert not (tmp_path / "policy.onnx").exists()
