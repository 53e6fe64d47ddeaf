"""Candidates that weigh what decisions cost: values less a price, and the walk by value for money."""

from collections.abc import Sequence
from dataclasses import replace

from poela.core.errors import InputError
from poela.data.costs import Costs
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate, checked_candidates
from poela.studies.guards import capacity_of, costs_to_price, costs_to_walk
from poela.studies.options import LearnOptions
from poela.studies.settings import StudySettings

SHARES = (0.05, 0.15, 0.5)  # of the spread of returns: prices of what a decision costs that costs anything
WALK = "hullwalk"


def of_these_cases(settings: StudySettings, logs: Trajectories) -> StudySettings:
    """The settings with capacities per so many cases, where they are of the cases of the log."""
    chosen = settings.selection
    for guard in chosen.rails:
        if guard.level:
            Costs.of(guard.outcome).of_steps(logs)  # which says so where there is no such action or column
    return replace(settings, selection=replace(chosen, capacity=capacity_of(chosen.capacity, logs.n_episodes)))


def with_spending(settings: StudySettings, options: LearnOptions, logs: Trajectories) -> StudySettings:
    """With fitted values at several prices of what decisions cost and, of single decisions, the hull walk.

    Candidates that were spelled out stay as they are.
    """
    chosen, candidates = settings.selection, settings.candidates
    walked, priced = (costs(chosen.cost, chosen.capacity) for costs in (costs_to_walk, costs_to_price))
    if not walked and any(one.learner == WALK and not one.settings.get("cost") for one in candidates):
        raise InputError(f"learner {WALK!r} needs costs: say --cost, or --capacity of a single action")
    if options.candidates is not None or not priced:
        return settings
    more: list[Candidate] = []
    for one in candidates:
        own = dict(one.settings)
        if one.learner == "fittedq":
            more += [Candidate("fittedq", {**own, "cost": priced, "price": price}) for price in _prices(priced, logs)]
    if walked and logs.n_steps == logs.n_episodes:
        limits = [guard.limit for guard in chosen.rails if guard.level and guard.outcome == walked]
        limit = {} if not limits or limits[0] is None else {"limit": limits[0]}
        rules = [one.settings["rule"] for one in candidates if "rule" in one.settings][:1]
        if any(one.learner in (WALK, "fittedq") for one in candidates):
            more.append(Candidate(WALK, {"cost": walked, **limit, **({"rule": rules[0]} if rules else {})}))
    kept = [one for one in candidates if one.learner != WALK or one.settings.get("cost")]
    if not kept and not more:
        raise InputError(
            f"learner {WALK!r} is for single decisions, and these episodes are longer: name another learner"
        )
    return replace(settings, candidates=checked_candidates([*kept, *more]))


def paid_columns(settings: StudySettings) -> list[str]:
    """The outcomes that are costs: what learners see of them teaches, beside the rewards."""
    own = [one.settings.get("cost") for one in settings.candidates if one.learner in (WALK, "fittedq")]
    known = [Costs.of(text).column for text in (settings.selection.cost, *own) if isinstance(text, str) and text]
    return sorted({column for column in known if column is not None})


def _prices(cost: str, logs: Trajectories) -> Sequence[float]:
    """Prices of a unit of cost: shares of the spread of returns, for what a decision costs that costs anything."""
    costs = Costs.of(cost).of_steps(logs)
    paid = costs[costs > 0]
    spread = float(logs.returns().std())
    if not len(paid) or spread == 0:
        return ()
    return [float(f"{share * spread / float(paid.mean()):.4g}") for share in SHARES]
