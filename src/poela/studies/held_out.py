"""What a run shows on the episodes that it has not seen, and the runs of all folds put together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import step_numbers
from poela.data.action_space import ActionSpace, Box, Finite
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import Cap
from poela.evaluation.controlled import Controlled, controls, mean_to_come
from poela.evaluation.estimate import Estimate
from poela.evaluation.evidence import Evidence, ModelValues, value_now
from poela.evaluation.recombination import Pool, Recombined, pooled
from poela.evaluation.scoring import Evaluator, Scoring
from poela.evaluation.value_model import state_values
from poela.stats.diagnostics import OutsideSupport
from poela.stats.weights import LogWeights, effective_share
from poela.studies.acted import departures

# Some of the pooled episodes that judge, such as a group of them: their evidence and their units.


def units_of(units: IntArray) -> IntArray:
    """The units of some episodes, in the order of their first appearance.

    >>> units_of(np.array([4, 1, 4, 2]))
    array([4, 1, 2])
    """
    _, first = np.unique(units, return_index=True)
    return np.asarray(units[np.sort(first)])


def part_of(evidence: Evidence, episodes: BoolArray) -> Evidence:
    """The evidence of some episodes [n] of pooled ones, which have one step each.

    How much of the policy lies outside support is known for all episodes together alone: all of it may be in here.
    """
    logs = evidence.logs.take(episodes)
    times = len(episodes) / int(episodes.sum())
    outside, controlled = evidence.outside, evidence.controlled
    if outside is not None:
        outside = OutsideSupport(
            min(times * outside.decisions, 1.0),
            min(times * outside.episodes, 1.0),
            times * outside.missing,
            times * outside.missing_error,
        )
    return replace(
        evidence,
        weights=LogWeights(evidence.weights.log_ratios[episodes], logs.offsets),
        logs=logs,
        outside=outside,
        controlled=None if controlled is None else controlled.take(episodes),
        stranded_steps=None,
        reference=None if evidence.reference is None else evidence.reference[episodes],
    )


ENOUGH, MANY = 20_000, 80_000  # recombined episodes: at least, and where logs are large no more than it takes
OUTSIDE = ("outside", "leaving", "missing", "missing_error")  # of support: metrics of a point
LOG_WEIGHTS, RECOMBINED, CONTROLS = "held_out_log_weights", "held_out_recombined", "held_out_controls"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Every policy of a run on the episodes held out from it: log weights, those of recombined episodes, and controls.

    `controls` are those of the gain (see `evaluation.controlled`); None where no values were at hand.
    """

    log_weights: FloatArray  # [points, n]
    recombined: Float32Array  # [points, copies, n]
    controls: FloatArray | None = None  # [points, 2, n]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a file."""
        controls = {} if self.controls is None else {CONTROLS: self.controls}
        return {LOG_WEIGHTS: self.log_weights, RECOMBINED: self.recombined, **controls}

    def take(self, episodes: BoolArray) -> "HeldOut":
        """On some of the episodes [n]."""
        controls = None if self.controls is None else self.controls[..., episodes]
        return HeldOut(self.log_weights[:, episodes], self.recombined[..., episodes], controls)

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "HeldOut":
        """The inverse of `arrays`."""
        weights, recombined = np.asarray(arrays[LOG_WEIGHTS]), np.asarray(arrays[RECOMBINED])
        controls = None if CONTROLS not in arrays else np.asarray(arrays[CONTROLS])
        fits = weights.ndim == 2 and recombined.ndim == 3 and recombined[:, 0].shape == weights.shape
        fits = fits and (controls is None or controls.shape == (len(weights), 2, weights.shape[1]))
        if not fits or not (weights < np.inf).all() or not (recombined < np.inf).all():
            raise InputError("the held-out weights of a run do not fit together: the file was changed")
        return cls(weights, recombined, controls)


def measured(
    evaluator: Evaluator, policies: Sequence[Any], estimators: Sequence[str], n_episodes: int, train: Trajectories
) -> Iterator[tuple[dict[str, float | None], FloatArray, FloatArray, FloatArray | None]]:
    """The metrics, log weights [n], recombined log weights [copies, n] and controls [2, n] of each held-out policy.

    `n_episodes` is the number of episodes in all folds together, which recombined ones are enough for.
    """
    copies = copies_of(n_episodes)
    logs = evaluator.logs
    recombine = Recombined(logs, evaluator.scoring.seed, copies)
    scoring = evaluator.scoring
    train = scoring.capped(train)
    to_come = mean_to_come(train, step_numbers(logs.offsets), scoring.discount)
    of_contexts = OF_CONTEXTS[logs.action_space.kind](logs, train, scoring.discount, scoring.seed)
    for policy, evidence in zip(policies, evaluator.evidence(policies, ("sntis", *estimators)), strict=True):
        ess = effective_share(evidence.used, logs.clusters) * logs.n_units
        metrics: dict[str, float | None] = {"ess": finite(ess)}
        for name in ("sntis", *estimators):
            value, error = evaluator.value(evidence, name)
            metrics |= {name: finite(value), f"{name}_error": finite(error)}
        if evidence.values is not None:
            metrics["model"] = finite(float(evidence.values.expected[logs.offsets[:-1]].mean()))
        if evidence.probabilities is not None and logs.knows_logging_policy:
            changed = departures(evidence.weights, evidence.probabilities, logs.all_propensities)
            metrics["departure"] = float(changed.mean())
        metrics |= amounts_changed(policy, logs)
        metrics["smoothing"] = evidence.smoothing
        metrics["stranded"] = None if evidence.stranded_steps is None else evidence.stranded_steps / logs.n_steps
        metrics |= {} if evidence.outside is None else dict(zip(OUTSIDE, astuple(evidence.outside), strict=True))
        if of_contexts is not None:
            evidence = replace(evidence, values=of_contexts)
        controlled = None if evidence.values is None else controls(evidence, to_come)
        yield metrics, evidence.weights.episodes, recombine.log_weights(evidence), controlled


# Values of amounts are not modelled, those of contexts are.
OF_CONTEXTS: Mapping[str, Callable[[Trajectories, Trajectories, float, int], ModelValues | None]] = {
    Finite.kind: lambda *given: None,
    Box.kind: state_values,
}


def copies_of(n_episodes: int) -> int:
    """How many times so many episodes are recombined.

    >>> [copies_of(n) for n in (100, 2000, 10_000, 40_000, 1_000_000)]
    [40, 10, 4, 2, 1]
    """
    return max(1, min(40, max(ENOUGH // n_episodes, min(4, MANY // n_episodes))))


def amounts_changed(policy: Any, logs: Trajectories) -> dict[str, float | None]:
    """By how much a policy changes real-valued actions on average: in their unit, where they have one, and in
    deviations of the logged ones; nothing where actions are a finite set.
    """
    change = policy.change(logs.contexts) if getattr(policy, "real_valued", False) else None
    if change is None:
        return {}
    own = change.mean(axis=0)
    return {"change": float(own[0]) if len(own) == 1 else None, "change_sd": float((own / policy.spread).mean())}


@dataclass(frozen=True, eq=False)
class Episodes:
    """The held-out episodes of all folds, fold by fold: what pooled weights are evaluated on."""

    logs: Trajectories  # one step each, whose reward is the episode's return
    redrawn: bool  # whether actions could be drawn anew
    estimated: bool  # whether propensities are; what is shown then has to survive more
    problem: str = ""  # why no weight can be right, if that is known
    actions: ActionSpace = Finite(())  # noqa: RUF009 (it is frozen): what could be done in them
    uncapped: FloatArray | None = None  # [n], where the returns are capped
    reference: FloatArray | None = None  # [n] log weights of what is done now; None: it made all of them
    single: bool = False  # whether every episode is one decision

    @property
    def doubted(self) -> bool:
        """Whether weights rest on estimates, of propensities or of the chance of being seen."""
        return self.estimated or self.logs.staying is not None

    @classmethod
    def of(
        cls,
        held_out: Sequence[Trajectories],
        discount: float,
        problem: str = "",
        cap: Cap | None = None,
        reference: FloatArray | None = None,
    ) -> "Episodes":
        """From the held-out logs of each fold; a cap has its ends."""
        uncapped = np.concatenate([logs.returns(discount) for logs in held_out])
        returns = uncapped if cap is None else cap.clip(uncapped)
        n = len(returns)
        clusters = None
        if held_out[0].clusters is not None:
            sizes = np.cumsum([0, *(logs.n_units for logs in held_out)])
            # Folds keep clusters whole, so that clusters of different folds are different ones.
            clusters = np.concatenate(
                [np.asarray(logs.clusters) + start for logs, start in zip(held_out, sizes, strict=False)]
            )
        logs = Trajectories(
            np.zeros((n, 1)),
            np.zeros(n, np.int64),
            returns,
            np.arange(n + 1),
            np.ones(n),
            clusters=clusters,
            **_lost_of(held_out),
            loggers=None if reference is None else np.concatenate([np.asarray(one.loggers) for one in held_out]),
        )
        first = held_out[0]
        redrawn = first.all_propensities is not None
        single = all(one.n_steps == one.n_episodes for one in held_out)
        return cls(logs, redrawn, first.estimated, problem, first.action_space, uncapped, reference, single)

    def evaluator(self, scoring: Scoring, *, survives: bool = True) -> Evaluator:
        """Evaluates pooled weights; what is shown by them `survives` Γ, unless that is not so."""
        how: Any = {"wrong": self.problem, "actions": self.actions, "uncapped": self.uncapped, "survives": survives}
        return Evaluator(self.logs, scoring, **how)

    def evidence(
        self, log_weights: FloatArray, scoring: Scoring, stranded: int | None, outside: OutsideSupport | None = None
    ) -> Evidence:
        """Pooled log weights [n] as what estimators of whole episodes need."""
        weights = LogWeights(log_weights, self.logs.offsets)
        # Returns are discounted already.
        settings: Any = {"stranded_steps": stranded, "outside": outside, "reference": self.reference}
        settings["known"] = not self.estimated
        return Evidence(weights, self.logs, 1.0, scoring.truncation, **settings)

    def controlled(self, evidence: Evidence, folds: Sequence[FloatArray | None]) -> Evidence:
        """The same with the gain's control variates, from the controls [2, n] of each fold, where all have them."""
        known = [one for one in folds if one is not None]
        if len(known) < 2 or len(known) < len(folds) or self.reference is not None:  # they are over all loggers
            return evidence
        fold_of = np.repeat(np.arange(len(known)), [one.shape[1] for one in known])
        return replace(evidence, controlled=Controlled.of_folds(known, evidence, fold_of, estimated=self.doubted))

    def take(self, episodes: BoolArray) -> "Episodes":
        """Some of the episodes [n]."""
        uncapped = None if self.uncapped is None else self.uncapped[episodes]
        reference = None if self.reference is None else self.reference[episodes]
        return replace(self, logs=self.logs.take(episodes), uncapped=uncapped, reference=reference)

    def done_now(self, truncation: float) -> float:
        """The value of what is done now."""
        return value_now(self.logs.rewards, self.reference, truncation, self.logs.seen_weights).value

    def pool(self, evidence: Evidence, recombined: Float32Array, seed: int) -> Pool:
        """Recombined log weights [copies, n] as a pool of episodes."""
        return pooled(np.asarray(recombined, np.float64), evidence, self.redrawn, seed)


def _lost_of(held_out: Sequence[Trajectories]) -> dict[str, Any]:
    """Which episodes of all folds were lost, and what having been seen weighs; nothing where none was."""
    seen = [logs.seen_weights for logs in held_out]
    if all(own is None for own in seen):
        return {}
    every = [np.zeros(logs.n_episodes) if own is None else own for logs, own in zip(held_out, seen, strict=True)]
    weights = np.concatenate(every)
    return {"lost": weights == -np.inf, "staying": weights}


def finite(number: float) -> float | None:
    """The number, or None where it is NaN or infinite.

    >>> finite(1.5), finite(float("nan"))
    (1.5, None)
    """
    return float(number) if np.isfinite(number) else None


# The estimate of each point of a path, made once: provisional answers and the last one ask for the same.

_known: "WeakKeyDictionary[Episodes, dict[bytes, Estimate]]" = WeakKeyDictionary()


def estimate_of(
    episodes: Episodes, point: tuple[Evidence, Float32Array], scoring: Scoring, least_ess: float
) -> Estimate:
    """What a point is worth, with an interval where it can be trusted and has so many effective episodes.

    A point is its pooled evidence and the log weights [copies, n] of recombined episodes. Points of equal weights are
    one policy here, and are looked at once.
    """
    evidence, recombined = point
    settings = scoring, least_ess, evidence.outside, evidence.stranded_steps, evidence.smoothing
    seen = blake2b(repr(settings).encode())
    for numbers in (evidence.weights.log_ratios, recombined):
        seen.update(np.ascontiguousarray(numbers).tobytes())
    known, key = _known.setdefault(episodes, {}), seen.digest()
    if key not in known:
        pool = episodes.pool(evidence, recombined, scoring.seed)
        estimate = episodes.evaluator(replace(scoring, interval=None)).estimate(evidence, pool, by_chance=True)
        able = estimate.verdict == "trust" and estimate.ess >= least_ess
        known[key] = episodes.evaluator(scoring).estimate(evidence, pool, by_chance=True) if able else estimate
    return known[key]
