"""`evaluate`: what goes in is checked, what comes out can be read, kept and believed."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import poela
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.evaluate import evaluate
from poela.stats.intervals import INTERVALS
from poela.stats.verdict import TrustThresholds


class Chooser(Memoryless):
    """Takes action 1 with probability p."""

    def __init__(self, p: float, **known: Any) -> None:
        self.p = p
        for name, value in known.items():
            setattr(self, name, value)

    def probabilities(self, contexts: Any) -> FloatArray:
        return np.tile([1 - self.p, self.p], (len(contexts), 1))


def ragged_logs(n: int = 60, seed: int = 0, full: bool = True) -> Trajectories:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, size=n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = int(offsets[-1])
    actions = rng.integers(2, size=steps)
    return Trajectories(
        rng.normal(size=(steps, 2)),
        actions,
        rng.normal(size=steps) + actions,
        offsets,
        propensities=np.full((steps, 2), 0.5) if full else np.full(steps, 0.5),
        feature_names=["age", "sofa"],
        action_names=["wait", "treat"],
    )


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "direct"])
def test_every_estimator_works_on_ragged_episodes_with_an_interval(name: str) -> None:
    estimate = evaluate(Chooser(0.6), ragged_logs(), estimator=name, interval="bca", resamples=200)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.n_episodes == 60
    assert estimate.estimator == name


def test_a_plain_object_with_probabilities_is_enough() -> None:
    class Plain:
        def probabilities(self, contexts: Any) -> list[list[float]]:
            return [[0.4, 0.6]] * len(contexts)

    logs = ragged_logs()
    assert evaluate(Plain(), logs, interval=None).value == evaluate(Chooser(0.6), logs, interval=None).value


def test_five_thousand_steps_with_identical_policies_stay_exact() -> None:
    # Peers multiply probabilities, and have NaN after 800 steps.
    steps = 5000
    rewards = np.arange(2.0 * steps)
    actions = np.arange(2 * steps) % 2
    logs = Trajectories(np.zeros((2 * steps, 1)), actions, rewards, [0, steps, 2 * steps], np.full((2 * steps, 2), 0.5))
    for name in ("is", "snis", "sntis", "pdis", "cwpdis"):
        estimate = evaluate(Chooser(0.5), logs, estimator=name, interval=None)
        assert estimate.value == pytest.approx(rewards.sum() / 2, rel=1e-14), name
        assert estimate.ess == 2, name


def test_effective_sample_size_of_200_equal_weights_is_200() -> None:
    # A peer says 7.
    logs = Trajectories(np.zeros((200, 1)), np.zeros(200, int), np.ones(200), np.arange(201), np.full((200, 2), 0.5))
    estimate = evaluate(Chooser(0.3), logs, interval=None)
    assert estimate.ess == 200
    assert estimate.diagnostics.largest_share == pytest.approx(1 / 200)


def test_the_published_bounds_are_the_ninety_percent_interval() -> None:
    logs = ragged_logs()
    wide = evaluate(Chooser(0.6), logs, interval="bca", level=0.95, resamples=500)
    narrow = evaluate(Chooser(0.6), logs, interval="bca", level=0.90, resamples=500)
    assert wide.low is not None
    assert wide.high is not None
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_same_seed_same_bits() -> None:
    logs = ragged_logs()
    one = evaluate(Chooser(0.6), logs, estimator="wdr", interval="bca", resamples=100, seed=3)
    other = evaluate(Chooser(0.6), logs, estimator="wdr", interval="bca", resamples=100, seed=3)
    assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())


def test_clusters_are_the_unit_of_resampling() -> None:
    logs = ragged_logs(n=30)
    copies = logs.take(np.repeat(np.arange(30), 4))
    patients = np.repeat([f"patient {i:02}" for i in range(30)], 4)
    alone = evaluate(Chooser(0.6), logs, interval="bca", resamples=400)
    together = evaluate(Chooser(0.6), copies, interval="bca", resamples=400, clusters=patients)
    assert together.value == pytest.approx(alone.value)
    assert together.low == pytest.approx(alone.low)
    assert together.high == pytest.approx(alone.high)


def test_a_policy_of_the_history_is_asked_along_the_episodes() -> None:
    class AfterTreatment(Memoryless):
        def probabilities(self, contexts: Any) -> FloatArray:
            raise AssertionError("loose contexts carry no history")

        def along(self, trajectories: Any) -> FloatArray:
            before = np.r_[0, trajectories.actions[:-1]]
            before[trajectories.offsets[:-1]] = 0
            return np.where(before[:, None] == 1, [0.8, 0.2], [0.5, 0.5])

    assert np.isfinite(evaluate(AfterTreatment(), ragged_logs(), interval=None).value)


def test_a_policy_that_takes_none_of_the_logged_actions_gets_no_number() -> None:
    logs = Trajectories(np.zeros((20, 1)), np.zeros(20, int), np.ones(20), np.arange(21), np.full((20, 2), 0.5))
    estimate = evaluate(Chooser(1.0), logs)
    assert np.isnan(estimate.value)
    assert (estimate.low, estimate.high, estimate.ess) == (None, None, 0)
    assert "every weight is zero" in estimate.warnings[0]
    assert estimate.diagnostics.ineligible_steps == 20
    assert json.loads(json.dumps(estimate.to_dict(), allow_nan=False))["value"] is None


def test_weights_beyond_floating_point_are_said_to_be() -> None:
    steps = 1100
    logs = Trajectories(
        np.zeros((steps, 1)), np.ones(steps, int), np.ones(steps), [0, 1, steps], np.full((steps, 2), 0.5)
    )
    estimate = evaluate(Chooser(1.0), logs, estimator="is")
    assert estimate.value == np.inf
    assert "exceed floating point" in estimate.warnings[0]
    assert np.isfinite(evaluate(Chooser(1.0), logs, interval=None).value)


def test_stranded_steps_are_counted_where_the_policy_knows_them() -> None:
    class Stranded(Chooser):
        def stranded(self, trajectories: Trajectories) -> Any:
            return trajectories.step_numbers == 0

    assert evaluate(Stranded(0.5), ragged_logs(), interval=None).diagnostics.stranded_steps == 60
    assert evaluate(Chooser(0.5), ragged_logs(), interval=None).diagnostics.stranded_steps is None


def test_smoothing_evaluates_the_mixture_with_the_logging_policy() -> None:
    logs = ragged_logs()
    mixed = evaluate(Chooser(1.0), logs, smoothing=0.2, interval=None)
    assert mixed.value == pytest.approx(evaluate(Chooser(0.9), logs, interval=None).value)
    assert "20% of the logging policy is mixed into this greedy policy" in mixed.warnings[0]
    stochastic = evaluate(Chooser(0.6), logs, smoothing=0.2, interval=None)  # is left as it is
    assert stochastic.to_dict() == evaluate(Chooser(0.6), logs, interval=None).to_dict()
    with pytest.raises(InputError, match="propensities of every action"):
        evaluate(Chooser(1.0), ragged_logs(full=False), smoothing=0.2)
    with pytest.raises(InputError, match="smoothing is 1"):
        evaluate(Chooser(1.0), logs, smoothing=1)


def test_models_alone_need_no_propensities() -> None:
    bare = ragged_logs().with_propensities(None)
    fitted = evaluate(Chooser(0.5), bare, estimator="fqe", interval="percentile", resamples=50)
    assert np.isfinite(fitted.value)
    assert np.isnan(fitted.ess)
    assert evaluate(None, bare, estimator="behavior", interval=None).value == pytest.approx(bare.returns().mean())


def test_the_text_says_value_interval_and_effective_sample_size() -> None:
    estimate = evaluate(Chooser(0.6), ragged_logs(), interval="bca", resamples=100)
    text = str(estimate)
    assert 0.1 <= estimate.standard_error < 1  # so that two decimals are its first two digits
    assert f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}] (95% bca)" in text
    assert f"ESS {estimate.ess:.0f} of 60" in text
    assert "[" not in str(evaluate(Chooser(0.6), ragged_logs(), interval=None)).splitlines()[0]


def test_the_verdict_comes_with_its_reasons() -> None:
    trusted = evaluate(Chooser(0.5), ragged_logs(n=200), interval=None)
    assert (trusted.verdict, trusted.warnings) == ("trust", ())
    assert "ESS 200 of 200" in trusted.reasons[0]
    strict = dataclasses.replace(TrustThresholds(), ess=(1e9, 1e9))
    doubted = evaluate(Chooser(0.5), ragged_logs(n=200), thresholds=strict, interval=None)
    assert doubted.verdict == "do not trust"
    assert doubted.warnings == doubted.reasons
    assert str(doubted).splitlines()[1:] == [
        "new - current = +0",
        "verdict: do not trust",
        *(f"- {reason}" for reason in doubted.reasons),
        f"next: {doubted.advice}",
    ]
    assert evaluate(Chooser(0.5), ragged_logs(), estimator="fqe", interval=None).verdict == "caution"


def test_an_estimate_survives_json() -> None:
    for interval in (None, "bca"):
        estimate = evaluate(Chooser(0.6), ragged_logs(), interval=interval, resamples=100)
        document = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
        back = Estimate.from_dict(document)
        assert back.to_dict() == document
        assert (back.value, back.low, back.warnings) == (estimate.value, estimate.low, estimate.warnings)


def test_all_problems_are_listed_at_once() -> None:
    bare = ragged_logs().with_propensities(None)
    with pytest.raises(InputError) as caught:
        evaluate(Chooser(0.5), bare, interval="magic carpet", discount=0, truncation=-1)
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    for part in ("interval is 'magic carpet'", "discount is 0", "truncation is -1"):
        assert part in text


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"feature_names": ("sofa", "age")}, "features in another order, first feature 'age'"),
        ({"feature_names": ("age", "sofa", "lactate")}, "1 missing .first 'lactate'., 0 unknown"),
        ({"feature_names": ("age",)}, "0 missing, 1 unknown .first 'sofa'."),
        ({"action_names": ("treat", "wait")}, "actions in another order"),
        ({"action_names": ("wait", "operate")}, "1 missing .first 'operate'., 1 unknown .first 'treat'."),
    ],
)
def test_logs_of_another_making_are_refused(known: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(Chooser(0.5, **known), ragged_logs(), interval=None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "oracle"}, "estimator is 'oracle': choose 'is', 'truncated_is', "),
        ({"estimator": "direct"}, "averages a model that you give"),
        ({"estimator": "wdr", "q": "forest"}, "regressor is 'forest'"),
        ({"clusters": [1, 2]}, "one unit for each of the 60 episodes"),
        ({"level": 1.5, "interval": "bca"}, "level is 1.5"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(Chooser(0.5), ragged_logs(), **settings)


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="no method probabilities"):
        evaluate(object(), ragged_logs())  # type: ignore[arg-type]


def test_public_names() -> None:
    assert poela.evaluate is evaluate
    assert poela.Estimate is Estimate
    assert "bca" in INTERVALS


def test_a_policy_on_its_own_logs_is_told_to_be_watched() -> None:
    class Coin:
        def probabilities(self, contexts: Any) -> Any:
            return np.full((len(contexts), 2), 0.5)

    rng = np.random.default_rng(0)
    columns = rng.normal(size=(200, 1)), rng.integers(0, 2, 200), rng.normal(size=200)
    logs = Trajectories(*columns, offsets=np.arange(201))
    estimate = evaluate(Coin(), logs.with_propensities(np.full((200, 2), 0.5)))
    assert "itself made these logs" in estimate.advice
    assert "poela watch" in estimate.advice
    other = evaluate(Coin(), logs.with_propensities(np.tile([0.4, 0.6], (200, 1))))
    assert "watch" not in other.advice
