"""The answer of a study in words: change or keep, how sure that is, why, and what to do next."""

from dataclasses import dataclass

from poela.core.errors import InputError
from poela.studies.records import ChoiceRecord, StudyRecord
from poela.studies.settings import StudySettings


@dataclass(frozen=True)
class Answer:
    """What to do in one sentence, why in two, and what to do next."""

    change: bool
    headline: str
    why: str
    next: str

    def __str__(self) -> str:
        return f"{self.headline}\n{self.why}\nNext: {self.next}"

    @classmethod
    def of(cls, result: ChoiceRecord, settings: StudySettings, record: StudyRecord) -> "Answer":
        """From what came of a study."""
        if settings.selection.by != "gain":
            return _of_estimate(result)
        confidence = f"{100 * settings.selection.confidence:g}%"
        return _change(result, record, confidence) if result.chosen is not None else _keep(result, record, confidence)


def _change(result: ChoiceRecord, record: StudyRecord, confidence: str) -> Answer:
    gain = result.gain
    if gain is None or gain.low is None:
        raise InputError("choice.json names a policy but no gain that is shown: it was changed")
    survives = ""
    if gain.sensitivity is not None:
        survives = f" It would take weights that are wrong by a factor of {gain.sensitivity:.3g} to undo it."
    estimated = " The propensities are estimates, which the bound allows for." * record.data.estimated
    return Answer(
        True,
        f"Change: at least {gain.low:+.3g} better than what is done now ({confidence}); "
        f"best estimate {gain.value:+.3g}.",
        f"Importance sampling on {record.data.validation_episodes} held-out episodes shows it, for all "
        f"{len(result.points)} policies that were tried together.{survives}{estimated}",
        "look at where the policy departs from current practice, try it on a few, and keep logging propensities.",
    )


def _keep(result: ChoiceRecord, record: StudyRecord, confidence: str) -> Answer:
    gain = result.gain
    hope = "no policy has an estimate that could be believed"
    if gain is not None and gain.high is not None:
        error = (gain.high - gain.value) / 2
        hope = f"the most promising policy is {gain.value:+.3g} ± {error:.2g}"
        if gain.value <= 0:
            hope = f"even the most promising policy looks worse ({gain.value:+.3g} ± {error:.2g})"
        elif result.needed is not None:
            hope += f" and would need about {_rounded(result.needed)} episodes to be shown"
    action = "carry on as before, and gather more episodes with their propensities; then learn again."
    if record.data.estimated:
        action = "record the propensities of decisions from now on: estimated ones can hardly show a gain."
    return Answer(
        False,
        f"Keep what you do: nothing is shown to be better ({confidence}); {hope}.",
        f"{result.reason[:1].upper()}{result.reason[1:]}.",
        action,
    )


def _of_estimate(result: ChoiceRecord) -> Answer:
    headline = "Keep what you do." if result.chosen is None else f"Chosen: {result.policy}."
    return Answer(
        result.chosen is not None,
        headline,
        f"{result.reason[:1].upper()}{result.reason[1:]}.",
        "look at the estimate on the test episodes and its verdict.",
    )


def _rounded(number: float) -> str:
    """Two digits of a large number.

    >>> _rounded(4321.0), _rounded(87.4)
    ('4,300', '87')
    """
    digits = max(len(f"{number:.0f}") - 2, 0)
    return f"{round(number, -digits):,.0f}"
