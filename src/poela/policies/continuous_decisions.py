"""Decisions of a Gaussian policy for the rows of a table: an amount for each action column, and how sure it is."""

from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import Float32Array, FloatArray
from poela.data.decision_rows import Rows
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.policies.deciding import Deciding
    from poela.policies.gaussian import GaussianPolicy

NEAREST_CASES = 10  # whose outcomes are averaged
FEWEST_CASES = 5  # an average of fewer would tell of single persons
DEFERRED = "nothing like it was logged: decide as before"


def decided_amounts(policy: "GaussianPolicy", rows: Rows, how: "Deciding", start: int) -> "pa.Table":
    """The likeliest eligible action or, with a seed, a drawn one; its spread, the logged pairs near it, their outcome.

    Draws belong to the seed and the number of the row, whatever part of the table it came in.
    """
    import pyarrow as pa

    order, contexts = rows.order, rows.contexts.rows.contexts
    acts = likeliest(policy, contexts) if how.seed is None else _drawn(policy, contexts, how.seed, start)
    chosen, spread = order.in_file(acts), order.in_file(policy.moments(contexts)[1])
    near, outcome, stranded = (order.in_file(part) for part in _similar(policy, contexts, acts, how.outcomes))
    columns: dict[str, Any] = {} if rows.is_named else {"row": np.arange(start + 1, start + len(chosen) + 1)}
    columns |= {name: rows.copied[name] for name in rows.copied.column_names}
    for place, name in enumerate(policy.action_names):
        columns[str(name)] = pa.array(np.ascontiguousarray(chosen[:, place]), mask=stranded)
        columns[f"{name}_spread"] = pa.array(np.ascontiguousarray(spread[:, place]), mask=stranded)
    columns["defer"] = stranded
    if policy.eligibility is not None and how.similar:
        columns["similar"] = pa.array(near, mask=stranded)
        if how.outcomes is not None:
            columns["outcome"] = pa.array(outcome, mask=stranded | np.isnan(outcome))
    columns["note"] = pa.array([DEFERRED if deferred else None for deferred in stranded], pa.string())
    return pa.table(columns)


def clashing(policy: "GaussianPolicy", names: tuple[str | None, ...]) -> str:
    """Columns of the table that are called as columns of the decisions, quoted; empty where none is."""
    own = {"row", "defer", "similar", "outcome", "note"}
    own |= {f"{name}{end}" for name in policy.action_names for end in ("", "_spread")}
    found = [name for name in names if name in own]
    return quoted(found) if found else ""


def likeliest(policy: "GaussianPolicy", contexts: Float32Array) -> FloatArray:
    """The action of the highest density [N, m]: the mean or, where that is barred, the eligible action next to it."""
    mean, std = policy.moments(contexts)
    if policy.eligibility is None or not len(mean):
        return mean
    boxes, _ = policy.eligibility.boxes(contexts)
    inside = np.clip(mean[:, None], boxes.lower, boxes.upper)
    off = np.square((inside - mean[:, None]) / std[:, None]).sum(axis=2)
    return np.asarray(inside[np.arange(len(mean)), np.where(boxes.there, off, np.inf).argmin(axis=1)])


def _drawn(policy: "GaussianPolicy", contexts: Float32Array, seed: int, start: int) -> FloatArray:
    stream = np.random.PCG64(np.random.SeedSequence(seed))
    stream.advance(start * len(policy.action_names))
    return policy.sample(contexts, np.random.Generator(stream))


def _similar(
    policy: "GaussianPolicy", contexts: Float32Array, acts: FloatArray, outcomes: FloatArray | None
) -> tuple[Any, Any, Any]:
    """How many logged pairs are near the action [N], what came of the nearest of them [N], and which rows have none."""
    n, rule = len(acts), policy.eligibility
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
