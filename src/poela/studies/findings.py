"""What a study knows about its policies, in a few named sentences: for model cards and exported files."""

from poela.studies.answer import Answer
from poela.studies.outcome_unit import Outcome
from poela.studies.records import ChoiceRecord, StudyRecord


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
