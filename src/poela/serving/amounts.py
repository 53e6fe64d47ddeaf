"""Decisions about amounts over HTTP: a drawn amount of each column and its log density, so that answers are a log."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.decided import ACTION, DEFER, POLICY
from poela.data.decision_rows import RowRequirements, parts_to_decide
from poela.data.encoding import Encoded
from poela.data.layout import DENSITY, LogLayout
from poela.eligibility.continuous import FittedContinuousEligibility
from poela.eligibility.words import rule_in_words
from poela.policies.continuous_decisions import amounts_at, is_gaussian, likeliest
from poela.policies.deciding import Deciding
from poela.policies.decision_cells import DEFERRED
from poela.policies.gaussian import RealPolicy
from poela.serving.direct import encoded_cases, is_direct, notes_about
from poela.serving.requests import Case, Form


def answered_amounts(policy: RealPolicy, form: Form, cases: Sequence[Case], how: Deciding) -> list[dict[str, Any]]:
    """What `decide` says of each case, drawn by the numbers [N, m] that `how` has for them."""
    rows = current_rows(form, cases)
    decided = amounts_at(policy, rows.contexts, how.uniform, how)
    distance, in_range = nearness_of(policy, rows)
    notes = notes_about(rows, {DEFERRED: decided.stranded})
    names = [str(name) for name in policy.action_names]
    return [
        {
            ACTION: None if defer else dict(zip(names, decided.amounts[row].tolist(), strict=True)),
            DENSITY: None if defer else _finite(decided.log_density[row]),
            "spread": None
            if defer or decided.spread is None
            else dict(zip(names, decided.spread[row].tolist(), strict=True)),
            DEFER: defer,
            POLICY: how.name_of(policy),
            "distance": None if distance is None else float(distance[row]),
            "in_range": None if in_range is None else bool(in_range[row]),
            "similar": None if defer or decided.similar is None else int(decided.similar[row]),
            "outcome": None if defer else _finite(decided.outcome[row]),
            "note": notes[row],
        }
        for row, defer in enumerate(decided.stranded.tolist())
    ]


def explained_amounts(policy: RealPolicy, form: Form, case: Case) -> dict[str, Any]:
    """For one case and every column: what the policy would give, what is eligible, and what is usual."""
    rows = current_rows(form, [case])
    contexts, rule = rows.contexts, _rule_of(policy)
    distance, in_range = nearness_of(policy, rows)
    mean = policy.mean(contexts)[0]
    spread, amount, density = None, None, None
    if is_gaussian(policy):
        spread, amount = policy.moments(contexts)[1][0], likeliest(policy, contexts)
        density = _finite(policy.log_density(contexts, amount)[0])
    usual = None if policy.behavior is None else policy.behavior.moments(contexts)
    low = high = near = None
    defer = False
    if rule is not None:
        boxes, stranded = rule.boxes(contexts)
        defer, there = bool(stranded[0]), boxes.there[0]
        near = int(there.sum()) if not defer else 0
        low, high = boxes.lower[0][there].min(axis=0), boxes.upper[0][there].max(axis=0)

    def at(numbers: FloatArray | None, column: int) -> float | None:
        return None if numbers is None else float(numbers[column])

    return {
        DEFER: defer,
        "distance": None if distance is None else float(distance[0]),
        "in_range": None if in_range is None else bool(in_range[0]),
        "similar": near,
        "rule": "" if rule is None else rule_in_words(rule),
        DENSITY: density,
        "actions": [
            {
                ACTION: name,
                "mean": float(mean[column]),
                "spread": at(spread, column),
                "likeliest": at(None if amount is None else amount[0], column),
                "low": at(low, column),
                "high": at(high, column),
                "usually": at(None if usual is None else usual[0][0], column),
            }
            for column, name in enumerate(policy.action_names)
        ],
    }


def current_rows(form: Form, cases: Sequence[Case]) -> Encoded:
    """The features of the current step of each case: from JSON straight to arrays or, with times, by a table."""
    offsets = np.cumsum([0, *(len(case.steps) for case in cases)])
    ends = offsets[1:] - 1
    if is_direct(form):
        rows = encoded_cases(form.schema, [step for case in cases for step in case.steps], offsets)
    else:
        wanted = RowRequirements(form.schema, (), form.reading)
        (read,) = parts_to_decide(form.table(cases), wanted, LogLayout())
        rows = read.contexts.rows
    return rows if len(ends) == offsets[-1] else rows.take(ends)


def nearness_of(policy: RealPolicy, rows: Encoded) -> tuple[FloatArray, Any] | tuple[None, None]:
    """The distance to the nearest logged case, and whether features are in range; None without a rule."""
    rule = _rule_of(policy)
    return (None, None) if rule is None else rule.nearness(rows.contexts)


def _rule_of(policy: RealPolicy) -> FittedContinuousEligibility | None:
    rule = getattr(policy, "eligibility", None)
    assert rule is None or isinstance(rule, FittedContinuousEligibility)
    return rule


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
