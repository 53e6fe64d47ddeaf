"""Selection on metrics made by hand: who qualifies, who wins, ties, and when the logging policy stays."""

import pytest

from poela.core.errors import InputError
from poela.studies.own_bounds import promising
from poela.studies.selection import LoggingValue, Point, Selection, choose, shown_to_be_better

LOGGING = LoggingValue(value=1.0, standard_error=0.1)


def checkpoint(run: str, number: int = 0, final: bool = True, **metrics: float | None) -> Point:
    return Point(run, number, final, metrics)


def test_final_protocol_ignores_better_checkpoints_on_the_way() -> None:
    early = checkpoint("a", 0, final=False, sntis=9.0, ess=50.0)
    late = checkpoint("a", 1, sntis=2.0, ess=50.0)
    assert choose([early, late], Selection("sntis", "final"), 100).chosen is late
    assert choose([early, late], Selection("sntis", "best"), 100).chosen is early


def test_least_effective_sample_size_as_number_and_as_share() -> None:
    few, many = checkpoint("few", sntis=9.0, ess=19.0), checkpoint("many", sntis=2.0, ess=20.0)
    assert choose([few, many], Selection(min_ess=20), 200).chosen is many
    assert choose([few, many], Selection(min_ess=0.1), 200).chosen is many
    assert choose([few, many], Selection(min_ess=19), 200).chosen is few


def test_a_policy_without_any_weight_never_qualifies() -> None:
    nothing = checkpoint("nothing", sntis=None, ess=0.0, guarded=9.0, guarded_error=0.1)
    choice = choose([nothing], Selection("guarded", "best"), 100, LOGGING)
    assert choice.chosen is None
    assert "logging policy is kept" in choice.reason


def test_ties_go_to_more_effective_episodes_then_to_the_first() -> None:
    first = checkpoint("first", sntis=2.0, ess=10.0)
    supported = checkpoint("supported", sntis=2.0, ess=11.0)
    last = checkpoint("last", sntis=2.0, ess=11.0)
    assert choose([first, supported, last], Selection(), 100).chosen is supported


def test_lower_bound_prefers_the_surer_policy() -> None:
    bold = checkpoint("bold", sntis=3.0, sntis_error=2.0, ess=5.0)
    sure = checkpoint("sure", sntis=2.0, sntis_error=0.1, ess=50.0)
    assert choose([bold, sure], Selection(confidence=0.5), 100).chosen is bold
    choice = choose([bold, sure], Selection(confidence=0.95), 100)
    assert choice.chosen is sure
    assert choice.score == pytest.approx(2.0 - 1.6448536269514722 * 0.1)


def test_each_score_reads_its_own_metric() -> None:
    a = checkpoint("a", sntis=1.0, wdr=2.0, guarded=3.0, ess=9.0)
    b = checkpoint("b", sntis=2.0, wdr=3.0, guarded=1.0, ess=9.0)
    c = checkpoint("c", sntis=3.0, wdr=1.0, guarded=2.0, ess=9.0)
    chosen = {by: choose([a, b, c], Selection(by), 100).chosen for by in ("sntis", "wdr", "guarded")}
    assert chosen == {"sntis": c, "wdr": b, "guarded": a}


def test_the_logging_policy_is_kept_where_none_scores_higher() -> None:
    worse = checkpoint("worse", sntis=0.9, ess=50.0)
    choice = choose([worse], Selection(), 100, LOGGING)
    assert choice.chosen is None
    assert choice.score == 1.0
    assert "the logging policy is kept" in choice.reason
    assert choose([checkpoint("better", sntis=1.1, ess=50.0)], Selection(), 100, LOGGING).chosen is not None


def test_missing_metrics_do_not_win() -> None:
    unknown = checkpoint("unknown", sntis=None, ess=50.0)
    without_error = checkpoint("without error", sntis=5.0, sntis_error=None, ess=50.0)
    known = checkpoint("known", sntis=2.0, sntis_error=0.5, ess=50.0)
    assert choose([unknown, without_error, known], Selection(confidence=0.9), 100).chosen is known
    assert choose([unknown], Selection(), 100).reason.startswith("none of 1 policies has a finite score")


def test_no_run_at_all() -> None:
    assert (
        choose([], Selection(), 100, LOGGING).reason == "no run has finished with a policy: the logging policy is kept"
    )


def test_wrong_settings_are_all_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Selection("luck", "some", 1.5, min_ess=-1)
    assert len(caught.value.problems) == 4


def test_with_estimated_propensities_a_policy_must_be_shown_to_be_better() -> None:
    logging = LoggingValue(value=50.0, standard_error=1.0)
    promising = checkpoint("promising", sntis=90.0, sntis_error=0.1, ess=1.2, guarded=90.0, guarded_error=1.0)
    shown = checkpoint("shown", sntis=60.0, sntis_error=1.0, ess=80.0, guarded=60.0, guarded_error=1.0)
    asked = Selection("guarded", "best", 0.99, proof=0.95)
    assert choose([promising, shown], asked, 100, logging, estimated=True).chosen is shown
    assert choose([promising, shown], asked, 100, logging).chosen is promising
    unasked = Selection("guarded", "best", 0.99)
    assert choose([promising, shown], unasked, 100, logging, estimated=True).chosen is promising
    kept = choose([promising], asked, 100, logging, estimated=True)
    assert kept.chosen is None
    assert "shows none of 1 policies to be better (95% confidence for all of them together)" in kept.reason


def test_the_more_policies_are_tried_the_more_each_must_show() -> None:
    logging = LoggingValue(value=50.0, standard_error=1.0)
    # Of 100 episodes with a spread of 10, 50 effective ones have an error of sqrt(2), and both means one of sqrt(3);
    # t with 49 degrees of freedom is 1.68 at 95% and 3.50 at 99.95%.
    item = checkpoint("one", sntis=50.0 + 2.0 * 3**0.5, sntis_error=0.1, ess=50.0)
    assert shown_to_be_better([item], logging, 0.95, 100) == [item]
    assert shown_to_be_better([item] * 100, logging, 0.95, 100) == []


def test_worth_a_trial_is_the_highest_bound_of_its_own_above_zero() -> None:
    """However high the estimate of a model: half of those that it picked were worse than practice."""

    def point(name: str, own: float | None, verdict: str = "caution", **metrics: float) -> Point:
        return Point(name, 0, True, {"own": own, "guarded": 9.0, "guarded_error": 0.1, **metrics}, verdict)

    mild, bold, trusted = point("mild", 0.1), point("bold", 0.2), point("trusted", 0.15, "trust")
    assert promising([mild, bold, trusted]) is bold
    assert promising([mild, trusted]) is trusted
    for no in (
        point("at zero", 0.0),
        point("below", -0.1, "trust"),
        point("not looked at", None, "trust"),
        point("lost", 5.0, "do not trust"),
        point("without a verdict", 5.0, ""),
        point("never done", 5.0, outside=0.011),
    ):
        assert promising([no]) is None
        assert promising([no, mild]) is mild
    assert promising([point("hardly ever", 5.0, outside=0.009), mild]) is not mild
    assert promising([]) is None
