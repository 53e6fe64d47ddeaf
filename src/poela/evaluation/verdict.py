"""Whether to believe an estimate: `trust`, `caution` or `do not trust`, with the reasons in words and numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from poela.evaluation.diagnostics import Diagnostics

Word = Literal["trust", "caution", "do not trust"]
WORDS: tuple[Word, Word, Word] = ("trust", "caution", "do not trust")


@dataclass(frozen=True)
class TrustThresholds:
    """From where on an estimate is doubtful, and from where on it is not to be believed: pairs of (caution, distrust).

    Below an ESS of about 100 no interval holds its level reliably; k̂ of 0.5 and 0.7 are where the variance
    of the weights stops to exist and where their mean can no longer be relied on at usual sizes (Vehtari et al. 2024).
    """

    ess: tuple[float, float] = (100.0, 20.0)
    largest_share: tuple[float, float] = (0.1, 0.3)
    pareto_k: tuple[float, float] = (0.7, 1.0)
    mean_weight_z: tuple[float, float] = (3.0, 6.0)
    truncated_share: tuple[float, float] = (0.0, 0.01)
    stranded_share: tuple[float, float] = (0.05, 0.5)


@dataclass(frozen=True)
class Verdict:
    """The word, and what speaks for it; the gravest reason comes first.

    >>> print(Verdict("caution", ("ESS 42 of 1000",)))
    caution: ESS 42 of 1000
    """

    word: Word
    reasons: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.word}: {'; '.join(self.reasons)}" if self.reasons else self.word


def verdict_on(
    diagnostics: Diagnostics, thresholds: TrustThresholds | None = None, *, model_only: bool = False
) -> Verdict:
    """The verdict on an estimate from its diagnostics; `model_only` is for estimates that use no weights but a model.

    >>> import numpy as np
    >>> from poela.evaluation.diagnostics import diagnose
    >>> from poela.evaluation.weights import LogWeights
    >>> one_heavy = LogWeights(np.log([1.0] * 99 + [140.0]), np.arange(101))
    >>> print(verdict_on(diagnose(one_heavy)).reasons[0])
    ESS 2.9 of 100: one episode carries 59% of the weight
    """
    if model_only:
        return Verdict("caution", ("the value is that of a model alone: no weights check it against what was logged",))
    if not diagnostics.ess > 0:
        return Verdict("do not trust", ("no logged episode has weight: the logs do not tell what this policy does",))
    found = sorted(_findings(diagnostics, thresholds or TrustThresholds()), key=lambda finding: -finding[0])
    if found:
        return Verdict(WORDS[found[0][0]], tuple(sentence for _, sentence in found))
    return Verdict("trust", (_size(diagnostics),))


def _findings(diagnostics: Diagnostics, thresholds: TrustThresholds) -> Iterator[tuple[int, str]]:
    """How grave (1: caution, 2: distrust) and why, for each thing that is wrong."""
    d, t = diagnostics, thresholds
    small, concentrated = _grade(-d.ess, (-t.ess[0], -t.ess[1])), _grade(d.largest_share, t.largest_share)
    if small or concentrated:
        yield max(small, concentrated), _size(d)
    if (grade := _grade(-d.recombined_ess, (-t.ess[0], -t.ess[1]))) > small:
        yield grade, f"{_expected(d)}: the heaviest weights have not been seen"
    if grade := _grade(d.pareto_k, t.pareto_k):
        yield (
            grade,
            f"the weights have a heavy tail (Pareto k {d.pareto_k:.2f}): the largest may not have been seen yet",
        )
    if grade := _grade(abs(d.mean_weight_z), t.mean_weight_z):
        yield (
            grade,
            f"the mean weight is {d.mean_weight:.3g}, {abs(d.mean_weight_z):.1f} standard errors from 1: "
            "the propensities are wrong, or the weights' tail is missing",
        )
    if grade := _grade(d.truncated_share, t.truncated_share):
        yield grade, f"the weights of {d.truncated_share:.2%} of episodes were truncated: the estimate is biased"
    stranded = (d.stranded_steps or 0) / d.n_steps
    if grade := _grade(stranded, t.stranded_share):
        yield grade, f"at {stranded:.0%} of steps no action was near a logged one and the policy fell back"


def _grade(value: float, limits: tuple[float, float]) -> int:
    """How many of the limits are passed; what is unknown (NaN) passes none."""
    return int(value > limits[0]) + int(value > limits[1])


def _size(diagnostics: Diagnostics) -> str:
    d = diagnostics
    share = f"{d.largest_share:.{0 if d.largest_share > 0.01 else 1}%}"
    return f"ESS {d.ess:.{_digits(d.ess)}f} of {d.n_episodes}: one episode carries {share} of the weight"


def _expected(diagnostics: Diagnostics) -> str:
    d = diagnostics
    expected = f"{d.recombined_ess:.{_digits(d.recombined_ess)}f}"
    return f"ESS {d.ess:.0f} of {d.n_episodes}, where the same steps in other combinations let one expect {expected}"


def _digits(ess: float) -> int:
    return 1 if ess < 10 else 0
