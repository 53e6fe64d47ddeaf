"""The answer in words: change, keep, worse; and what to do next."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import poela
from poela.data.trajectories import Trajectories
from poela.stats.gain import Gain
from poela.studies.answer import Answer, findings
from poela.studies.candidates import Candidate
from poela.studies.final_gain import FinalEstimates
from poela.studies.held_out import Episodes
from poela.studies.records import ChoiceRecord
from poela.studies.selection import Selection
from poela.studies.study import Study


@pytest.fixture(scope="module")
def study() -> Study:
    rng = np.random.default_rng(0)
    logs = Trajectories(
        rng.normal(size=(80, 1)), rng.integers(0, 2, 80), rng.normal(size=80), np.arange(81), np.full((80, 2), 0.5)
    )
    return poela.learn(logs, candidates=[Candidate("consensus")], folds=2, backend="inline")


def told(study: Study, estimated: bool = False, **result: object) -> Answer:
    assert study.result is not None
    record = replace(study.record, data=replace(study.record.data, estimated=estimated))
    changed: ChoiceRecord = replace(study.result, reason="none is shown", **result)  # type: ignore[arg-type]
    return Answer.of(changed, study.settings, record)


def test_change(study: Study) -> None:
    answer = told(study, chosen=0, gain=Gain(7.25, 6.5, 8.0, sensitivity=1.84))
    assert (answer.kind, answer.change, answer.called) == ("change", True, "recommended")
    assert answer.headline.startswith("Change: at least +6.5")
    assert "better than what is done now (95%); best estimate +7.25" in answer.headline
    assert answer.why == (
        "80 held-out episodes show it, by importance sampling. Of 10 policies tried, 10 had enough data, and the 95% "
        "covers all of them together. The best of many estimates is often too high, so rely on the lower bound. "
        "Hidden confounding would have to make weights wrong by a factor of 1.84 (Γ) to undo it."
    )


def test_what_rests_on_estimated_propensities_is_worth_a_trial_and_never_a_change(study: Study) -> None:
    answer = told(study, estimated=True, chosen=0, gain=Gain(7.25, 6.5, 8.0, sensitivity=1.84))
    assert (answer.kind, answer.change, answer.called) == ("worth a trial", False, "worth a trial")
    assert re.fullmatch(
        r"Worth a trial: at least \+6\.5\d* per episode better than what is done now \(95%, with weights up to 1\.5 "
        r"times wrong\) if everything that mattered was recorded; it would take Γ = 1\.84 to undo it\. "
        r"Best estimate \+7\.25\d*\.",
        answer.headline,
    )
    assert "Propensities are estimated" in answer.why
    assert answer.next.startswith("ask those who decided what else they considered")


def test_keep(study: Study) -> None:
    answer = told(study, chosen=None, promising=None, closest=0, gain=Gain(1.2, -0.6, 3.0), needed=4321.0)
    assert (answer.kind, answer.change) == ("keep", False)
    assert answer.headline == "Keep what you do: nothing is shown to be better (95%)."
    assert answer.why.startswith(
        "None is shown. No policy is worth a trial: the one that comes closest looks better by +1.2"
    )
    assert "(at least -0.6" in answer.why
    assert answer.why.endswith("if that is right, about 4,300 episodes would show it.")
    assert answer.next.startswith("carry on as before, and collect more episodes")
    assert "record the propensities" in told(study, estimated=True, chosen=None, gain=None).next


def test_keep_beside_a_policy_that_is_worth_a_trial(study: Study) -> None:
    assert study.result is not None
    first, *others = study.result.points
    points = (replace(first, metrics={**first.metrics, "own": 0.6}), *others)
    answer = told(study, chosen=None, promising=0, gain=Gain(1.2, 0.6, 3.0), needed=4321.0, points=points)
    assert (answer.kind, answer.change) == ("keep", False)
    assert answer.headline == "Keep what you do: nothing is shown to be better (95%); one policy is worth a trial."
    assert "One policy is worth a trial: it looks better by +1.2" in answer.why
    assert "(at least +0.6" in answer.why
    assert "if it had been the only one tried, 95%)" in answer.why
    assert answer.why.endswith("if that is right, about 4,300 episodes would show it.")
    assert answer.next.startswith(
        "try the policy that is worth a trial where that is safe; otherwise carry on as before"
    )


def test_what_an_earlier_version_called_promising_is_worth_a_trial_only_by_its_bound(study: Study) -> None:
    assert study.result is not None
    for low in (-0.6, 0.6):  # it knew no bound of its own
        answer = told(study, chosen=None, promising=0, gain=Gain(1.2, low, 3.0), needed=None)
        assert "No policy is worth a trial" in answer.why
    points = tuple(replace(point, verdict="do not trust") for point in study.result.points)
    answer = told(study, chosen=None, promising=0, gain=Gain(1.2, 0.6, 3.0), needed=None, points=points)
    assert "worth a trial" not in answer.headline
    assert "No policy is worth a trial" in answer.why


def test_effective_cases_of_clusters_are_of_clusters(study: Study) -> None:
    assert study.result is not None
    diagnostics = replace(study.result.estimate.diagnostics, n_clusters=16)
    estimate = replace(study.result.estimate, diagnostics=diagnostics)
    gain = Gain(1.2, 0.6, 3.0)
    plain = told(study, chosen=None, promising=0, gain=gain, needed=None)
    assert "effective cases of 80 episodes support it" in plain.why
    clustered = told(study, chosen=None, promising=0, gain=gain, needed=None, estimate=estimate)
    assert "effective cases of 16 clusters support it" in clustered.why
    shown = told(study, chosen=0, gain=gain, estimate=estimate)
    assert shown.why.startswith("80 held-out episodes of 16 clusters show it")
    known = findings(replace(study.result, promising=0, estimate=estimate), study.record, promising=True)
    assert known["clusters that judged it"] == "16 clusters"


def test_worse(study: Study) -> None:
    answer = told(study, chosen=None, promising=None, closest=0, gain=Gain(-1.2, -3.0, 0.6), needed=None)
    assert "No policy is worth a trial: even the one that comes closest looks worse: -1.2" in answer.why


def test_no_better(study: Study) -> None:
    answer = told(study, chosen=None, promising=None, closest=0, gain=Gain(1e-9, -3.0, 0.6), needed=None)
    assert "No policy is worth a trial: even the one that comes closest looks no better: +0.0" in answer.why


def test_what_needs_a_thousand_times_as_many_episodes_is_not_counted(study: Study) -> None:
    answer = told(study, chosen=None, promising=0, gain=Gain(1.2, -0.6, 3.0), needed=6.9e7)
    assert answer.why.endswith("even 1,000 times as many episodes would hardly show it.")


def test_nothing_to_believe(study: Study) -> None:
    answer = told(study, chosen=None, gain=None)
    assert answer.why.endswith("No policy is worth a trial: none has a reliable estimate.")
    assert str(answer) == f"{answer.headline}\n{answer.why}\nNext: {answer.next}"


def test_a_choice_by_an_estimate_promises_nothing(study: Study) -> None:
    assert study.result is not None
    settings = replace(study.settings, selection=Selection("wdr"))
    answer = Answer.of(replace(study.result, chosen=0, policy="consensus", reason="why"), settings, study.record)
    assert (answer.kind, answer.headline, answer.why) == ("change", "Chosen: consensus.", "Why.")
    estimated = replace(study.record, data=replace(study.record.data, estimated=True))
    assert Answer.of(replace(study.result, chosen=0), settings, estimated).kind == "worth a trial"
    assert Answer.of(replace(study.result, chosen=None), settings, study.record).headline == "Keep what you do."


def test_the_number_of_episodes_that_is_at_hand_is_never_what_would_show_a_gain(study: Study) -> None:
    answer = told(study, chosen=None, promising=0, gain=Gain(1.2, 0.6, 3.0), needed=70.0)
    assert "would show it" not in answer.why
    answer = told(study, estimated=True, chosen=None, promising=0, gain=Gain(1.2, 0.6, 3.0), needed=None)
    assert "weights may be wrong by a factor of 1.5 (hidden confounding), and more episodes do not change" in answer.why


def test_where_no_policy_can_be_trusted_more_episodes_are_no_advice(study: Study) -> None:
    assert study.result is not None
    points = tuple(replace(point, verdict="do not trust") for point in study.result.points)
    answer = told(study, chosen=None, promising=0, gain=Gain(1.2, 0.6, 3.0), needed=70.0, points=points)
    assert "episodes" not in answer.why + answer.next
    assert answer.next.startswith("carry on as before; fix what makes these estimates unreliable")


def test_where_every_policy_does_what_was_never_done_the_advice_is_the_rule(study: Study) -> None:
    """Not to collect more episodes, which would be of the same kind."""
    assert study.result is not None
    shares = [0.02 + 0.01 * place for place in range(len(study.points))]
    points = tuple(
        replace(point, metrics={**point.metrics, "shown": None, "outside": share}, verdict="caution")
        for point, share in zip(study.points, shares, strict=True)
    )
    answer = told(study, chosen=None, promising=None, points=points)
    assert answer.next.startswith("learn with the rule that only allows what similar cases received")
    inside = (replace(points[0], metrics={**points[0].metrics, "outside": 0.0}), *points[1:])
    assert "carry on as before" in told(study, chosen=None, promising=None, points=inside).next


def test_what_the_allowed_factor_takes_is_not_made_up_for_by_episodes(study: Study) -> None:
    logs = Episodes.of([Trajectories(np.zeros((80, 1)), np.zeros(80, int), np.arange(80.0), np.arange(81))], 1.0)

    def needed(gain: Gain, *, estimated: bool) -> float | None:
        gains = FinalEstimates(study, replace(logs, estimated=estimated), study.settings)
        gains.estimate = lambda point, *, by_chance=False: SimpleNamespace(gain=gain)  # type: ignore[assignment, method-assign, return-value]
        return gains.needed(study.points[0], study.points)

    unsure = Gain(1.0, -1.0, 3.0)
    assert (needed(unsure, estimated=False) or 0) > 80
    assert needed(unsure, estimated=True) is None  # a factor of 1.5 moves a mean of 0 to 79 by more than 1
    assert needed(Gain(9.0, 8.0, 10.0), estimated=False) is None  # 80 episodes are enough for that
