"""`Scoring`: how policies are evaluated, in `evaluate` and in studies alike, and `Evaluator`, which does it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from poela.behavior.staying import as_if_all_seen, lost_share, with_staying
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.references import described, named
from poela.core.typed import Count, Positive, Range, Seed, Whole, named_in, refuse_problems, to_plain
from poela.data.action_space import ActionSpace, finite_actions
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import Cap, beyond_cap, capped
from poela.evaluation.densities import density_problem
from poela.evaluation.estimate import Estimate, WorstCase, cap_notes, computing_notes, diagnosed, smoothing_notes
from poela.evaluation.estimators import ESTIMATORS, Estimator
from poela.evaluation.evidence import DEFAULT_TRUNCATION, Evidence, ModelValues
from poela.evaluation.options import CAP, RETURNS, ScoringOptions
from poela.evaluation.outside import LoggedSupport, logged_support, outside_support
from poela.evaluation.recombination import Pool, Recombined
from poela.evaluation.refit import FitsBehavior, refitted_values
from poela.evaluation.tails import NO_TAIL, Tail, tail_of
from poela.evaluation.value_model import QValues, ValueModel, given_values, is_single
from poela.evaluation.weights import is_greedy, log_weights, rows_along, smoothed, weights_of
from poela.regression.step_regression import Regressor
from poela.stats.bounds import DEFAULT_RESAMPLES, Bounds, Interval, Sample, carriers, in_clusters, two_valued
from poela.stats.contributions import Contributions, skewness, standard_error
from poela.stats.diagnostics import Diagnostics
from poela.stats.gain import Gain, gain_over_logging, vanishing_sensitivity
from poela.stats.intervals import DEFAULT_INTERVAL, INTERVALS, intervals_of
from poela.stats.verdict import NOT_SHOWN, TrustThresholds, verdict_on
from poela.stats.weights import LogWeights

MODEL = "an estimator that rests on a model of values"
MOST_NUMBERS = 1e7  # probabilities that are looked at together: 80 MB


@dataclass(frozen=True)
class Scoring(ScoringOptions):
    """How policies are evaluated: everything that a number depends on, beside the policy and the logs.

    `estimator` and `interval` are names from `ESTIMATORS` and `INTERVALS`, or functions: from `Evidence` to
    `Contributions`, and from a `Sample` and levels to an `Interval` for each. `smoothing` mixes that share of the
    logging policy into a greedy policy (the paper: 0.01; weights would else be zero wherever the log once did
    otherwise): it is the mixture that is evaluated. `regressor`, `folds` and `history` are those of the model of values
    behind the doubly robust family: cross-fitted, with so many earlier steps in view. `bounds` is what is known of
    returns and weights beforehand; the range of yes/no outcomes is seen by itself. `cap` makes it about capped returns:
    a share (0.99: from the 1% to the 99% quantile of those logged), a pair of values, or a `Cap`.

    >>> Scoring(level=95)
    Traceback (most recent call last):
    poela.core.errors.InputError: level is 95: it must be a number, above 0 and below 1
    """

    estimator: Annotated[str, named_in(ESTIMATORS)] = "sntis"  # a name of ESTIMATORS, or a function
    # a name of INTERVALS, or a function; None: none
    interval: Annotated[str, named_in(INTERVALS)] | None = DEFAULT_INTERVAL
    truncation: Positive = DEFAULT_TRUNCATION  # largest weight of an episode (M)
    smoothing: Annotated[float, Range(least=0, below=1)] = 0.0  # share of the logging policy mixed into greedy ones
    regressor: Regressor = "ridge"  # kind of regression of the model of values
    folds: Annotated[int, Range(least=1)] = 5  # that the model of values is cross-fitted in
    history: Whole = 1  # earlier steps that the model of values sees
    bounds: Annotated[Bounds, RETURNS] | None = None
    cap: Annotated[Cap, CAP] | None = None
    thresholds: TrustThresholds = field(default_factory=TrustThresholds)  # of the verdict
    resamples: Count = DEFAULT_RESAMPLES  # of the bootstrap
    seed: Seed = 0  # of the bootstrap and of folds

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", Cap.of(self.cap))
        for name in ("estimator", "interval"):  # a function takes the place of a name
            object.__setattr__(self, name, named(getattr(self, name)))
        refuse_problems(self)

    def to_json(self) -> dict[str, Any]:
        """The settings as a JSON object; without a cap as they were when there was none."""
        names = [field.name for field in fields(self) if field.name != "cap" or self.cap is not None]
        return {name: to_plain(getattr(self, name)) for name in names}

    def knowing(self, logs: Trajectories) -> Self:
        """The same with the ends of its cap, as these logs have them where they were not known."""
        return self if self.cap is None else replace(self, cap=self.cap.known(logs.returns(self.discount)))

    def capped(self, logs: Trajectories) -> Trajectories:
        """The logs with capped returns, where they are to be capped."""
        return capped(logs, self.cap, self.discount)

    def estimates(self, policies: Sequence[Any], logs: Trajectories) -> list[Estimate]:
        """The estimate of each policy on the same logs; what does not depend on the policy is computed once.

        >>> from poela.simulators.registry import simulate
        >>> from poela.simulators.tumor import TumorBehavior
        >>> [estimate] = Scoring(interval=None).estimates([TumorBehavior()], simulate("tumor", episodes=50))
        >>> estimate.ess, estimate.gain.value
        (50.0, 0.0)
        """
        evaluator = Evaluator(logs, self, support=logged_support(logs))
        return [evaluator.estimate(evidence) for evidence in evaluator.evidence(policies)]


class Evaluator:
    """A scoring at work on some logs, for any policies.

    `beside` are episodes that help to fit the model of values and are not weighted; `q` is a model of values that takes
    the place of fitting one; `behavior` are the settings of a behavior model, for intervals that fit it anew;
    `wrong` says what is wrong with the logs that these stand for, `actions` what could be done in them;
    `support` is what was done in like cases, where it is to be looked at; `uncapped` are the returns [n] that were,
    where the logs have capped ones already; `survives` says that what is shown allows for weights that are wrong.
    """

    def __init__(
        self,
        logs: Trajectories,
        scoring: Scoring,
        *,
        beside: Trajectories | None = None,
        q: QValues | None = None,
        behavior: FitsBehavior | None = None,
        wrong: str = "",
        actions: ActionSpace | None = None,
        support: LoggedSupport | None = None,
        uncapped: FloatArray | None = None,
        survives: bool = False,
    ) -> None:
        logs = with_staying(logs, scoring.seed)
        beside = None if beside is None else as_if_all_seen(with_staying(beside, scoring.seed), scoring.seed)
        scoring = scoring.knowing(logs)
        self._uncapped = logs.returns(scoring.discount) if uncapped is None else uncapped
        logs, beside = scoring.capped(logs), None if beside is None else scoring.capped(beside)
        self._actions = actions or logs.action_space
        self.logs, self.scoring = logs, scoring
        self._beside, self._q, self._behavior, self._wrong = beside, q, behavior, wrong
        self._support, self._survives = support, survives
        if ESTIMATORS[scoring.estimator].model == "given" and q is None:
            raise InputError(
                f"estimator {scoring.estimator!r} averages a model that you give: pass q with a method q(trajectories)"
            )
        if scoring.bounds is not None:
            scoring.bounds.refuse_outside(self._uncapped)

    @cached_property
    def returns(self) -> FloatArray:
        """Discounted returns [n], capped where they are to be."""
        returns = self.logs.returns(self.scoring.discount)
        return returns if self.scoring.cap is None else self.scoring.cap.clip(returns)

    @cached_property
    def bounds(self) -> Bounds | None:
        """The range of returns, as declared or as two outcomes show it."""
        declared, cap = self.scoring.bounds, self.scoring.cap
        return (declared if cap is None else cap.within(declared)) or Bounds.of(self.returns)

    @cached_property
    def is_rate(self) -> bool:
        """Whether returns are yes or no: how many events there are tells more of them than skewness."""
        return self.bounds is not None and two_valued(self.bounds, self.returns)

    @cached_property
    def _recombined(self) -> Recombined:
        return Recombined(self.logs, self.scoring.seed)

    @property
    def _finite(self) -> Trajectories:
        return finite_actions(self.logs, MODEL)

    @cached_property
    def _with_beside(self) -> Trajectories:
        return self._finite if self._beside is None else joined(finite_actions(self._beside, MODEL), self._finite)

    @cached_property
    def _model(self) -> ValueModel:
        how: Any = {name: getattr(self.scoring, name) for name in ("discount", "regressor", "folds", "history", "seed")}
        beside = None if self._beside is None else finite_actions(self._beside, MODEL)
        return ValueModel(self._finite, beside=beside, **how)

    def evidence(self, policies: Sequence[Any], estimators: Sequence[str] | None = None) -> Iterator[Evidence]:
        """What estimators need of each policy: weights, and where one of them asks for it the values of a model."""
        used = [ESTIMATORS[name] for name in estimators or (self.scoring.estimator,)]
        if not any(estimator.uses_policy for estimator in used):
            yield from (self._without_policy() for _ in policies)
            return
        with_model = any(estimator.model != "none" for estimator in used)
        asks_beside = with_model and not (self._q is None and is_single(self._finite, self._beside))
        seen = self._with_beside if asks_beside else self._finite if with_model else self.logs
        step = max(int(MOST_NUMBERS / (seen.n_steps * max(seen.n_actions, 1))), 1)
        for start in range(0, len(policies), step):
            some = policies[start : start + step]
            followed = [self._rows_along(policy, seen) for policy in some]
            values = self._values([rows for rows, _ in followed]) if with_model else [None] * len(some)
            for policy, (rows, share), value in zip(some, followed, values, strict=True):
                yield self._evidence(policy, rows, value, share)

    def _rows_along(self, policy: Any, seen: Trajectories) -> tuple[Any, float]:
        """What a policy does [N, A] along these episodes, smoothed where it is greedy along the logs, and how much.

        There are no such rows of amounts.
        """
        rows, share = rows_along(policy, seen), 0.0
        if rows is None:
            return None, share
        if self.scoring.smoothing and is_greedy(rows[-self.logs.n_steps :]):
            share = self.scoring.smoothing
        return smoothed(rows, seen, share), share

    def _values(self, probabilities: Sequence[FloatArray]) -> Sequence[ModelValues]:
        if self._q is not None:
            return [given_values(self._q, rows[-self.logs.n_steps :], self._finite) for rows in probabilities]
        return self._model.values(probabilities)

    def _without_policy(self) -> Evidence:
        seen = self.logs.staying
        weights = LogWeights(np.zeros(self.logs.n_steps) if seen is None else seen, self.logs.offsets)
        return Evidence(weights, self.logs, self.scoring.discount, self.scoring.truncation)

    def _evidence(self, policy: Any, rows: FloatArray | None, values: ModelValues | None, share: float) -> Evidence:
        """Of what a policy does along the logs, and along episodes beside them that come first."""
        probabilities = None if rows is None else rows[-self.logs.n_steps :]
        if probabilities is None:
            weights = log_weights(policy, self.logs)
        else:
            known = self.logs.knows_logging_policy
            weights = weights_of(probabilities, self.logs) if known else self._without_policy().weights
        stranded = getattr(policy, "stranded", None)
        steps = int(np.asarray(stranded(self.logs)).sum()) if callable(stranded) else None
        settings = self.scoring.discount, self.scoring.truncation
        doing = None if self._support is None else self._support.rows(policy, self.logs, probabilities)
        outside = None
        if self._support is not None and doing is not None:
            outside = outside_support(self._support, doing, self.logs, weights)
        return Evidence(weights, self.logs, *settings, values, probabilities, steps, outside, share)

    def value(self, evidence: Evidence, estimator: str) -> tuple[float, float]:
        """An estimate and its standard error alone."""
        contributions = ESTIMATORS[estimator].function(evidence)
        return contributions.value, standard_error(in_clusters(contributions, self.logs.clusters, self.logs.loggers))

    def estimate(self, evidence: Evidence, pool: Pool | None = None, *, by_chance: bool = False) -> Estimate:
        """The estimate with everything that belongs to it; `pool` are recombined episodes, where they are at hand.

        Its intervals allow for the worst, and the best, of what lies outside support; `by_chance` leaves that to
        whoever asks.
        """
        scoring, logs = self.scoring, self.logs
        chosen = ESTIMATORS[scoring.estimator]
        contributions = chosen.function(evidence)
        units = in_clusters(contributions, logs.clusters, logs.loggers)
        pool = pool or self.pool(evidence, chosen)
        diagnostics = diagnosed(evidence, chosen, pool, self.returns, self.bounds)
        tail = NO_TAIL
        if not by_chance and not self.is_rate and np.isfinite(contributions.value):
            diagnostics, tail = self._with_tail(diagnostics, contributions, evidence)
        interval, interval_notes = self._interval(units, evidence, chosen, pool, diagnostics.ess)
        estimated = logs.estimated and chosen.weights != "none"
        wrong = (self._wrong or density_problem(logs)) if chosen.weights != "none" else ""
        doubts: Any = {"leans_on_model": chosen.leans, "estimated": estimated, "wrong": wrong}
        doubts |= {
            "known": self._actions.chances,
            "every": self._actions.every,
            "bounded": self.bounds is not None,
            "lost": 0.0 if self._survives else lost_share(logs),
        }
        verdict = verdict_on(diagnostics, scoring.thresholds, **doubts)
        level = None if interval is None else scoring.level
        beyond = None if scoring.cap is None else beyond_cap(scoring.cap, self._uncapped, evidence, scoring.bounds)
        gain = self._gain(contributions, evidence, chosen, interval, verdict.word, tail.most)
        worst = WorstCase()
        if not by_chance:
            worst = WorstCase.of(evidence, chosen, contributions.value, self.returns, self.bounds)
            interval, gain = self._allowing(worst, contributions.value, interval, gain, evidence)
        without = verdict.word == "trust" and gain is not None and gain.low is not None and gain.low <= 0
        return Estimate(
            value=contributions.value,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            level=level,
            estimator=described(scoring.estimator),
            interval=None if interval is None else interval.method,
            n_episodes=logs.n_episodes,
            ess=diagnostics.ess,
            standard_error=standard_error(units),
            diagnostics=diagnostics,
            gain=gain,
            verdict=verdict.word,
            reasons=verdict.reasons + worst.in_words * (interval is not None),
            advice=NOT_SHOWN if without else verdict.advice,
            beyond=beyond,
            warnings=computing_notes(contributions, diagnostics, interval, scoring.resamples)
            + smoothing_notes(evidence.smoothing)
            + cap_notes(beyond, gain, scoring.level)
            + interval_notes
            + verdict.reasons * (verdict.word != "trust"),
        )

    def _with_tail(self, diagnostics: Diagnostics, own: Contributions, evidence: Evidence) -> tuple[Diagnostics, Tail]:
        """With the skewness of the gain's own influence: what is foreseen can hide a tail of returns."""
        way = own.less(evidence.done_now)
        gain, tail = in_clusters(way, self.logs.clusters, self.logs.loggers), tail_of([way], evidence)
        skew = abs(skewness(gain.influence)) / float(np.sqrt(gain.n_episodes))
        most = float(np.fmax(diagnostics.return_skew, skew))
        return replace(diagnostics, return_skew=most, gain_skew=tail.seen), tail

    def _allowing(
        self, worst: WorstCase, value: float, interval: Interval | None, gain: Gain | None, evidence: Evidence
    ) -> tuple[Interval | None, Gain | None]:
        """The intervals of the value and of the gain, with what lies outside support."""
        if interval is None or worst.too_high[0] + worst.too_low[0] <= 0:
            return interval, gain
        low, high = worst.ends(value, interval.low, interval.high, self.scoring.level)
        if self.bounds is not None:
            low, high = max(low, self.bounds.lowest_return), min(high, self.bounds.highest_return)
        interval = replace(interval, low=low, high=high)
        if gain is None or gain.low is None or gain.high is None:
            return interval, gain
        low, high = worst.ends(gain.value, gain.low, gain.high, self.scoring.level)
        factor = gain.sensitivity
        if factor is not None:
            margin = evidence.done_now.value - float(self.returns.mean()) + worst.too_high[0]
            used = ESTIMATORS[self.scoring.estimator].used(evidence)
            factor = vanishing_sensitivity(used, self.returns, margin) if low > 0 else None
        return interval, Gain(gain.value, low, high, factor)

    def pool(self, evidence: Evidence, chosen: Estimator) -> Pool | None:
        """Recombined episodes; spliced ones say nothing about how clusters vary."""
        known = self.logs.knows_logging_policy and bool((evidence.weights.episodes > -np.inf).any())
        can = self.logs.clusters is None or self._recombined.redraws
        return self._recombined.pool(evidence) if chosen.weights != "none" and known and can else None

    def _interval(
        self, units: Contributions, evidence: Evidence, chosen: Estimator, pool: Pool | None, ess: float
    ) -> tuple[Interval | None, tuple[str, ...]]:
        name = self.scoring.interval
        if name is None or not np.isfinite(units.value) or carriers(units) < 2:
            return None, ()
        if not np.isfinite(standard_error(units)):
            return None, ("no interval: the model of values does not know how well it was fitted",)
        if self.bounds is None and np.ptp(self.returns) == 0 and chosen.model == "none":
            return None, ("all returns are equal, so nothing tells how they vary: declare their range for an interval",)
        recombined = None
        if pool is not None and chosen.whole_episodes and name == "recombined":
            recombined = pool.contributions(chosen.function, self.scoring.truncation)
        sample = Sample(
            units,
            self.scoring.seed,
            self.scoring.resamples,
            self.returns,
            self.bounds,
            recombined,
            self._refitted(evidence, chosen),
            ess if chosen.weights != "none" and not chosen.leans else None,
        )
        return intervals_of(name, sample, [self.scoring.level])[0], ()

    def _refitted(self, evidence: Evidence, chosen: Estimator) -> Callable[[int, int], Any] | None:
        if self._behavior is None or chosen.weights == "none" or chosen.model != "none":
            return None
        behavior = self._behavior
        return lambda resamples, seed: refitted_values(evidence, chosen.function, behavior, resamples, seed)

    def _gain(
        self,
        contributions: Contributions,
        evidence: Evidence,
        chosen: Estimator,
        interval: Interval | None,
        word: str,
        tail: float,
    ) -> Any:
        if not chosen.uses_policy or not np.isfinite(contributions.value):
            return None
        return gain_over_logging(
            contributions,
            self.returns,
            interval,
            self.scoring.level,
            clusters=self.logs.clusters,
            bounds=self.bounds,
            log_weights=chosen.used(evidence) if chosen.normalised and word != "do not trust" else None,
            done_now=None if evidence.reference is None and self.logs.staying is None else evidence.done_now,
            strata=self.logs.loggers,
            tail=tail,
        )
