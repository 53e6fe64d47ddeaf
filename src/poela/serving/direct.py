"""From JSON straight to arrays, and from arrays to answers: a case is not made a table of one row and back.

So it can be where features are numbers and categories, whether or not earlier steps are looked at. Answers are those of
the tables, field by field: the same decisions are behind both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, IntArray
from poela.data.decided import ABOUT, ACTION, DEFER, POLICY
from poela.data.encoding import UNSEEN, Encoded, encoded
from poela.data.history import StepsToFollow
from poela.data.schema import TableSchema, Variable
from poela.policies.deciding import DecidedSteps, Deciding, decide_steps, known_of
from poela.policies.decision_cells import DEFERRED, LEFT, filled_in, not_logged
from poela.policies.ruled import RuledPolicy
from poela.serving.compiled import CompiledPolicy, alone_at
from poela.serving.requests import Case, Form

PROPENSITIES = "propensities"
KINDS = ("number", "category", "ordinal")  # others are times, which tables know how to count


def is_direct(form: Form) -> bool:
    """Whether the cases of this form need no table: limits on actions, above all, are read from one."""
    return form.schema.limits is None and all(variable.kind in KINDS for variable in form.schema.variables)


def answered_directly(
    policy: RuledPolicy, form: Form, cases: Sequence[Case], how: Deciding, engine: CompiledPolicy | None = None
) -> list[dict[str, Any]]:
    """What `decide` says of each case, drawn by the numbers that `how` has for them."""
    assert how.uniform is not None
    offsets = np.cumsum([0, *(len(case.steps) for case in cases)])
    ends = offsets[1:] - 1
    rows = encoded_cases(form.schema, [step for case in cases for step in case.steps], offsets)
    steps = StepsToFollow(rows.contexts, _actions(form, cases), offsets, policy.feature_names, before=how.steps)
    known = known_of(policy, steps).take(ends) if engine is None else engine.known(steps, ends, how.uniform)
    decided = decide_steps(policy, alone_at(steps, ends), how.uniform, how, known=known)
    return answers_of(
        policy, decided, rows if len(rows.contexts) == len(ends) else rows.take(ends), how.name_of(policy)
    )


def _actions(form: Form, cases: Sequence[Case]) -> IntArray:
    """What was done at each step so far, 0 at the current ones."""
    places = {name: place for place, name in enumerate(form.action_names)}
    return np.array([place for case in cases for place in (*map(places.__getitem__, case.actions), 0)], np.int64)


def encoded_cases(schema: TableSchema, rows: Sequence[Mapping[str, Any]], offsets: IntArray | None = None) -> Encoded:
    """The features of steps, each known by its values; each stands for itself, or episodes begin at the offsets.

    >>> schema = TableSchema((Variable("age"), Variable("ward", "category", ("a", "b"))))
    >>> encoded_cases(schema, [{"age": 70, "ward": "b"}, {"age": 5, "ward": "c"}]).contexts
    array([[70.,  0.,  1.],
           [ 5.,  0.,  0.]], dtype=float32)
    """
    if schema.is_plain:
        return Encoded(
            np.array([[row[name] for name in schema.columns] for row in rows], np.float64).astype(np.float32)
        )
    raw = {variable.name: _raw(variable, [row[variable.name] for row in rows]) for variable in schema.variables}
    return encoded(schema, raw, np.arange(len(rows) + 1) if offsets is None else offsets)


def _raw(variable: Variable, values: Sequence[Any]) -> Float32Array:
    """Numbers, or codes of categories; NaN where there is none."""
    if variable.categories:
        codes = {name: float(code) for code, name in enumerate(variable.categories)}
        values = [None if value is None else codes.get(value, UNSEEN) for value in values]
    return np.array(values, np.float64).astype(np.float32)  # None becomes NaN


def answers_of(policy: RuledPolicy, decided: DecidedSteps, rows: Encoded, name: str) -> list[dict[str, Any]]:
    """Decisions as answers, in which every field stands, null where the policy does not know it."""
    actions = policy.action_names
    texts = [str(action) for action in actions]
    nobody = dict.fromkeys(texts)
    notes = notes_about(rows, {DEFERRED: decided.stranded, LEFT: decided.left})
    chances, mask, barred = decided.probabilities.tolist(), decided.mask.tolist(), decided.barred.tolist()
    distances = None if decided.distances is None else decided.distances.tolist()
    undecided, answers = decided.undecided.tolist(), []
    for row, (chosen, stranded) in enumerate(zip(decided.chosen.tolist(), decided.stranded.tolist(), strict=True)):
        far = None if distances is None else distances[row]
        empty = undecided[row]
        about: dict[str, Any] = {
            "distance": None if far is None else _finite(min(far)),
            "in_range": None if decided.in_range is None else bool(decided.in_range[row]),
            "eligible": [
                {"action": action, "distance": None if far is None else _finite(far[place])}
                for place, action in enumerate(actions)
                if mask[row][place] and not stranded
            ],
            "barred": "; ".join(t for t, bars in zip(texts, barred[row], strict=True) if bars and not stranded),
            "similar": None if empty or decided.similar is None else int(decided.similar[row]),
            "outcome": None if empty or decided.outcome is None else _finite(float(decided.outcome[row])),
            "note": notes[row],
        }
        answers.append(
            {
                ACTION: None if empty else actions[chosen],
                PROPENSITIES: nobody if empty else dict(zip(texts, chances[row], strict=True)),
                DEFER: empty,
                POLICY: name,
                **{field: about[field] for field in ABOUT},
            }
        )
    return answers


def notes_about(rows: Encoded, first: Mapping[str, BoolArray]) -> list[str | None]:
    """What is to be known about each case, as tables of decisions say it."""
    said = {
        **first,
        **{not_logged(column): bad for column, bad in rows.unseen.items()},
        **{filled_in(column): bad for column, bad in rows.filled.items()},
    }
    return ["; ".join(text for text, bad in said.items() if bad[row]) or None for row in range(len(rows.contexts))]


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
