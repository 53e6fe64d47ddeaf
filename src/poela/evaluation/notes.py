"""What to know about how an estimate was computed, in sentences."""

import numpy as np

from poela.evaluation.cap import Beyond
from poela.stats.bounds import Interval, carriers
from poela.stats.contributions import Contributions
from poela.stats.diagnostics import Diagnostics
from poela.stats.gain import Gain


def computing_notes(
    contributions: Contributions, diagnostics: Diagnostics, interval: Interval | None, resamples: int
) -> tuple[str, ...]:
    """What went wrong in computing; whether to believe the result is the verdict's part."""
    notes = []
    if diagnostics.ess == 0:
        notes.append("every weight is zero: the policy takes none of the logged actions, so nothing can be estimated")
    elif np.isnan(contributions.value):
        notes.append("at some step every weight is zero: this estimator has nothing to weight from there on")
    elif np.isinf(contributions.value):
        notes.append("weights exceed floating point: use a self-normalised or truncated estimator")
    elif carriers(contributions) == 1:
        notes.append("a single episode has weight: its return is the estimate, and nothing tells how far off that is")
    if interval is not None and interval.undefined_resamples:
        notes.append(
            f"{interval.undefined_resamples} of {resamples} resamples drew only zero weights and were left out"
        )
    return tuple(notes)


def smoothing_notes(share: float) -> tuple[str, ...]:
    """That it is a mixture that was evaluated, where it was.

    >>> smoothing_notes(0.0)
    ()
    """
    return (f"{share:.0%} of the logging policy is mixed into this greedy policy: the mixture is evaluated",) * (
        share > 0
    )


def cap_notes(beyond: Beyond | None, gain: Gain | None, level: float) -> tuple[str, ...]:
    """What lies beyond the cap, where there is one.

    >>> cap_notes(None, None, 0.95)
    ()
    """
    if beyond is None:
        return ()
    least = None if gain is None or gain.low is None or gain.low <= 0 else gain.low
    words = beyond.in_words(least, (1 + level) / 2).removesuffix(".")
    return (f"{beyond.cap.in_words}: {words}",)
