"""From JSON straight to arrays, and from arrays to answers: a case is not made a table of one row and back.

So it can be where every row stands for itself and its features are numbers and categories. Answers are those of the
tables, field by field: the same decisions are behind both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poela.core.arrays import Float32Array
from poela.data.decided import ABOUT, ACTION, DEFER, POLICY
from poela.data.encoding import UNSEEN, Encoded, encoded
from poela.data.history import StepsToFollow
from poela.data.schema import TableSchema, Variable
from poela.policies.deciding import DecidedSteps, Deciding, decide_steps
from poela.policies.decision_cells import DEFERRED, LEFT, filled_in, not_logged
from poela.policies.ruled import RuledPolicy
from poela.serving.requests import Case, Form

PROPENSITIES = "propensities"
KINDS = ("number", "category", "ordinal")  # others are times, which tables know how to count


def is_direct(form: Form) -> bool:
    """Whether the cases of this form need no table: limits on actions, above all, are read from one."""
    plain = form.schema.limits is None and not form.wants_history
    return plain and all(variable.kind in KINDS for variable in form.schema.variables)


def answered_directly(policy: RuledPolicy, form: Form, cases: Sequence[Case], how: Deciding) -> list[dict[str, Any]]:
    """What `decide` says of each case, drawn by the numbers that `how` has for them."""
    assert how.uniform is not None
    rows = encoded_cases(form.schema, [case.steps[-1] for case in cases])
    nothing, offsets = np.zeros(len(cases), np.int64), np.arange(len(cases) + 1)
    steps = StepsToFollow(rows.contexts, nothing, offsets, policy.feature_names, before=how.steps)
    return answers_of(policy, decide_steps(policy, steps, how.uniform, how), rows, how.name_of(policy))


def encoded_cases(schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> Encoded:
    """The features of cases, each known by its values.

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
    return encoded(schema, raw, np.arange(len(rows) + 1))


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
    notes = _notes(rows, decided)
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


def _notes(rows: Encoded, decided: DecidedSteps) -> list[str | None]:
    """What is to be known about each case, as tables of decisions say it."""
    said = {
        DEFERRED: decided.stranded,
        LEFT: decided.left,
        **{not_logged(column): bad for column, bad in rows.unseen.items()},
        **{filled_in(column): bad for column, bad in rows.filled.items()},
    }
    return ["; ".join(text for text, bad in said.items() if bad[row]) or None for row in range(len(decided.stranded))]


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
