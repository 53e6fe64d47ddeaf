"""A study as notebooks show it: the answer in words, then what the recommended policy is worth."""

from typing import TYPE_CHECKING

from poela.core.readable import between, block, facts, readable
from poela.studies.answer import whose_gain

if TYPE_CHECKING:
    from poela.studies.study import Study


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
