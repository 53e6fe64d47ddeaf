"""Whether to believe an estimate: `trust`, `caution` or `do not trust`, with the reasons, and what to do next."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from poela.core.readable import effective, plain
from poela.stats.diagnostics import Diagnostics

Word = Literal["trust", "caution", "do not trust"]
WORDS: tuple[Word, Word, Word] = ("trust", "caution", "do not trust")

ACT = "You may use this policy; expect at least the lower end of its interval."
NOT_SHOWN = "The estimate is reliable, but shows no gain over what is done now: keep to that, or collect more episodes."
LESS = "Evaluate a policy closer to the logging policy, or collect more episodes."
UNUSUAL = "add to the context what makes these episodes unusual."
PROPENSITIES, EVERY = "propensities", "the propensities of every action"
MEND = "Fix the logs and evaluate again: more episodes with the same fault would not help."
NEVER_DONE = (
    "Learn with a rule that bars them, or declare the range of returns (--returns), so that the worst case counts."
)
LOGGED = "Use logs with recorded {known}, or check the conclusion with other behavior models."
TAIL = "what single cases add to the gain is so skewed towards losses that a few unseen ones could undo it"
SEEN = "Find out why outcomes were not observed, and follow up some of those who were lost."


@dataclass(frozen=True)
class TrustThresholds:
    """From where on an estimate is doubtful, and from where on it is not to be believed: pairs of (caution, distrust).

    They were set on processes of many kinds and measured on others (`benchmarks/coverage.py`): with them about 95% of
    the intervals of trusted estimates hold the truth, whatever the effective sample size.
    """

    ess: tuple[float, float] = (40.0, 15.0)  # effective sample size, at least
    expected_ess: tuple[float, float] = (25.0, 8.0)  # that of typical returns, at least
    spliced_ess: tuple[float, float] = (60.0, 15.0)  # the same, where it is known less well
    expected_share: tuple[float, float] = (0.2, 0.1)  # of the log's own effective sample size
    largest_share: tuple[float, float] = (0.1, 0.3)  # weight of one episode, at most
    pareto_k: tuple[float, float] = (0.7, 1.0)  # where the weights' tail can only be guessed (Vehtari et al. 2024)
    mean_weight_z: tuple[float, float] = (3.0, 6.0)  # errors of the mean weight from 1, at most
    missing_weight_z: tuple[float, float] = (2.3, 6.0)  # below 1: of what was never done, no weight is left
    outside_share: tuple[float, float] = (0.01, 0.1)  # of decisions
    truncated_share: tuple[float, float] = (0.0, 0.01)  # of episodes with truncated weights, at most
    stranded_share: tuple[float, float] = (0.05, 0.5)  # of decisions unlike anything logged, at most
    events: tuple[float, float] = (4.0, 1.0)  # effective yes (or no) outcomes, at least
    return_skew: tuple[float, float] = (0.2, 0.6)  # of returns, over √ESS, at most
    gain_skew: tuple[float, float] = (0.15, 0.6)  # towards losses, of what units add to the gain, over √units, at most
    trait_ratio: tuple[float, float] = (1.2, 2.0)  # error with traits of episodes over that without


@dataclass(frozen=True)
class Verdict:
    """The word, what speaks for it (the gravest reason first), and what to do next.

    >>> print(Verdict("caution", ("ESS 42 of 1000",)))
    caution: ESS 42 of 1000
    """

    word: Word
    reasons: tuple[str, ...] = field(default=())
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {'; '.join(self.reasons)}" if self.reasons else self.word


def verdict_on(
    diagnostics: Diagnostics,
    thresholds: TrustThresholds | None = None,
    *,
    leans_on_model: bool = False,
    estimated: bool = False,
    wrong: str = "",
    known: str = PROPENSITIES,
    every: str = EVERY,
    bounded: bool = False,
    lost: float = 0.0,
) -> Verdict:
    """The verdict on an estimate from its diagnostics.

    `leans_on_model` is for estimates whose model is not wholly corrected by weights, `estimated` for propensities that
    a model made: neither is ever above caution. `wrong` says what is wrong with the logs themselves, if anything is;
    `known` is what is known of the logging policy, in words, and `every` what of it would show how large weights can
    be, if that can be logged; `bounded` is for returns whose range is known, so that
    the worst that lies outside support can be counted; `lost` is the share of episodes whose outcome was not seen, for
    which estimated chances of being seen make up.

    >>> import numpy as np
    >>> from poela.stats.diagnostics import diagnose
    >>> from poela.stats.weights import LogWeights
    >>> one_heavy = LogWeights(np.log([1.0] * 99 + [140.0]), np.arange(101))
    >>> print(verdict_on(diagnose(one_heavy)).reasons[0])
    ESS 2.9 of 100: one episode carries 59% of the weight
    """
    findings: list[Finding] = [(2, wrong, MEND)] if wrong else []
    if leans_on_model:
        sentence = "the estimate relies on a model of values that weights correct only in part"
        findings.append((1, sentence, "Use it to rank policies; to show a gain, use sntis."))
    elif not diagnostics.ess > 0:
        sentence = "no logged episode has weight: these logs say nothing about this policy"
        return Verdict("do not trust", (sentence,), LESS)
    if not leans_on_model or diagnostics.ess > 0:
        findings += _findings(diagnostics, thresholds or TrustThresholds(), known, every)
        findings += _of_support(diagnostics, thresholds or TrustThresholds(), bounded)
    if estimated:
        sentence = f"the {known} are estimated, and the interval treats them as known"
        findings.append((1, sentence, LOGGED.format(known=known)))
    if lost:
        sentence = f"{lost:.0%} of outcomes were not seen, and the chances of being seen are estimates of a model"
        findings.append((1, sentence, SEEN))
    if not findings:
        return Verdict("trust", (_size(diagnostics),), ACT)
    findings.sort(key=lambda finding: -finding[0])
    grade = min(findings[0][0], 1) if leans_on_model else findings[0][0]
    return Verdict(WORDS[grade], tuple(sentence for _, sentence, _ in findings), findings[0][2])


Finding = tuple[int, str, str]  # how grave (1: caution, 2: distrust), why, and what to do


def _log_every(every: str, why: str, otherwise: str) -> str:
    """Advice to log what the logging policy gave to every action, where that can be had; or else."""
    if not every:
        return f"{otherwise[0].upper()}{otherwise[1:]}"
    return f"Log {every}{why}, or {otherwise[0].lower()}{otherwise[1:]}"


def _findings(d: Diagnostics, t: TrustThresholds, known: str, every: str) -> Iterator[Finding]:
    small, concentrated = _grade(-d.ess, _negative(t.ess)), _grade(d.largest_share, t.largest_share)
    if small or concentrated:
        yield max(small, concentrated), _size(d), LESS
    missing = max(
        _grade(-d.expected_ess, _negative(t.expected_ess if d.redrawn else t.spliced_ess)),
        _grade(-d.expected_ess / d.ess, _negative(t.expected_share)),
    )
    if missing > small:
        yield missing, f"{_expected(d)}: the largest weights are probably missing from these logs", LESS
    if not d.redrawn and (grade := _grade(d.pareto_k, t.pareto_k)):
        yield (
            grade,
            f"the weights have a heavy tail (Pareto k {d.pareto_k:.2f}): the largest may be missing from these logs",
            _log_every(every, ", which shows the tail as it is", LESS),
        )
    if grade := max(_grade(abs(d.mean_weight_z), t.mean_weight_z), _grade(-d.mean_weight_z, t.missing_weight_z)):
        yield (
            grade,
            f"the mean weight is {plain(d.mean_weight)}, {abs(d.mean_weight_z):,.1f} standard errors from 1: "
            f"the {known} are wrong, or the largest weights are missing",
            f"Check the {known}: they must be those at the moment of decision, given all it depended on.",
        )
    if grade := _grade(d.truncated_share, t.truncated_share):
        yield grade, f"the weights of {d.truncated_share:.2%} of episodes were truncated: the estimate is biased", LESS
    stranded = (d.stranded_steps or 0) / d.n_steps
    if grade := _grade(stranded, t.stranded_share):
        yield (
            grade,
            f"at {stranded:.0%} of steps no action was eligible, and the policy used its fallback",
            "Widen the radius, or choose another fallback.",
        )
    yield from _of_returns(d, t, every)


def _of_support(d: Diagnostics, t: TrustThresholds, bounded: bool) -> Iterator[Finding]:
    grade = _grade(d.outside_share, t.outside_share)
    if grade == 2 or (grade and not bounded):
        yield (
            grade,
            f"{d.outside_share:.1%} of its decisions were never made in similar cases, so their outcomes are unknown",
            NEVER_DONE,
        )


def _of_returns(d: Diagnostics, t: TrustThresholds, every: str) -> Iterator[Finding]:
    if grade := _grade(-d.events, _negative(t.events)):
        yield (
            grade,
            f"only {plain(round(d.events, 1))} effective episodes have the rarer outcome: too few to estimate its rate",
            "Collect more episodes, or choose a less rare outcome.",
        )
    if grade := _grade(d.return_skew, t.return_skew):
        yield (
            grade,
            f"returns are so skewed (skewness over √ESS {d.return_skew:.2f}) that a few of them dominate the mean",
            "Collect more episodes, or use capped returns (--cap 0.99) or their logarithm.",
        )
    if grade := _grade(d.gain_skew, t.gain_skew):
        yield (grade, TAIL, "Collect more episodes, declare the range of returns, or use capped ones (--cap 0.99).")
    if not d.redrawn and (grade := _grade(d.trait_ratio, t.trait_ratio)):
        yield (
            grade,
            f"log weights vary {d.trait_ratio:.1f} times as much as those of randomly combined steps: "
            "some episodes are unusual throughout",
            _log_every(every, "", UNUSUAL),
        )


def _negative(limits: tuple[float, float]) -> tuple[float, float]:
    return -limits[0], -limits[1]


def _grade(value: float, limits: tuple[float, float]) -> int:
    """How many of the limits are passed; what is unknown (NaN) passes none."""
    return int(value > limits[0]) + int(value > limits[1])


def _size(d: Diagnostics) -> str:
    share = f"{d.largest_share:.{0 if d.largest_share > 0.01 else 1}%}"
    one = "episode" if d.n_clusters is None else "cluster"
    return f"ESS {effective(d.ess)} of {d.units}: one {one} carries {share} of the weight"


def _expected(d: Diagnostics) -> str:
    how = "actions drawn anew" if d.redrawn else "the same steps in other combinations"
    return f"ESS {effective(d.ess)} of {d.units}, where {how} would give {effective(d.expected_ess)}"
