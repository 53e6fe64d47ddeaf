"""Choosing a policy by its validation metrics: the protocols of the paper, and safer ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Any

from poela.core.errors import InputError
from poela.core.options import CHOOSING, Option
from poela.core.readable import plain
from poela.core.references import described, is_reference, named
from poela.core.registry import Registry
from poela.core.typed import NonNegative, Range, Unknowable, Whole, named_in, one_of, refuse_problems
from poela.studies.guards import Guard, failures_in_words, guards_in, keeps_guards, spend_guards
from poela.studies.plainness import plainness_of

# Which policies importance sampling shows to be better than the logging policy, one by one.


def shown_to_be_better(
    policies: "Sequence[Point]", logging: "LoggingValue", confidence: float, n_episodes: int
) -> "list[Point]":
    """Those whose SNTIS is above the logging policy's mean, with this confidence in all of them together.

    By Student's t with as many observations as there are effective episodes; Bonferroni's correction makes up for how
    many policies there are. The standard error is at least what that many logged returns would have, since the usual
    one is near zero where one episode has all the weight.

    >>> from poela.studies.selection import LoggingValue, Point
    >>> logging = LoggingValue(value=50.0, standard_error=1.0)
    >>> strong = Point("a", 0, True, {"sntis": 60.0, "sntis_error": 1.5, "ess": 60.0})
    >>> lucky = Point("b", 0, True, {"sntis": 90.0, "sntis_error": 0.1, "ess": 1.1})
    >>> [item.path_id for item in shown_to_be_better([strong, lucky], logging, 0.95, n_episodes=100)]
    ['a']
    """
    from scipy.special import stdtrit

    level = 1 - (1 - confidence) / max(len(policies), 1)
    spread = logging.standard_error * math.sqrt(n_episodes)
    shown = []
    for item in policies:
        value, error, ess = (item.metrics.get(name) for name in ("sntis", "sntis_error", "ess"))
        if value is None or error is None or ess is None or ess <= 1:
            continue
        least = math.hypot(max(error, spread / math.sqrt(ess)), logging.standard_error)
        if value - stdtrit(ess - 1, level) * least > logging.value:
            shown.append(item)
    return shown


# What a policy is chosen by: a function of points, `Selection`, number of episodes, the logging policy's value, and
# whether propensities are estimated, that makes a `Choice`.
RULES: "Registry[Rule]" = Registry(
    "poela.selection_rules",
    {
        "gain": "poela.studies.selection:by_gain",  # that importance sampling shows, for all policies together
        "sntis": "poela.studies.selection:by_estimate",
        "wdr": "poela.studies.selection:by_estimate",
        "guarded": "poela.studies.selection:by_estimate",  # doubly robust, as far as effective episodes support it
    },
)
NO_RUN = "no run has finished with a policy: the logging policy is kept"
NO_WEIGHT = math.ulp(0.0)  # an effective sample size below this is zero


@dataclass(frozen=True)
class Selection:
    """How the policy is chosen.

    By "gain": the policy with the highest lower bound of its gain over the logging policy that holds, with this
    `confidence`, for all policies together; only policies whose estimate can be trusted take part, and where
    propensities are estimated the gain must survive weights that are wrong by a factor of `sensitivity` (Γ). Of those
    whose bound is within the share `simplest` of the highest, the plainest is taken. Policies that may break one of the
    `guards` ("kidney_failure <= +0.01": by how much an outcome may change, relative to the logging policy) do not take
    part. Nor do those that may spend more than `spend` per case, at what decisions `cost`, or beyond a `capacity`.

    Else `by` names the estimate (see `RULES`), or is a function from the judged points to one of them (None: to keep
    the logging policy), and `confidence` says which lower confidence bound of it counts (0.5:
    the estimate itself); `checkpoints` says whether only each run's final policy takes part or every checkpoint.
    `min_ess` is the least effective sample size: a number of episodes, or below 1 a share of them. The paper's
    protocols are `Selection("sntis", "final")` and `Selection("sntis", "best", min_ess=200)`. With `proof` a policy
    takes part, where propensities are estimated, only if importance sampling shows with this confidence, over all
    policies that are tried, that it is better than the logging policy (0: not asked).
    """

    by: Annotated[
        str,
        named_in(RULES),
        Option(
            "Criterion for choosing the policy. gain: the largest gain over current practice that is shown; or an "
            "off-policy estimate: guarded, wdr, sntis (the paper's).",
            CHOOSING,
            name="choose_by",
            takes="str | Callable[[Sequence[Point]], Point | None]",
        ),
    ] = "sntis"
    checkpoints: Annotated[
        str,
        one_of("final", "best"),
        Option("Which checkpoints of a run compete. best: all of them; final: only the last.", CHOOSING),
    ] = "final"
    confidence: Annotated[
        float,
        Range(least=0.5, below=1),
        Option(
            "Confidence of what is shown (default 0.95) or, when choosing by an estimate, of its lower bound (default "
            "0.99; 0.5: compare the estimates themselves).",
            CHOOSING,
            open=True,
        ),
    ] = 0.5
    min_ess: Annotated[
        NonNegative,
        Option(
            "Smallest effective sample size of the chosen policy, in episodes (below 1: as a share of them). Higher "
            "is safer and more modest.",
            CHOOSING,
        ),
    ] = 0.0
    # confidence that a policy must be better with; 0: none asked
    proof: Annotated[float, Range(least=0, below=1)] = 0.0
    sensitivity: Annotated[
        float,
        Range(least=1),
        Option(
            "With estimated propensities: the factor (Γ) by which hidden confounding may distort the weights without "
            "undoing a gain. 1: no hidden confounding.",
            CHOOSING,
        ),
    ] = 1.5
    simplest: Annotated[
        float,
        Range(least=0, below=1),
        Option(
            "Recommend the simplest policy whose shown gain is within this share of the best one's (0: always the "
            "best one).",
            CHOOSING,
        ),
    ] = 0.1
    guards: Annotated[
        tuple[str, ...],
        Option(
            'Guardrail, the largest allowed change of another outcome: "kidney_failure <= +0.01"; or of the return in '
            'each group: "return by ward >= -0.02". A policy that may exceed it is not recommended. May be repeated.',
            CHOOSING,
            kind=list[str],
            flag="--guard",
            takes="Sequence[str]",
        ),
    ] = ()

    cost: Annotated[
        str,
        Option(
            "What decisions cost: a column (or formula), or an amount for each action: large=3,small=1 (others cost "
            "nothing). The answer then reports what policies spend per case.",
            CHOOSING,
        ),
    ] = ""
    spend: (
        Annotated[
            NonNegative,
            Option("Most to spend per case on average; a policy that may spend more is not recommended.", CHOOSING),
        ]
        | None
    ) = None
    capacity: Annotated[
        str,
        Option(
            "How many cases may get an action: large=100 (of the cases in the log) or large=100/1000 (per 1,000); a "
            "policy that may need more on average is not recommended.",
            CHOOSING,
        ),
    ] = ""

    def __post_init__(self) -> None:
        one: object = self.guards
        if isinstance(one, str):
            object.__setattr__(self, "guards", (one,))
        object.__setattr__(self, "by", named(self.by))  # a function takes the place of a name
        refuse_problems(self)
        if self.by == "gain" and self.confidence == 0.5:
            raise InputError("confidence is 0.5: showing a gain needs more, for example 0.95")
        if self.rails and self.by != "gain":
            raise InputError(f"guardrails are for policies that are chosen by gain, not by {self.by}: choose by gain")

    @property
    def rails(self) -> tuple[Guard, ...]:
        """All guardrails: what may change, and what may be spent."""
        return (*guards_in(self.guards), *spend_guards(self.cost, self.spend, self.capacity))

    def least_ess(self, n_episodes: int) -> float:
        """The least effective sample size, in episodes.

        >>> Selection(min_ess=0.1).least_ess(200), Selection(min_ess=30).least_ess(200)
        (20.0, 30)
        """
        return self.min_ess * n_episodes if self.min_ess < 1 else self.min_ess

    def bound(self, value: float | None, error: float | None) -> float | None:
        """What is maximised: the lower bound of an estimate with this standard error.

        >>> Selection(confidence=0.5).bound(3.0, None), round(Selection(confidence=0.95).bound(3.0, 1.0), 3)
        (3.0, 1.355)
        """
        if value is None or self.confidence == 0.5:
            return value
        return None if error is None else value - NormalDist().inv_cdf(self.confidence) * error

    def score(self, metrics: Mapping[str, float | None]) -> float | None:
        """The score of a point; None where it cannot be computed."""
        if self.by == "gain":
            return metrics.get("shown")
        return self.bound(metrics.get(self.by), metrics.get(f"{self.by}_error"))

    def __str__(self) -> str:
        if self.by == "gain":
            return f"the gain shown with {100 * self.confidence:g}% confidence"
        bound = "" if self.confidence == 0.5 else f"{100 * self.confidence:g}% lower bound of "
        return f"{bound}{described(self.by)} ({self.checkpoints} checkpoints)"


@dataclass(frozen=True)
class LoggingValue:
    """What the logging policy achieved: the mean return of logs, and its standard error."""

    value: float
    standard_error: Unknowable
    ess: float | None = None  # how many cases speak for it in effect; None: all, or the record is older than this


@dataclass(frozen=True)
class Point:
    """One policy of one path, as selection sees it: judged on the held-out episodes of all folds together."""

    path_id: str  # of the path that it is on
    number: Whole  # on its path
    final: bool  # whether it is the end of its path
    metrics: Mapping[str, float | None]  # its estimates on held-out episodes
    verdict: str = ""  # whether they are to be believed

    @property
    def run_id(self) -> str:
        """The run of the first fold: in a study of one split, the only one."""
        return f"{self.path_id}-0"


@dataclass(frozen=True)
class Choice:
    """The chosen point (None: the logging policy), its score, and why."""

    chosen: Point | None
    score: float | None
    reason: str


Rule = Callable[[Sequence[Point], Selection, int, LoggingValue | None, bool], Choice]


def choose(
    checkpoints: Sequence[Point],
    selection: Selection,
    n_episodes: int,
    logging: LoggingValue | None = None,
    estimated: bool = False,
) -> Choice:
    """The best qualified checkpoint; of equals the one with more effective episodes, then the one listed first.

    `n_episodes` is the number of validation episodes, `estimated` whether weights rest on estimated propensities. The
    logging policy takes part where its value is given; it is kept where no policy qualifies or none scores higher.

    >>> weak = Point("a", 0, True, {"sntis": 5.0, "ess": 2.0})
    >>> strong = Point("b", 0, True, {"sntis": 4.0, "ess": 90.0})
    >>> choose([weak, strong], Selection(min_ess=30), n_episodes=100).chosen.path_id
    'b'
    >>> choose([weak], Selection(min_ess=3), n_episodes=100).reason
    'none of 1 policies has an effective sample size of 3 or more on the validation logs: the logging policy is kept'
    """
    if not is_reference(selection.by):
        return RULES[selection.by](checkpoints, selection, n_episodes, logging, estimated)
    own: Any = RULES[selection.by]
    best: Choice | Point | None = own(checkpoints)
    if isinstance(best, Choice):
        return best
    kept = ": the logging policy is kept" if best is None else f" of {len(checkpoints)} policies"
    return Choice(best, None, f"the choice of {described(selection.by)}{kept}")


def by_estimate(
    checkpoints: Sequence[Point],
    selection: Selection,
    n_episodes: int,
    logging: LoggingValue | None,
    estimated: bool,
) -> Choice:
    """The best by an estimate, or by a lower bound of it."""
    entered = [item for item in checkpoints if item.final or selection.checkpoints == "best"]
    least = selection.least_ess(n_episodes)
    qualified = [item for item in entered if (item.metrics.get("ess") or 0.0) >= max(least, NO_WEIGHT)]
    scored = [(score, item) for item in qualified if (score := selection.score(item.metrics)) is not None]
    own = None if logging is None else selection.bound(logging.value, logging.standard_error)
    if not scored:
        return Choice(None, own, _why_none(len(entered), len(qualified), least))
    if logging is not None and estimated and selection.proof > 0:
        shown_better = shown_to_be_better([item for _, item in scored], logging, selection.proof, n_episodes)
        if not shown_better:
            return Choice(None, own, _why_unproven(len(scored), selection.proof))
        scored = [(score, item) for score, item in scored if item in shown_better]
    # max keeps the first of equals, so the order of candidates decides last.
    score, best = max(scored, key=lambda pair: (pair[0], pair[1].metrics.get("ess") or 0.0))
    if score <= (-math.inf if own is None else own):
        return Choice(
            None, own, f"none of {len(scored)} policies scores above it by {selection}: the logging policy is kept"
        )
    return Choice(best, score, f"the best of {len(scored)} qualified policies by {selection}; {len(entered)} took part")


def by_gain(points: Sequence[Point], selection: Selection, *unused: object) -> Choice:
    """The largest gain that is shown, or nearly so by the plainest policy.

    >>> tilt = Point("a", 0, True, {"shown": 1.0})
    >>> never, rule = (Point("b", place, True, {"shown": 0.95 - place / 100, "plainness": place}) for place in (0, 1))
    >>> by_gain([tilt, rule, never], Selection("gain", confidence=0.95)).chosen is never
    True
    >>> by_gain([tilt, rule, never], Selection("gain", confidence=0.95, simplest=0.0)).chosen is tilt
    True
    """
    shown = [(score, item) for item in points if (score := selection.score(item.metrics)) is not None]
    if not points:
        return Choice(None, None, NO_RUN)
    if not shown:
        return Choice(None, None, f"none of {len(points)} policies can be verified with these logs")
    better = [pair for pair in shown if pair[0] > 0]
    if better and not any(keeps_guards(item.metrics) for _, item in better):
        limits = [guard for guard in selection.rails if guard.limit is not None]
        why = failures_in_words([item.metrics for _, item in better], limits)
        return Choice(None, None, f"{len(better)} of {len(points)} policies are shown to be better, but {why}")
    kept = [pair for pair in shown if pair[0] <= 0 or keeps_guards(pair[1].metrics)]
    beyond, shown = len(shown) - len(kept), kept
    top, _ = max(shown, key=lambda pair: pair[0])
    near = [pair for pair in shown if pair[0] == top or pair[0] >= (1 - selection.simplest) * top]
    score, best = max(near, key=lambda pair: (-plainness_of(pair[1]), pair[0]))
    if top <= 0:
        return Choice(
            None, None, f"none of {len(points)} policies is shown to be better ({len(shown)} can be verified)"
        )
    why = "the largest gain that is shown"
    if score < top:
        why = f"the simplest policy whose shown gain is within {selection.simplest:.0%} of the largest"
    barred = f", and {beyond} more may break a guardrail" if beyond else ""
    return Choice(best, score, f"{why}; {len(shown)} of {len(points)} policies can be verified{barred}")


def _why_unproven(policies: int, confidence: float) -> str:
    return (
        f"importance sampling shows none of {policies} policies to be better ({100 * confidence:g}% confidence for all "
        "of them together), which estimated propensities require: the logging policy is kept"
    )


def _why_none(entered: int, qualified: int, least: float) -> str:
    if not entered:
        return NO_RUN
    if not qualified:
        return (
            f"none of {entered} policies has an effective sample size of {plain(least)} or more on the validation "
            "logs: the logging policy is kept"
        )
    return f"none of {qualified} policies has a finite score: the logging policy is kept"


DEFAULT_SELECTION = Selection("gain", "best", 0.95)
