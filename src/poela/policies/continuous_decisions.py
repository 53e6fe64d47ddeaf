"""Decisions about amounts for the rows of a table: one for each action column, and their density."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.action_space import DENSITY, Box
from poela.data.decided import DEFER, POLICY, ROW, SPREAD
from poela.data.decision_rows import Rows
from poela.policies.decision_cells import FEWEST_CASES, NEAREST_CASES, columns_before, notes_of

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import TypeIs

    from poela.policies.deciding import Deciding
    from poela.policies.gaussian import GaussianPolicy, RealPolicy


@dataclass(frozen=True, eq=False)
class DecidedAmounts:
    """Decisions about amounts at some contexts [N]."""

    amounts: FloatArray  # [N, m]
    log_density: FloatArray  # [N], NaN of an amount that was not drawn
    spread: FloatArray | None  # [N, m], of the policy, where it knows it
    similar: IntArray | None  # logged pairs near the amount; None without a rule
    outcome: FloatArray  # what came of the nearest of them; NaN of few
    stranded: BoolArray


def amounts_at(
    policy: "RealPolicy", contexts: Float32Array, uniform: FloatArray | None, how: "Deciding"
) -> DecidedAmounts:
    """What tables and servers alike say of contexts, by a number in [0, 1) for each and column; None: the likeliest."""
    if uniform is None:
        acts, density = likeliest(policy, contexts), np.full(len(contexts), np.nan)
    else:
        acts = policy.drawn_by(contexts, uniform)
        density = policy.log_density(contexts, acts)
    near, outcome, stranded = _similar(policy, contexts, acts, how.outcomes)
    counted = getattr(policy, "eligibility", None) is not None and how.similar
    spread = policy.moments(contexts)[1] if is_gaussian(policy) else None
    return DecidedAmounts(acts, density, spread, near if counted else None, outcome, stranded)


def decided_amounts(policy: "RealPolicy", rows: Rows, how: "Deciding", start: int, uniform: FloatArray) -> "pa.Table":
    """A drawn action, its log density and the policy's spread; the logged pairs near it, and what came of them.

    `uniform` [N, m] by row of the file is what actions are drawn by. The likeliest action has no density.
    """
    import pyarrow as pa

    order = rows.order
    decided = amounts_at(policy, rows.contexts.rows.contexts, None if how.likeliest else order.place(uniform), how)
    chosen, density = order.in_file(decided.amounts), order.in_file(decided.log_density)
    stranded = order.in_file(decided.stranded)
    spread = None if decided.spread is None else order.in_file(decided.spread)
    columns = columns_before(rows, start)
    for place, name in enumerate(policy.action_names):
        columns[str(name)] = pa.array(np.ascontiguousarray(chosen[:, place]), mask=stranded)
    columns[DENSITY] = pa.array(density, mask=stranded | np.isnan(density))
    columns[DEFER] = stranded
    columns[POLICY] = pa.repeat(how.name_of(policy), len(stranded))
    for place, name in enumerate(policy.action_names if spread is not None else ()):
        columns[f"{name}{SPREAD}"] = pa.array(np.ascontiguousarray(np.asarray(spread)[:, place]), mask=stranded)
    if decided.similar is not None:
        columns["similar"] = pa.array(order.in_file(decided.similar), mask=stranded)
        if how.outcomes is not None:
            outcome = order.in_file(decided.outcome)
            columns["outcome"] = pa.array(outcome, mask=stranded | np.isnan(outcome))
    columns["note"] = notes_of(rows, stranded)
    return pa.table(columns, metadata=Box(policy.action_names).metadata)


def columns_of_amounts(policy: "RealPolicy") -> tuple[str, ...]:
    """What decisions say beside each case."""
    amounts = [f"{name}{end}" for end in ("", SPREAD) for name in policy.action_names]
    return (ROW, *amounts, DENSITY, DEFER, POLICY, "similar", "outcome", "note")


def likeliest(policy: "RealPolicy", contexts: Float32Array) -> FloatArray:
    """The action of the highest density [N, m]: the mean or, where that is barred, the eligible action next to it."""
    if not is_gaussian(policy):
        raise InputError(f"the likeliest amount of {policy} is not known: its density is only known where it is asked")
    mean, std = policy.moments(contexts)
    if policy.eligibility is None or not len(mean):
        return mean
    boxes, _ = policy.eligibility.boxes(contexts)
    inside = np.clip(mean[:, None], boxes.lower, boxes.upper)
    off = np.square((inside - mean[:, None]) / std[:, None]).sum(axis=2)
    return np.asarray(inside[np.arange(len(mean)), np.where(boxes.there, off, np.inf).argmin(axis=1)])


def is_gaussian(policy: "RealPolicy") -> "TypeIs[GaussianPolicy]":
    """Whether mean and spread of its amounts are known."""
    return hasattr(policy, "moments")


def _similar(
    policy: "RealPolicy", contexts: Float32Array, acts: FloatArray, outcomes: FloatArray | None
) -> tuple[Any, Any, Any]:
    """How many logged pairs are near the action [N], what came of the nearest of them [N], and which rows have none."""
    n, rule = len(acts), getattr(policy, "eligibility", None)
    if rule is None:
        return np.zeros(n, np.int64), np.full(n, np.nan), np.zeros(n, np.bool_)
    boxes, stranded = rule.boxes(contexts)
    near = ((acts[:, None] >= boxes.lower) & (acts[:, None] <= boxes.upper)).all(axis=2) & boxes.there  # nearest first
    counts = near.sum(axis=1)
    outcome = np.full(n, np.nan)
    if outcomes is not None:
        taken = near & (np.cumsum(near, axis=1) <= NEAREST_CASES)
        total = np.where(taken, outcomes[rule.nearest(contexts)[0]], 0.0).sum(axis=1)
        np.divide(total, taken.sum(axis=1), out=outcome, where=counts >= FEWEST_CASES)
    return counts, outcome, stranded
