"""What a study knows about its policies, in a few named sentences: for model cards and exported files."""

from poela.studies.answer import Answer
from poela.studies.records import ChoiceRecord, StudyRecord


def findings(result: ChoiceRecord, record: StudyRecord, *, promising: bool = False) -> dict[str, str]:
    """Of the recommended policy, or of the most promising one, which nothing has shown to be better."""
    place = result.promising if promising else result.chosen
    if place is None:
        return {}
    shown = place == result.chosen
    answer = Answer.of(result, record.settings, record)
    said = answer.headline if shown else "Nothing has shown it to be better: try it only where trying is safe."
    # The gain of a study is that of its choice; where there is none, of its most promising policy.
    gain = result.gain if shown or result.chosen is None else None
    known = {
        "answer": said,
        "gain over current practice": "" if gain is None else str(gain),
        "verdict on the estimate": result.points[place].verdict or "",
        "episodes that judged it": f"{record.data.validation_episodes:,}",
        "returns": "" if (cap := record.settings.scoring.cap) is None else cap.in_words.removeprefix("returns "),
        "propensities": record.data.propensities.removeprefix("propensities: "),
    }
    return {name: text for name, text in known.items() if text}
