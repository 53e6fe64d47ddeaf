"""The verdict: every reason by itself, the gravest first, and thresholds that can be set."""

from dataclasses import replace

import numpy as np
import pytest

from poela.evaluation.diagnostics import Diagnostics, diagnose
from poela.evaluation.verdict import TrustThresholds, Verdict, verdict_on
from poela.evaluation.weights import LogWeights

GOOD = Diagnostics(
    n_episodes=1000,
    n_steps=5000,
    ess=512.0,
    ess_by_step=np.array([1000.0, 512.0]),
    largest_share=0.01,
    pareto_k=0.3,
    mean_weight=0.99,
    mean_weight_z=-0.3,
    zero_weight_share=0.0,
    ineligible_steps=0,
    truncated_share=0.0,
    stranded_steps=0,
    recombined_ess=480.0,
)


def test_nothing_wrong_is_trusted_and_says_why() -> None:
    assert verdict_on(GOOD) == Verdict("trust", ("ESS 512 of 1000: one episode carries 1.0% of the weight",))


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({"ess": 60.0}, "caution", "ESS 60 of 1000: one episode carries 1.0% of the weight"),
        ({"ess": 3.1, "largest_share": 0.58}, "do not trust", "ESS 3.1 of 1000: one episode carries 58% of the weight"),
        ({"largest_share": 0.2}, "caution", "one episode carries 20% of the weight"),
        ({"recombined_ess": 55.0}, "caution", "let one expect 55: the heaviest weights have not been seen"),
        ({"recombined_ess": 5.0}, "do not trust", "let one expect 5.0"),
        ({"pareto_k": 0.8}, "caution", "heavy tail (Pareto k 0.80)"),
        ({"pareto_k": 1.2}, "do not trust", "heavy tail (Pareto k 1.20)"),
        ({"mean_weight": 0.7, "mean_weight_z": -4.0}, "caution", "the mean weight is 0.7, 4.0 standard errors from 1"),
        ({"mean_weight": 1.9, "mean_weight_z": 9.0}, "do not trust", "the mean weight is 1.9, 9.0 standard errors"),
        ({"truncated_share": 0.002}, "caution", "the weights of 0.20% of episodes were truncated"),
        ({"stranded_steps": 1000}, "caution", "at 20% of steps no action was near a logged one"),
    ],
)
def test_each_thing_that_can_be_wrong(change: dict[str, float], word: str, reason: str) -> None:
    verdict = verdict_on(replace(GOOD, **change))  # type: ignore[arg-type]
    assert verdict.word == word
    assert len(verdict.reasons) == 1
    assert reason in verdict.reasons[0]


def test_the_gravest_reason_comes_first() -> None:
    verdict = verdict_on(replace(GOOD, ess=90.0, mean_weight_z=8.0))
    assert verdict.word == "do not trust"
    assert "mean weight" in verdict.reasons[0]
    assert "ESS 90" in verdict.reasons[1]
    assert str(verdict) == f"do not trust: {verdict.reasons[0]}; {verdict.reasons[1]}"


def test_an_expected_ess_is_no_second_reason_where_the_logs_own_is_as_bad() -> None:
    assert len(verdict_on(replace(GOOD, ess=50.0, recombined_ess=40.0)).reasons) == 1


def test_what_is_unknown_speaks_for_nothing() -> None:
    unknown = float("nan")
    verdict = verdict_on(
        replace(GOOD, pareto_k=unknown, mean_weight_z=unknown, recombined_ess=unknown, stranded_steps=None)
    )
    assert verdict.word == "trust"


@pytest.mark.parametrize("ess", [0.0, float("nan")])
def test_without_weight_nothing_is_known(ess: float) -> None:
    assert verdict_on(replace(GOOD, ess=ess)).word == "do not trust"


def test_a_model_alone_is_never_trusted() -> None:
    verdict = verdict_on(GOOD, model_only=True)
    assert verdict.word == "caution"
    assert "model alone" in verdict.reasons[0]


def test_thresholds_can_be_set() -> None:
    strict = TrustThresholds(ess=(600.0, 400.0))
    assert verdict_on(GOOD, strict).word == "caution"
    assert verdict_on(GOOD, TrustThresholds(ess=(2000.0, 600.0))).word == "do not trust"


def test_equal_weights_are_trusted() -> None:
    equal = LogWeights(np.zeros(400), np.arange(0, 401, 2))
    assert verdict_on(diagnose(equal)).word == "trust"
