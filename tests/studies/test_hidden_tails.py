"""A tail of losses that what contexts foresee hides: neither shown by a study, nor trusted by `evaluate`."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.controlled import Controlled
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence
from poela.evaluation.scoring import Scoring
from poela.evaluation.tails import Tail, gains_of, tail_of, ways_of
from poela.stats.bounds import against_tail
from poela.stats.diagnostics import OutsideSupport
from poela.stats.gain import Gain
from poela.stats.verdict import TAIL
from poela.stats.weights import LogWeights
from poela.studies.held_out import Episodes
from poela.studies.shown_gain import Proving, judged


class Second:
    """Always the second action."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        return np.tile([0.0, 1.0], (len(contexts), 1))


def _with_a_tail(seed: int, n: int = 400) -> Trajectories:
    """The second action is mostly a little better and rarely much worse: no better on average."""
    rng = np.random.default_rng(seed)
    x, arm = rng.normal(size=(n, 4)), (rng.random(n) < 0.2).astype(int)
    loss = rng.lognormal(sigma=1.5, size=n) - np.exp(1.5**2 / 2)
    return Trajectories(x, arm, 3 * x.sum(axis=1) - arm * loss, np.arange(n + 1), np.tile([0.8, 0.2], (n, 1)))


def test_what_contexts_foresee_hides_no_tail_from_the_doubly_robust_estimate() -> None:
    """Raw returns look normal in each of these logs, since prognosis makes up most of their variance."""
    trusted = [evaluate(Second(), _with_a_tail(seed), estimator="dr").verdict == "trust" for seed in range(30)]
    assert sum(trusted) <= 10


def _evidence(added: FloatArray, more: FloatArray, noise: float = 0.0) -> Evidence:
    """Episodes that add this much to the gain [n] by control variates, where the policy has more weight or less.

    By weights alone there is also what contexts foresee: noise of this size, which says nothing of a tail.
    """
    n = len(added)
    prognosis = noise * np.random.default_rng(1).normal(size=n)
    logs = Trajectories(np.zeros((n, 1)), np.zeros(n, np.int64), prognosis, np.arange(n + 1))
    weights = LogWeights(np.log(np.where(more, 1.5, 0.5)), logs.offsets)
    return Evidence(weights, logs, controlled=Controlled(added, np.zeros(n), np.zeros(n), estimated=False))


def _proofs(evidence: Evidence, proving: Proving, reach: float = 1.7) -> list[float]:
    """What is shown in each way; nothing: none."""
    both = gains_of(evidence)
    error = float(np.sqrt(np.square(both[0].influence).sum())) / both[0].n_episodes
    found = Gain(both[0].value, both[0].value - reach * error, both[0].value + reach * error)
    estimate: Any = SimpleNamespace(value=1.0)
    return [proof.shown for proof in proving.proofs(evidence, estimate, both, found)]


def test_losses_count_whichever_way_the_weights_point_and_gains_do_not() -> None:
    """One episode in a hundred; turned round where it has less weight, since others like it have more."""
    rare, often = np.append(np.zeros(99), -9.0), np.arange(100) % 2 == 0
    size = 98 / np.sqrt(99) / 10  # the skewness of one among a hundred, over the root of a hundred
    for added, last_has_more, seen, most in (
        (rare, True, size, size),
        (-rare, False, 0.0, size),
        (-rare, True, 0.0, 0.0),
    ):
        evidence = _evidence(added, np.where(np.arange(100) < 99, often, last_has_more))
        tail = tail_of(ways_of(evidence)[1:], evidence)
        assert tail.seen == pytest.approx(seen, abs=0.035)
        assert tail.most == pytest.approx(most, abs=0.035)


def test_losses_of_one_cluster_count_once() -> None:
    losses = np.append(np.full(96, 0.1), np.full(4, -9.0))
    evidence = _evidence(losses, np.ones(100, np.bool_))
    together = replace(evidence, logs=replace(evidence.logs, clusters=np.arange(100) // 4))
    assert tail_of(ways_of(together)[1:], together).seen == pytest.approx(23 / np.sqrt(24) / 5)  # one of 25
    assert tail_of(ways_of(evidence)[1:], evidence).seen < 0.6


def test_noise_that_contexts_foresee_hides_no_tail_from_either_way() -> None:
    """By weights the gain looks normal: what is shown of it has the tail that control variates lay bare."""
    losses = np.append(np.full(190, 0.4), np.full(10, -1.5))
    for noise in (1.0, 5.0, 25.0):
        evidence = _evidence(losses, np.arange(200) % 2 == 0, noise)
        by_weights, by_control = (tail_of([way], evidence).seen for way in ways_of(evidence))
        assert by_weights < 0.1 < 0.25 < by_control
        found = Proving(0.95, 1.0, 0.0, tail=tail_of(ways_of(evidence), evidence), most_skew=0.15)
        assert found.has_tail
        assert _proofs(evidence, found) == []


def test_a_study_shows_nothing_of_a_tail_and_says_so() -> None:
    """Of one case in which the policy does more, which lost as much as contexts explain elsewhere."""
    n = 400
    rng = np.random.default_rng(0)
    arm, prognosis = np.arange(n) % 2, 3 * rng.normal(size=n)
    words = []
    for worst in (0.0, -9.0):
        beyond = arm + 0.3 * rng.normal(size=n) + worst * (np.arange(n) == n - 1)
        logs = Trajectories(np.zeros((n, 1)), arm, prognosis + beyond, np.arange(n + 1), np.full((n, 2), 0.5))
        episodes, weights = Episodes.of([logs], 1.0), np.where(arm == 1, 1.4, 0.6)
        evidence = episodes.evidence(np.log(weights), Scoring(), None)
        added = np.asarray((weights - 1) * (beyond - 0.5))
        evidence = replace(evidence, controlled=Controlled(added, np.zeros(n), np.zeros(n), estimated=False))
        (one,) = judged(episodes, [(evidence, np.zeros((1, n), np.float32))], Scoring(), 0.95)
        words.append((one.estimate.verdict, bool(one.proofs), TAIL in one.estimate.reasons))
    assert words == [("trust", True, False), ("caution", False, True)]


ENDS = st.floats(0.0, 1.0)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-1.0, 1.0), min_size=20, max_size=60), ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS)
def test_widening_any_ingredient_never_narrows_a_bound(
    added: list[float], reach: float, widened: float, seen: float, tail: float, low: float, share: float, odds: float
) -> None:
    """Each ingredient in turn, by any amount, from any other ones: no way shows more than before."""
    values = np.asarray(added)
    evidence = _evidence(values, values > np.median(values), noise=1.0)
    plain = Proving(0.95, 1.0 + widened, -low, 1.0 + odds, tail=Tail(0.15 * seen, 0.15 * seen + tail), most_skew=0.15)
    outside = OutsideSupport(0.02 * share, 0.05 * share, 0.1 * share, 0.02 * share)
    evidence = replace(evidence, outside=outside)
    before = _proofs(evidence, plain, 1.7 + reach)
    more = {
        "reach": (evidence, plain, 1.8 + reach),
        "other policies": (evidence, replace(plain, widened=plain.widened + 0.1), 1.7 + reach),
        "tail": (evidence, replace(plain, tail=Tail(plain.tail.seen + 0.01, plain.tail.most + 0.01)), 1.7 + reach),
        "losses avoided": (evidence, replace(plain, tail=Tail(plain.tail.seen, plain.tail.most + 0.1)), 1.7 + reach),
        "worst return": (evidence, replace(plain, lowest=plain.lowest - 1.0), 1.7 + reach),
        "sensitivity": (evidence, replace(plain, sensitivity=plain.sensitivity + 0.5), 1.7 + reach),
        "outside": (replace(evidence, outside=replace(outside, episodes=0.2)), plain, 1.7 + reach),
        "error of what is missing": (replace(evidence, outside=_less_sure(outside)), plain, 1.7 + reach),
    }
    for name, (judged_on, proving, errors) in more.items():
        after = _proofs(judged_on, proving, errors) or [-np.inf] * len(before)
        assert all(new <= old + 1e-9 for new, old in zip(after, before, strict=True)), name


def _less_sure(outside: OutsideSupport) -> OutsideSupport:
    """Still more than its standard error: else it would be no more than chance makes."""
    return replace(outside, missing_error=min(2 * outside.missing_error, outside.missing))


def test_the_reach_grows_with_the_errors_and_with_the_tail() -> None:
    errors, skews = np.linspace(0.5, 8.0, 40), np.linspace(0.0, 0.6, 40)
    far = np.array([[against_tail(float(one), float(skew)) for skew in skews] for one in errors])
    assert (np.diff(far, axis=0) > 0).all()
    assert (np.diff(far, axis=1) >= 0).all()
    assert np.array_equal(far[:, 0], errors)


def test_a_skewed_mean_is_bounded_as_often_as_it_is_said() -> None:
    """Fifty losses 1 − Exp(1), whose mean is 0: 5% of the bounds should be above it."""
    n = 50
    losses = 1 - np.random.default_rng(0).exponential(size=(20_000, n))
    t = losses.mean(axis=1) / (losses.std(axis=1, ddof=1) / np.sqrt(n))
    plain = float((t > 1.6766).mean())  # Student's quantile
    corrected = float((t > against_tail(1.6766, 2 / np.sqrt(n))).mean())  # of the skewness −2 that it has
    assert plain > 0.08
    assert 0.03 < corrected < 0.055
