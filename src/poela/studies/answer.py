"""The answer of a study in words: change, try or keep, how sure that is, why, and what to do next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from poela.core.errors import InputError
from poela.core.readable import about, between, block, effective, factor_in_words, facts, readable, share_in_words
from poela.studies.guards import limits_in
from poela.studies.measured_gamma import in_words
from poela.studies.names import lacks_support
from poela.studies.outcome_unit import Outcome
from poela.studies.records import ChoiceRecord, StudyRecord
from poela.studies.selection import Point
from poela.studies.settings import StudySettings

if TYPE_CHECKING:
    from poela.studies.study import Study

MOST_EPISODES = 1000  # times those of the log: what would need more is not worth a number
Kind = Literal["change", "worth a trial", "keep"]


def none_trusted(points: Sequence[Point]) -> bool:
    """Whether every policy was found not to be trusted.

    >>> none_trusted([Point("a", 0, True, {}, "do not trust")]), none_trusted([])
    (True, False)
    """
    return bool(points) and all(point.verdict == "do not trust" for point in points)


@dataclass(frozen=True)
class Answer:
    """What to do in one sentence, why in two, and what to do next.

    `kind` is for scripts: "change" where a policy is shown to be better and propensities were logged; "worth a trial"
    where they are estimated, so that no log can rule out that something else made the difference; else "keep".
    """

    kind: Kind
    headline: str
    why: str
    next: str
    words: str = ""  # the best policy that can be said, and what is shown of it
    since: str = ""  # what is shown since the first practice, over all rounds

    @property
    def change(self) -> bool:
        """Whether a policy is shown to be better."""
        return self.kind == "change"

    @property
    def called(self) -> str:
        """What the chosen policy is called."""
        return "worth a trial" if self.kind == "worth a trial" else "recommended"

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.headline, self.since, self.words, self.why, f"Next: {self.next}")))

    @classmethod
    def of(cls, result: ChoiceRecord, settings: StudySettings, record: StudyRecord) -> "Answer":
        """From what came of a study."""
        if settings.selection.by != "gain":
            return _of_capped(_of_estimate(result, record), result, settings)
        confidence = f"{100 * settings.selection.confidence:.4g}%"
        said = _keep if result.chosen is None else _change
        answer = said(result, record, confidence, settings.selection.sensitivity)
        words = _in_words(result, record, confidence)
        answer = replace(answer, why=" ".join(filter(None, (answer.why, unconfounded_in_words(result, record)))))
        return _of_capped(replace(answer, words=words, since=_since(result, record)), result, settings)


def _of_capped(answer: Answer, result: ChoiceRecord, settings: StudySettings) -> Answer:
    """The same about capped returns, where there is a cap: said at once, and what lies beyond it after the reasons."""
    cap, beyond = settings.scoring.cap, result.estimate.beyond
    if cap is None:
        return answer
    why, by_gain = answer.why, settings.selection.by == "gain"
    if result.chosen is not None and beyond is not None:
        least = None if not by_gain or result.gain is None else result.gain.low
        why = f"{why} {beyond.in_words(least, settings.selection.confidence)}"
    return replace(answer, headline=f"{answer.headline.removesuffix('.')} ({cap.in_words}).", why=why)


def _since(result: ChoiceRecord, record: StudyRecord) -> str:
    """What all rounds have shown together, each by its own log; empty where there is one round alone."""
    rounds = record.rounds
    if rounds is None or (rounds.declared == 1 and len(rounds.logs) == 1):
        return ""
    if rounds.followed < 1:
        left = share_in_words(1 - rounds.followed)
        return (
            f"Compared with what is done now: {left} of what {rounds.current} recommended was not done, so what it has "
            f"shown does not hold for it. {rounds.judges_in_words}"
        )
    if rounds.declared == 1 or not rounds.since_first:
        return f"Compared with {rounds.current}, which is what is done now. {rounds.judges_in_words}"
    gain = result.gain if result.chosen is not None else None
    shown = rounds.since(0.0 if gain is None or gain.low is None else gain.low)
    best = rounds.estimated_since(0.0 if gain is None else gain.value)
    unit, error = record.outcome or Outcome(), record.logging_policy.standard_error
    which = f"round {rounds.number} of {rounds.declared}"
    if shown <= 0:
        return f"Since the first practice nothing is shown ({which}). {rounds.judges_in_words}"
    total = f"at least {unit.amount(shown, error)} over all rounds ({100 * (1 - rounds.error):.4g}%"
    estimate = unit.amount(best, error)
    return f"Since the first practice: {total}, {which}); best estimate {estimate}. {rounds.judges_in_words}"


def _change(result: ChoiceRecord, record: StudyRecord, confidence: str, allowed: float) -> Answer:
    gain, error = result.gain, record.logging_policy.standard_error
    if gain is None or gain.low is None:
        raise InputError("choice.json names a policy but no shown gain: the file was changed")
    unit = record.outcome or Outcome()
    least, best = unit.amount(gain.low, error), unit.amount(gain.value, error)
    than = "compared with" if unit.title else "better than"
    known = record.data.chances
    judged = sum(point.metrics.get("shown") is not None for point in result.points)
    by_values = result.points[result.chosen or 0].metrics.get("controlled") is not None
    how = "doubly robust importance sampling" if by_values else "importance sampling"
    shown = (
        f"{held_out_in_words(result, record)} show it, by {how}. Of {len(result.points)} policies tried, {judged} had "
        f"enough data, and the {confidence} covers all of them together. "
        "The best of many estimates is often too high, so rely on the lower bound."
    )
    if result.points[result.chosen or 0].metrics.get("smoothing"):
        shown += " It is deterministic (greedy), so it was judged with 1% of current practice mixed in."
    if limits := limits_in(result.guards):
        rails = "the guardrail holds" if len(limits) == 1 else f"all {len(limits)} guardrails hold"
        shown += f" With the same confidence {rails}."
    if not record.data.doubted:
        headline = f"Change: at least {least} {than} what is done now ({confidence}); best estimate {best}."
        return Answer("change", headline, f"{shown}{_undone_by(gain.undone_by)}", f"{TRY_IT} {known}.")
    undone = "" if gain.undone_by is None else f"; it would take Γ = {factor_in_words(gain.undone_by)} to undo it"
    allowing = f", with weights up to {allowed:g} times wrong" if allowed > 1 else ""
    return Answer(
        "worth a trial",
        f"Worth a trial: at least {least} per episode {than} what is done now ({confidence}{allowing}) if "
        f"everything that mattered was recorded{undone}. Best estimate {best}.",
        f"{shown}{_undone_by(gain.undone_by)}{_doubt(record, known)}",
        f"{_ask(record)}; then {TRY_IT} {known}.",
    )


def unconfounded_in_words(result: ChoiceRecord, record: StudyRecord) -> str:
    """What would hold if everything that matters was recorded, and at Γ; empty where nothing is in doubt."""
    found, error = result.unconfounded, record.logging_policy.standard_error
    if found is None:
        return ""
    unit = record.outcome or Outcome()
    gain, low, high = (unit.amount(amount, error) for amount in (found.gain, found.low, found.high))
    whose = "" if result.policy == found.policy else f" {found.policy}"
    left = f"at Γ = {found.gamma:g} it is at least {unit.amount(found.at_gamma, error)}"
    gains = f"{whose or ' it'} gains {gain} [{low}, {high}]"
    text = f"If unconfounded (everything that mattered was recorded),{gains}; {left}."
    return " ".join(filter(None, (text, in_words(found.measured, found.gamma))))


def _doubt(record: StudyRecord, known: str) -> str:
    """What no number can rule out: reasons that were not recorded, for decisions or for who was lost."""
    text = ""
    if record.data.estimated:
        text += (
            f" {known.capitalize()} are estimated: if those who decided knew more than the log says (hidden "
            "confounding), that may explain the difference, and no figure here can rule it out."
        )
    if record.data.lost:
        text += (
            f" The outcomes of {record.data.lost:.0%} of cases were not observed, and similar cases stand in for them: "
            "if something that was not recorded made them drop out, no figure here can correct for it."
        )
    return text


def _ask(record: StudyRecord) -> str:
    why_lost = "find out why outcomes were not observed, and follow up some of those who were lost"
    if not record.data.estimated:
        return why_lost
    asked = "ask those who decided what else they considered"
    return f"{asked}; {why_lost}" if record.data.lost else asked


def _in_words(result: ChoiceRecord, record: StudyRecord, confidence: str) -> str:
    """The best policy that can be said, the best that needs no lots, and what is shown of them; else empty."""
    told = result.promising if result.chosen is None else result.chosen
    if told is None or (result.chosen is None and not worth_a_trial(result)):
        return ""

    def line(first: str, place: int | None, rule: str) -> str:
        if place is None or not rule:
            return ""
        metrics = result.points[place].metrics
        bound, alone = (metrics.get("own"), "alone ") if result.chosen is None else (metrics.get("shown"), "")
        least = (record.outcome or Outcome()).amount(bound, record.logging_policy.standard_error)
        said = f"{rule[:1].lower()}{rule[1:].rstrip('.')}"
        if not alone:
            return f"{first}: {said}; at least {least}."
        return f"{first}: {said} (alone at least {least}, {confidence})."

    other = "" if result.plain == told else ", the best simple rule"
    lines = (
        line(f"In words{other}", result.plain, result.words),
        line("Without random draws", result.lotless, result.lotless_words),
    )
    return " ".join(filter(None, lines))


def held_out_in_words(result: ChoiceRecord, record: StudyRecord) -> str:
    """What judged: episodes, and where these belong together the clusters that count."""
    clusters = "" if result.estimate.diagnostics.n_clusters is None else f" of {result.units}"
    return f"{record.data.validation_episodes:,} held-out episodes{clusters}"


TRY_IT = "check where the policy differs from current practice, try it on a few cases, and keep logging"


def _undone_by(factor: float | None) -> str:
    if factor is None:
        return ""
    wrong = f"weights wrong by a factor of {factor_in_words(factor)} (Γ)"
    return f" Hidden confounding would have to make {wrong} to undo it."


def _keep(result: ChoiceRecord, record: StudyRecord, confidence: str, allowed: float) -> Answer:
    known = record.data.chances
    action = f"carry on as before, and collect more episodes with their {known}; then learn again."
    if record.data.estimated:
        action = f"record the {known} of decisions from now on: estimated ones can hardly show a gain."
    if record.rounds is not None and record.rounds.followed < 1:
        action = "have more recommendations followed: what was done instead has estimated propensities alone."
    if none_trusted(result.points):
        action = "carry on as before; fix what makes these estimates unreliable (see the verdicts), then learn again."
    if lacks_support(result.points):
        action = (
            "carry on as before, but let chance decide in a share of the cases, so that more actions are logged; then "
            "learn again."
            if any("rule" in one.settings for one in record.settings.candidates)
            else "learn with the rule that only allows what similar cases received (without --no-rule)."
        )
    tried = worth_a_trial(result)
    nothing = "nothing is shown to be better"
    if any((point.metrics.get("shown") or 0.0) > 0 for point in result.points):
        nothing = "what is shown to be better may break a guardrail"
    if tried:
        action = f"try the policy that is worth a trial where that is safe; otherwise {action}"
    return Answer(
        "keep",
        f"Keep what you do: {nothing} ({confidence}){'; one policy is worth a trial' * tried}.",
        f"{result.reason[:1].upper()}{result.reason[1:]}. {_hope(result, record, confidence, allowed)}.",
        action,
    )


def worth_a_trial(result: ChoiceRecord) -> bool:
    """Whether a policy that is not recommended is worth a trial (results of earlier versions name others too)."""
    gain, place = result.gain, result.promising
    if result.chosen is not None or place is None or gain is None or gain.low is None:
        return False
    point = result.points[place]
    return gain.low > 0 and point.verdict != "do not trust" and point.metrics.get("own") is not None


def whose_gain(result: ChoiceRecord) -> str:
    """Whose gain a result names, where that is not the chosen policy's; else empty."""
    if result.chosen is not None:
        return ""
    return "worth a trial" if worth_a_trial(result) else "closest to being worth a trial"


def _hope(result: ChoiceRecord, record: StudyRecord, confidence: str, allowed: float) -> str:
    """The policy that is worth a trial or comes closest: what it may gain, and what would show it."""
    gain, error = result.gain, record.logging_policy.standard_error
    place = result.closest if result.promising is None else result.promising
    if none_trusted(result.points) or gain is None or gain.low is None or place is None:
        return "No policy is worth a trial: none has a reliable estimate"
    unit = record.outcome or Outcome()
    best = unit.amount(gain.value, error)
    alone = f"at least {unit.amount(gain.low, error)} if it had been the only one tried, {confidence}"
    none = best == unit.amount(0.0, error)
    cases = f"{effective(result.points[place].metrics.get('ess'))} effective cases of {result.units} support it"
    named = f" ({result.trial})" if result.trial else ""
    if worth_a_trial(result):
        hope = f"One policy is worth a trial{named}: it looks better by {best} ({alone}); {cases}"
    elif none or gain.value < 0:
        looks = f"looks {'no better' if none else 'worse'}: {best} ({alone})"
        return f"No policy is worth a trial: even the one that comes closest {looks}"
    else:
        closest = f"the one that comes closest{named} looks better by {best} ({alone}); {cases}"
        hope = f"No policy is worth a trial: {closest}"
    if result.needed is None or result.needed <= record.data.validation_episodes:
        return hope + _not_for_want_of_episodes(result.points[place].verdict, record, allowed)
    if result.needed > MOST_EPISODES * record.data.validation_episodes:
        return f"{hope}; even {MOST_EPISODES:,} times as many episodes would hardly show it"
    return f"{hope}; if that is right, about {about(result.needed)} episodes would show it"


def _not_for_want_of_episodes(verdict: str, record: StudyRecord, allowed: float) -> str:
    """What else keeps a gain from being shown."""
    if record.data.doubted and allowed > 1:
        known = record.data.chances if record.data.estimated else "chances of being seen"
        return (
            f"; {known} are estimated, so weights may be wrong by a factor of {allowed:g} (hidden confounding), and "
            "more episodes do not change that"
        )
    return "; more episodes alone would not help: its verdict is caution" if verdict == "caution" else ""


def _of_estimate(result: ChoiceRecord, record: StudyRecord) -> Answer:
    headline = "Keep what you do." if result.chosen is None else f"Chosen: {result.policy}."
    kind: Kind = "worth a trial" if record.data.doubted else "change"
    return Answer(
        "keep" if result.chosen is None else kind,
        headline,
        f"{result.reason[:1].upper()}{result.reason[1:]}.",
        "check the estimate on the test episodes and its verdict.",
    )


# A study as notebooks show it: the answer in words, then what the recommended policy is worth.


def html_of(study: "Study") -> str:
    """A few lines of HTML."""
    place = {"directory": str(study.directory)}
    if study.result is None:
        return facts("Study", {**place, "runs": f"{len(study.runs)} of {len(study.tasks)} have finished"})
    answer, estimate, gain = study.answer, study.estimate, study.gain
    error, changes = estimate.standard_error, study.choice.chosen is not None
    whose = "new − current" if changes else f"new − current, of the one {whose_gain(study.result)}"
    known = {
        answer.called: study.chosen_name,
        whose: "" if gain is None else str(gain),
        "value": f"{readable(estimate.value, error)} {between(estimate.low, estimate.high, error)}",
        "verdict": estimate.verdict if changes else "",
    }
    return block(answer.headline, answer.words, answer.why, f"Next: {answer.next}") + facts("Study", {**known, **place})


# What a study knows about its policies, in a few named sentences: for model cards and exported files.


def findings(
    result: ChoiceRecord, record: StudyRecord, *, promising: bool = False, lotless: bool = False
) -> dict[str, str]:
    """Of the recommended policy, of the one that is worth a trial and not shown to be better, or without lots."""
    place = result.promising if promising else result.lotless if lotless else result.chosen
    if place is None:
        return {}
    shown = place == result.chosen
    answer = Answer.of(result, record.settings, record)
    said = answer.headline if shown else answer.words if lotless else _trial(result, record, place)
    # The gain of a study is that of its choice; where there is none, of the policy that is worth a trial.
    gain = result.gain if shown or (result.chosen is None and not lotless) else None
    known = {
        "answer": said,
        "gain over current practice": "" if gain is None else str(gain),
        "verdict on the estimate": result.points[place].verdict or "",
        "episodes that judged it": f"{record.data.validation_episodes:,}",
        "clusters that judged it": "" if result.estimate.diagnostics.n_clusters is None else result.units,
        "returns": "" if (cap := record.settings.scoring.cap) is None else cap.in_words.removeprefix("returns "),
        "propensities": record.data.propensities.removeprefix("propensities: "),
    }
    return {name: text for name, text in known.items() if text}


def _trial(result: ChoiceRecord, record: StudyRecord, place: int) -> str:
    own, error = result.points[place].metrics.get("own"), record.logging_policy.standard_error
    unit = record.outcome or Outcome()
    confidence = f"{100 * record.settings.selection.confidence:g}%"
    least = "" if own is None else f" at least {unit.amount(own, error)} if it had been the only one tried "
    known = least and f"({confidence}), but"
    return f"Worth a trial:{least}{known} not shown among all policies. Try it only where that is safe."
