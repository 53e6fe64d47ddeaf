"""The verdict: every reason by itself, the gravest first, and thresholds that can be set."""

from dataclasses import replace

import numpy as np
import pytest

from poela.data.action_space import Box, Finite
from poela.stats.diagnostics import Diagnostics, diagnose
from poela.stats.verdict import ACT, TrustThresholds, Verdict, verdict_on
from poela.stats.weights import LogWeights

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
    expected_ess=480.0,
    trait_ratio=1.0,
    return_skew=0.05,
)


def test_nothing_wrong_is_trusted_and_says_why() -> None:
    reasons = ("ESS 512 of 1,000: one episode carries 1.0% of the weight",)
    assert verdict_on(GOOD) == Verdict(
        "trust", reasons, "You may use this policy; expect at least the lower end of its interval."
    )


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({"ess": 30.0}, "caution", "ESS 30 of 1,000: one episode carries 1.0% of the weight"),
        (
            {"ess": 3.1, "largest_share": 0.58},
            "do not trust",
            "ESS 3.1 of 1,000: one episode carries 58% of the weight",
        ),
        ({"largest_share": 0.2}, "caution", "one episode carries 20% of the weight"),
        ({"ess": 14.0}, "do not trust", "ESS 14 of 1,000"),
        ({"ess": 30.0, "n_clusters": 80}, "caution", "ESS 30 of 80 clusters: one cluster carries 1.0% of the weight"),
        (
            {"ess": 150.0, "expected_ess": 55.0},
            "caution",
            "would give 55: the largest weights are probably missing from these logs",
        ),
        ({"ess": 150.0, "expected_ess": 55.0, "redrawn": True}, "trust", "ESS 150 of 1,000"),
        ({"ess": 50.0, "expected_ess": 20.0, "redrawn": True}, "caution", "where actions drawn anew would give 20"),
        ({"expected_ess": 90.0}, "caution", "would give 90"),  # a fifth of the log's own
        ({"expected_ess": 5.0}, "do not trust", "the same steps in other combinations would give 5.0"),
        ({"pareto_k": 0.8}, "caution", "heavy tail (Pareto k 0.80)"),
        ({"pareto_k": 1.2}, "do not trust", "heavy tail (Pareto k 1.20)"),
        ({"pareto_k": 1.2, "redrawn": True}, "trust", "ESS 512"),  # then the tail is known, and need not be guessed
        ({"trait_ratio": 1.5}, "caution", "log weights vary 1.5 times as much as those of randomly combined steps"),
        ({"trait_ratio": 2.5}, "do not trust", "some episodes are unusual throughout"),
        ({"trait_ratio": 2.5, "redrawn": True}, "trust", "ESS 512"),
        ({"events": 2.0}, "caution", "only 2 effective episodes have the rarer outcome"),
        ({"events": 0.0}, "do not trust", "only 0 effective episodes"),
        ({"return_skew": 0.3}, "caution", "returns are so skewed (skewness over √ESS 0.30)"),
        ({"return_skew": 0.7}, "do not trust", "a few of them dominate the mean"),
        ({"mean_weight": 0.7, "mean_weight_z": -4.0}, "caution", "the mean weight is 0.7, 4.0 standard errors from 1"),
        ({"mean_weight": 1.9, "mean_weight_z": 9.0}, "do not trust", "the mean weight is 1.9, 9.0 standard errors"),
        ({"truncated_share": 0.002}, "caution", "the weights of 0.20% of episodes were truncated"),
        ({"truncated_share": 0.02}, "do not trust", "the weights of 2.00% of episodes were truncated"),
        ({"stranded_steps": 1000}, "caution", "at 20% of steps no action was eligible"),
        ({"stranded_steps": 3000}, "do not trust", "at 60% of steps"),
    ],
)
def test_each_thing_that_can_be_wrong(change: dict[str, float], word: str, reason: str) -> None:
    verdict = verdict_on(replace(GOOD, **change))  # type: ignore[arg-type]
    assert verdict.word == word
    assert len(verdict.reasons) == 1
    assert reason in verdict.reasons[0]
    assert verdict.advice.endswith(".")
    assert (verdict.advice == ACT) == (word == "trust")


def test_the_gravest_reason_comes_first() -> None:
    verdict = verdict_on(replace(GOOD, ess=30.0, expected_ess=65.0, mean_weight_z=8.0))
    assert verdict.word == "do not trust"
    assert "mean weight" in verdict.reasons[0]
    assert "ESS 30" in verdict.reasons[1]
    assert verdict.advice.startswith("Check the propensities")
    assert str(verdict) == f"do not trust: {verdict.reasons[0]}; {verdict.reasons[1]}"


def test_an_expected_ess_is_no_second_reason_where_the_logs_own_is_as_bad() -> None:
    assert len(verdict_on(replace(GOOD, ess=35.0, expected_ess=30.0)).reasons) == 1


def test_what_is_unknown_speaks_for_nothing() -> None:
    unknown = float("nan")
    verdict = verdict_on(
        replace(
            GOOD,
            pareto_k=unknown,
            mean_weight_z=unknown,
            expected_ess=unknown,
            trait_ratio=unknown,
            return_skew=unknown,
        )
    )
    assert verdict.word == "trust"


@pytest.mark.parametrize("ess", [0.0, float("nan")])
def test_without_weight_nothing_is_known(ess: float) -> None:
    assert verdict_on(replace(GOOD, ess=ess)).word == "do not trust"


@pytest.mark.parametrize("change", [{}, {"ess": 2.0}, {"ess": float("nan")}, {"ess": 0.0}, {"mean_weight_z": 9.0}])
def test_what_leans_on_a_model_is_never_above_caution(change: dict[str, float]) -> None:
    verdict = verdict_on(replace(GOOD, **change), leans_on_model=True)  # type: ignore[arg-type]
    assert verdict.word == "caution"
    assert any("relies on a model" in reason for reason in verdict.reasons)


def test_estimated_propensities_are_never_above_caution_and_never_better_than_known_ones() -> None:
    verdict = verdict_on(GOOD, estimated=True)
    assert verdict.word == "caution"
    assert "the propensities are estimated" in verdict.reasons[0]
    assert "other behavior models" in verdict.advice
    grave = verdict_on(replace(GOOD, mean_weight_z=9.0), estimated=True)
    assert grave.word == "do not trust"
    assert "are estimated" in grave.reasons[-1]


def test_thresholds_can_be_set() -> None:
    strict = TrustThresholds(ess=(600.0, 400.0))
    assert verdict_on(GOOD, strict).word == "caution"
    assert verdict_on(GOOD, TrustThresholds(ess=(2000.0, 600.0))).word == "do not trust"


def test_equal_weights_are_trusted() -> None:
    equal = LogWeights(np.zeros(400), np.arange(0, 401, 2))
    assert verdict_on(diagnose(equal)).word == "trust"


def test_real_valued_actions_have_log_densities() -> None:
    heavy = replace(GOOD, pareto_k=2.0, mean_weight_z=9.0)
    for space, known in ((Box(("dose",)), "log densities"), (Finite(("a", "b")), "propensities")):
        verdict = verdict_on(heavy, estimated=True, known=space.chances, every=space.every)
        assert f"the {known} are wrong" in verdict.reasons[1]
        assert f"the {known} are estimated" in verdict.reasons[2]
        assert ("Log the propensities of every action" in verdict.advice) == (known == "propensities")
