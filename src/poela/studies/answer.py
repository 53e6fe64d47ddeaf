"""The answer of a study in words: change or keep, how sure that is, why, and what to do next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poela.core.errors import InputError
from poela.core.readable import about, factor_in_words, readable
from poela.evaluation.verdict import chances
from poela.studies.records import ChoiceRecord, StudyRecord
from poela.studies.selection import Point
from poela.studies.settings import StudySettings

MOST_EPISODES = 1000  # times those of the log: what would need more is not worth a number


def none_trusted(points: Sequence[Point]) -> bool:
    """Whether every policy was found not to be trusted.

    >>> none_trusted([Point("a", 0, True, {}, "do not trust")]), none_trusted([])
    (True, False)
    """
    return bool(points) and all(point.verdict == "do not trust" for point in points)


@dataclass(frozen=True)
class Answer:
    """What to do in one sentence, why in two, and what to do next."""

    change: bool
    headline: str
    why: str
    next: str
    words: str = ""  # the best policy that can be said, and what is shown of it

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.headline, self.words, self.why, f"Next: {self.next}")))

    @classmethod
    def of(cls, result: ChoiceRecord, settings: StudySettings, record: StudyRecord) -> "Answer":
        """From what came of a study."""
        if settings.selection.by != "gain":
            return _of_capped(_of_estimate(result), result, settings)
        confidence = f"{100 * settings.selection.confidence:g}%"
        said = _keep if result.chosen is None else _change
        answer = said(result, record, confidence, settings.selection.sensitivity)
        words = "" if result.chosen is None else _in_words(result, record)
        return _of_capped(replace(answer, words=words), result, settings)


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


def _change(result: ChoiceRecord, record: StudyRecord, confidence: str, allowed: float) -> Answer:
    gain, error = result.gain, record.logging_policy.standard_error
    if gain is None or gain.low is None:
        raise InputError("choice.json names a policy but no gain that is shown: it was changed")
    least, best = readable(gain.low, error, signed=True), readable(gain.value, error, signed=True)
    known = chances(record.data.layout.is_real)
    cases = f"{record.data.validation_episodes:,} held-out episodes"
    judged = sum(point.metrics.get("shown") is not None for point in result.points)
    shown = (
        f"{cases} show it, by importance sampling, for all {judged} policies together that they can judge, "
        f"of {len(result.points)} that were tried. "
        "The best of many estimates is often too high: count on the lower end."
    )
    if result.points[result.chosen or 0].metrics.get("smoothing"):
        shown += " It was judged with 1% of the logging policy mixed in, since it is greedy."
    if not record.data.estimated:
        headline = f"Change: at least {least} better than what is done now ({confidence}); best estimate {best}."
        return Answer(True, headline, f"{shown}{_undone_by(gain.sensitivity)}", f"{TRY_IT} {known}.")
    return Answer(
        True,
        f"Change, if the log tells what decisions were based on: at least {least} better than what is done now "
        f"({confidence}, and weights wrong by a factor of {allowed:g}); best estimate {best}.",
        f"{shown}{_undone_by(gain.sensitivity)} {known.capitalize()} are estimated: where those who decided knew more "
        "than the log, what they knew may be why some fared better, and no number here can rule that out.",
        f"ask those who decided what else they looked at; then {TRY_IT} {known}.",
    )


def _in_words(result: ChoiceRecord, record: StudyRecord) -> str:
    """The best policy that can be said, and what is shown of it; empty where there is none."""
    if result.plain is None or not result.words:
        return ""
    shown = result.points[result.plain].metrics.get("shown")
    least = readable(shown, record.logging_policy.standard_error, signed=True)
    rule = result.words[:1].lower() + result.words[1:].rstrip(".")
    other = "" if result.plain == result.chosen else ", the best policy that can be said"
    return f"In words{other}: {rule}; at least {least}."


TRY_IT = "look at where the policy departs from current practice, try it on a few, and keep logging"


def _undone_by(factor: float | None) -> str:
    if factor is None:
        return ""
    wrong = f"weights wrong by a factor of {factor_in_words(factor)}"
    return f" Something that was not recorded would have to make {wrong} to undo it."


def _keep(result: ChoiceRecord, record: StudyRecord, confidence: str, allowed: float) -> Answer:
    known = chances(record.data.layout.is_real)
    action = f"carry on as before, and gather more episodes with their {known}; then learn again."
    if record.data.estimated:
        action = f"record the {known} of decisions from now on: estimated ones can hardly show a gain."
    if none_trusted(result.points):
        action = "carry on as before; see to what keeps these policies from being trusted, and then learn again."
    return Answer(
        False,
        f"Keep what you do: nothing is shown to be better ({confidence}).",
        f"{result.reason[:1].upper()}{result.reason[1:]}. {_hope(result, record, allowed)}.",
        action,
    )


def _hope(result: ChoiceRecord, record: StudyRecord, allowed: float) -> str:
    """The most promising policy: how much it may gain, how few cases speak for it, and what would show it."""
    gain, error = result.gain, record.logging_policy.standard_error
    if none_trusted(result.points) or gain is None or gain.low is None or gain.high is None or result.promising is None:
        return "No policy has an estimate that could be believed"
    ends = f"{readable(gain.low, error, signed=True)} to {readable(gain.high, error, signed=True)}"
    best = readable(gain.value, error, signed=True)
    estimate = f"{best} ({ends})"
    if best == readable(0.0, error, signed=True):
        return f"Even the most promising policy looks no better: {estimate}"
    if gain.value < 0:
        return f"Even the most promising policy looks worse: {estimate}"
    cases = result.points[result.promising].metrics.get("ess") or 0.0
    hope = (
        f"The most promising policy looks better by {estimate}, but no more than {cases:,.0f} past cases speak for it"
    )
    if result.needed is None or result.needed <= record.data.validation_episodes:
        return hope + _not_for_want_of_episodes(result.points[result.promising].verdict, record, allowed)
    if result.needed > MOST_EPISODES * record.data.validation_episodes:
        return f"{hope}; even {MOST_EPISODES:,} times as many episodes would hardly show it"
    return f"{hope}; if that is right, about {about(result.needed)} episodes would show it"


def _not_for_want_of_episodes(verdict: str, record: StudyRecord, allowed: float) -> str:
    """What else keeps a gain from being shown."""
    if record.data.estimated and allowed > 1:
        known = chances(record.data.layout.is_real)
        return (
            f"; {known} are estimated, so that weights may be wrong by a factor of {allowed:g}, and more episodes "
            "would not make up for that"
        )
    return "; what is missing are not episodes: its verdict is caution" if verdict == "caution" else ""


def _of_estimate(result: ChoiceRecord) -> Answer:
    headline = "Keep what you do." if result.chosen is None else f"Chosen: {result.policy}."
    return Answer(
        result.chosen is not None,
        headline,
        f"{result.reason[:1].upper()}{result.reason[1:]}.",
        "look at the estimate on the test episodes and its verdict.",
    )
