"""`watch`: a study's policy while it runs, look after look, at one error level."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import Any

import numpy as np

from poela.behavior.propensities import LoggedPropensities
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.options import with_fields
from poela.core.policy import AnyPolicy
from poela.core.readable import readable
from poela.core.typed import to_plain
from poela.data.beside import Beside
from poela.data.opening import AnyTable
from poela.data.receipts import ReceiptsOf, is_receipts
from poela.data.tables import read_beside
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import log_weights, rows_along
from poela.rounds.compared import (
    Comparison,
    GuardSeen,
    Old,
    OldMean,
    Units,
    against_practice,
    by_last,
    compared,
    guards_seen,
    is_supported,
    two_arms,
    watched_guards,
)
from poela.rounds.drift import Drift, drifts
from poela.rounds.looks import DESIGNS, EXACT, Grown, Look, LookBook, Looks, WatchPlan, case_hashes, grown
from poela.stats.bounds import Bounds
from poela.studies.evaluation import layout_for
from poela.studies.fold_data import data_hash, read_behavior
from poela.studies.guards import outcomes_of
from poela.studies.study import Study

THAN = {"before": "before", "practice": "the old practice", "beside": "practice beside it"}
POINTS = 40  # of the picture over time
OF_CASES = (" cases ", "receipt", "recommendations")  # notes of reading that are about cases, not about columns


@dataclass(frozen=True)
class Watched:
    """What is seen of a policy while it runs.

    `main` is what claims rest on; `model` compares with a model of the old practice, without a claim. `path` is the
    main comparison after so many cases each. `stop`: harm is shown, or something has drifted beyond its error level.
    """

    policy: str
    plan: WatchPlan
    look: int  # its number, from 1
    main: Comparison
    model: Comparison | None
    path: tuple[Comparison, ...]
    drift: tuple[Drift, ...]
    notes: tuple[str, ...]
    adherence: float | None = None
    guards: tuple[GuardSeen, ...] = ()

    @property
    def stop(self) -> bool:
        """Whether something must stop: cron jobs end with exit code 3."""
        return (
            self.main.is_worse
            or any(check.drifted for check in self.drift)
            or any(guard.broken for guard in self.guards)
        )

    @property
    def answer(self) -> str:
        """What is shown, in one sentence."""
        than = THAN[self.main.name]
        broken = [guard.name for guard in self.guards if guard.broken]
        if broken and not self.main.is_worse:
            return f"Stop: the guardrail {' and '.join(broken)} is broken."
        level = f"{100 * self.plan.level:g}%, {self.plan.in_words}"
        if (self.main.low is None or self.main.high is None) and self.main.name == "practice":
            return "The new cases do not show what the old practice would have got: the policy does too little of it."
        if self.main.low is None or self.main.high is None:
            return f"Too early to say: {self.main.units:,} cases have ended, and normal theory needs 30."
        if self.main.is_worse:
            return f"Stop: worse than {than} by at least {readable(-self.main.high)} ({level})."
        if self.main.is_better:
            return f"Better than {than}: at least {readable(self.main.low, signed=True)} ({level})."
        low, high = readable(self.main.low, signed=True), readable(self.main.high, signed=True)
        return f"Nothing is shown yet: new − old is between {low} and {high} ({level})."

    def __str__(self) -> str:
        main = self.main
        old, new, gain = readable(main.old), readable(main.new), readable(main.value, main.error, signed=True)
        lines = [
            self.answer,
            f"Look {self.look}: {main.units:,} cases, mean outcome {new} against {old}: {gain}.",
            *(f"{'BROKEN' if guard.broken else 'ok'}, guardrail: {guard.words}." for guard in self.guards),
            *(f"{'DRIFT' if check.drifted else 'ok'}, {check.name}: {check.words}." for check in self.drift),
            *(f"Note: {note}." for note in self.notes),
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**to_plain(self), "stop": self.stop, "answer": self.answer}


@with_fields(WatchPlan)
def watch(
    study: Study | str | PathLike[str],
    logs: Trajectories | str | PathLike[str],
    *,
    outcomes: AnyTable | None = None,
    done: str | None = None,
    ended: str | None = None,
    before: Trajectories | None = None,
    practice: AnyPolicy | None = None,
    beside: Trajectories | str | PathLike[str] | None = None,
    **plan: Any,
) -> Watched:
    """Compare the cases that a study's policy has decided so far with what was before, and look for drift.

    `logs` are cases in the order in which they ended, or a file, or a folder of receipts with its `outcomes`; `done`
    and `ended` are those of `read_logs`. Without `practice` the new mean is compared with that of the study's logs;
    `practice`, a policy with the old way's probabilities, is compared with on the new cases themselves. `before` are
    the logs that the study was learned from, which drift and guardrails are then measured against. `beside` are cases
    of practice at the same time, assigned at random: a fair comparison, which seasons do not disturb.

    `plan` are the fields of `WatchPlan` (method, level, looks, horizon), declared at the first look: looks are counted
    in the study's folder, and the error level holds for all of them together.
    """
    opened = study if isinstance(study, Study) else Study.open(str(study))
    cases = _cases(opened, logs, Beside(outcomes, done, ended))
    policy = opened.acting_policy
    book, key = LookBook(opened.directory), data_hash(cases)
    units = _units(opened, cases, practice)
    other = None if beside is None else _cases(opened, beside, Beside())
    against = Against(before, other, practice, units)
    if other is not None and practice is not None:
        raise InputError("practice= and beside= are two ways to compare: choose one")
    with book.locked():
        known = book.opened(policy.short_hash, {name: value for name, value in plan.items() if value is not None})
        number = next((place for place, look in enumerate(known.looks) if look.data == key), len(known.looks))
        hashes = case_hashes(cases)
        new = number == len(known.looks)
        since = grown(known.cases, hashes) if new else Grown(0, 0)
        watched = _watched(opened, cases, against, known, number)
        watched = replace(watched, notes=(*watched.notes, *since.notes))
        if new:
            book.write(replace(known, looks=(*known.looks, _look(watched, key)), cases=hashes))
    return watched


def _cases(study: Study, logs: Trajectories | str | PathLike[str], beside: Beside) -> Trajectories:
    policy = study.acting_policy
    source = ReceiptsOf(logs, policy.short_hash) if is_receipts(logs) else logs
    cases = source if isinstance(source, Trajectories) else _read(study, source, beside)
    if (cases.feature_names, cases.action_names) != (policy.feature_names, policy.action_names):
        raise InputError(
            "these cases have other features or actions than the policy: read them with the study's layout"
        )
    return cases


def _read(study: Study, source: Any, beside: Beside) -> Trajectories:
    """Cases, with the outcomes that guardrails need where these are there."""
    layout = layout_for(study, None)
    if needed := outcomes_of(study.settings.selection.rails):
        with suppress(InputError):  # or they are read without, which says what else is wrong
            return read_beside(source, replace(layout, side_outcomes=needed), beside)
    return read_beside(source, layout, beside)


def _units(study: Study, cases: Trajectories, practice: Any) -> Units:
    scoring = study.settings.scoring
    returns = scoring.capped(cases).returns(scoring.discount)
    weights = None
    if practice is not None:
        if cases.estimated or not cases.knows_logging_policy:
            raise InputError(
                "practice= needs cases with known propensities: those of what was done instead of a recommendation are "
                "estimates, which no bound allows for"
            )
        weights = np.exp(log_weights(practice, cases).truncated(scoring.truncation))
    return Units(returns, by_last(cases.units), weights)


def _watched(
    study: Study,
    cases: Trajectories,
    against: "Against",
    known: Looks,
    number: int,
) -> Watched:
    plan, scoring = known.plan, study.settings.scoring
    units, before, practice = against.units, against.before, against.practice
    old = against.old(study)
    now = units.n if not isinstance(old, Units) else two_arms(units, old, WatchPlan(), ()).counted
    sizes = (*(look.units for look in known.looks[:number]), now)
    bounds = scoring.bounds or Bounds.of(units.returns)
    if plan.method == EXACT:
        _refuse_inexact(units, bounds, against.beside if practice is None else practice)
    main = compared(units, old, plan, sizes, bounds)
    policy = study.acting_policy
    doing = rows_along(policy, cases)
    weighed = None if doing is None else _weights_before(study, before)
    drift = drifts(cases, doing, before, scoring.discount, plan.horizon, weighed)
    model = _by_model(study, cases, units, plan, sizes) if practice is None and doing is not None else None
    return Watched(
        policy=study.chosen_name,
        plan=plan,
        look=number + 1,
        main=main,
        model=model,
        path=_path(units, old, plan, sizes, bounds),
        drift=drift,
        notes=(*_notes(cases, doing, main, model, drift), *_unguarded(study, cases, against)),
        adherence=cases.adherence,
        guards=against.guards(study, cases, plan, sizes),
    )


@dataclass(frozen=True, eq=False)
class Against:
    """What new cases are compared with."""

    before: Trajectories | None  # what the study was learned from
    beside: Trajectories | None  # practice at the same time
    practice: Any  # a policy with the old way's probabilities
    units: Units  # the new cases

    def old(self, study: Study) -> Old:
        """What `compared` takes."""
        if self.beside is not None:
            return _units(study, self.beside, None)
        return None if self.practice is not None else _before(study)

    def guards(
        self, study: Study, cases: Trajectories, plan: WatchPlan, sizes: tuple[int, ...]
    ) -> tuple[GuardSeen, ...]:
        """The study's guardrails, where old outcomes are there to compare with."""
        old = self.before if self.beside is None else self.beside
        if old is None:
            return ()
        guards = [
            one for one in watched_guards(study.settings.selection.rails, cases) if one.column in old.outcome_names
        ]
        return guards_seen(guards, cases, old, study.settings.scoring, plan, sizes, self.beside is not None)


def _before(study: Study) -> OldMean:
    """What the logs that taught a study achieved."""
    result, mean = study.result, study.record.logging_policy
    clusters = None if result is None else result.estimate.diagnostics.n_clusters
    units = clusters or study.record.data.validation_episodes
    return OldMean(mean.value, mean.standard_error, mean.standard_error * float(np.sqrt(units)))


def _weights_before(study: Study, before: Trajectories | None) -> FloatArray | None:
    """What the policy weighs in the logs that taught it; None where these do not tell what it would have got."""
    if before is None or not before.knows_logging_policy:
        return None
    weights: FloatArray = np.exp(log_weights(study.acting_policy, before).truncated(study.settings.scoring.truncation))
    return weights if is_supported(weights) else None


def _unguarded(study: Study, cases: Trajectories, against: Against) -> list[str]:
    """Which guardrails were not watched, and why."""
    rails = [one for one in study.settings.selection.rails if one.limit is not None]
    if not rails:
        return []
    if against.before is None and against.beside is None:
        return ["guardrails are not watched: give the logs that the study was learned from (--before), or --beside"]
    left = [str(one) for one in rails if one not in watched_guards(rails, cases)]
    return (
        [f"not watched, as a guardrail by group or of spend, or without its column: {', '.join(left)}"] if left else []
    )


def _refuse_inexact(units: Units, bounds: Bounds | None, practice: Any) -> None:
    """Exact bounds hold for means of returns within a known range, and for no weights of a practice."""
    if practice is not None:
        raise InputError(
            "exact bounds compare with the study's own logs: leave practice= and beside= away, or the method"
        )
    if bounds is None:
        raise InputError("exact bounds need the range of returns: learn with --returns, such as 0,1")
    bounds.refuse_outside(units.returns)


def _path(
    units: Units, old: Old, plan: WatchPlan, sizes: tuple[int, ...], bounds: Bounds | None
) -> tuple[Comparison, ...]:
    """The comparison after so many cases each; of planned looks, at these alone, and of two arms at the last one."""
    if isinstance(old, Units) and plan.method in DESIGNS:
        return (compared(units, old, plan, sizes, bounds),)
    if plan.method in DESIGNS:
        return tuple(
            compared(units.first(size), old, plan, sizes[: place + 1], bounds) for place, size in enumerate(sizes)
        )
    grid = np.unique(np.linspace(min(30, units.n), units.n, POINTS).astype(int))

    def then(size: int) -> Old:
        return old.first(max(1, old.n * size // units.n)) if isinstance(old, Units) else old

    return tuple(compared(units.first(int(size)), then(int(size)), plan, (int(size),), bounds) for size in grid)


def _by_model(
    study: Study, cases: Trajectories, units: Units, plan: WatchPlan, sizes: tuple[int, ...]
) -> Comparison | None:
    """Against the study's model of the old practice, where there is one and the cases show what it would have got."""
    model = read_behavior(study.directory / "behavior") or getattr(study.policy, "behavior", None)
    if model is None or isinstance(model, LoggedPropensities) or not cases.knows_logging_policy:
        return None
    weights: FloatArray = np.exp(log_weights(model, cases).truncated(study.settings.scoring.truncation))
    comparison = against_practice(replace(units, weights=weights), plan, sizes)
    return None if comparison.low is None else comparison  # else weights miss what the policy no longer does


def _notes(
    cases: Trajectories,
    doing: FloatArray | None,
    main: Comparison,
    model: Comparison | None,
    drift: tuple[Drift, ...],
) -> tuple[str, ...]:
    notes = [note for note in cases.notes if any(word in note for word in OF_CASES)]
    if main.name == "before":
        notes.append("before and after differ by season and by who comes, too: see drift")
    if model is not None and np.isfinite(model.value):
        gain, error = readable(model.value, signed=True), readable(model.error)
        notes.append(
            f"against a model of the old practice, in these cases: {gain} ± {error} (standard error); no claim rests "
            "on a model"
        )
    if main.name == "beside":
        notes.append(f"{main.beside:,} cases of practice beside: a fair comparison if chance decided who got which")
    if cases.adherence is not None and cases.adherence < 1:
        notes.append("means are of what was done, with those cases where recommendations were not followed")
    notes += _unchecked(cases, doing)
    if any(check.drifted for check in drift):
        notes.append("under drift, bounds are about the mean over all cases so far, not about today's")
    return tuple(notes)


def _unchecked(cases: Trajectories, doing: FloatArray | None) -> list[str]:
    """What could not be asked of these cases, in which the policy does this [N, A]; None: it gives amounts."""
    if doing is None:
        return ["actions are real numbers: whether this policy drew them is not checked"]
    if cases.propensities is None:
        return ["these cases have no propensities: whether this policy drew them is judged by their actions alone"]
    if cases.recommended is not None and cases.estimated:
        return [
            "propensities are those of what was done: whether this policy recommended it is judged by the "
            "recommendations alone"
        ]
    return []


def _look(watched: Watched, key: str) -> Look:
    main = watched.main
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return Look(key, main.counted, when, main.value, main.low, main.high, watched.stop)
