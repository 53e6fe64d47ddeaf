"""In what a logged case is like the one in question, by the parts of their distance."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.eligibility.foreign import OwnScale
from poela.eligibility.leaves import SharedLeaves

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility

ALIKE = 0.05  # of what two random cases differ by, squared
MOST_NAMES = 3


@dataclass(frozen=True)
class Likeness:
    """Columns in which two cases are alike, and the one in which they differ most.

    >>> print(Likeness(("lactate", "ward"), "age"))
    alike in lactate and ward; differs most in age
    """

    alike: tuple[str, ...] = ()
    differs: str | None = None  # None: in nothing

    def __str__(self) -> str:
        *others, last = self.alike or ("",)
        names = f"{', '.join(others)} and {last}" if others else last
        told = (f"alike in {names}" if names else "", f"differs most in {self.differs}" if self.differs else "")
        return "; ".join(filter(None, told))


def likenesses(
    rule: "FittedEligibility", context: Float32Array, cases: IntArray, shared: SharedLeaves | None = None
) -> list[Likeness]:
    """For one context [d] and the positions of logged ones; without words where there is one column, or no difference.

    Features of one column, such as the indicators of a category, count together. With `shared` leaves, columns are told
    by the tests of trees that the cases pass alike, instead of by parts of distances.
    """
    assert rule.logged is not None
    if shared is None and isinstance(rule.logged.scale, OwnScale):
        return [Likeness()] * len(cases)  # whose features have no names
    names, column_of = _columns(rule)
    if shared is None:
        features, logged = rule.logged.features(context[None]), rule.logged.features(rule.logged.contexts[cases])
        differing, spread = np.square(logged - features), 2 * rule.logged.spread
    else:
        differing, spread = shared.differing, shared.tests
    parts = np.stack([np.bincount(column_of, row, len(names)) for row in differing])
    usual = np.asarray(np.bincount(column_of, spread, len(names)), np.float64)
    return [Likeness() if len(names) == 1 or not row.any() else _likeness(names, row, usual) for row in parts]


def _columns(rule: "FittedEligibility") -> tuple[list[str], IntArray]:
    """The columns of the table, and the place of each feature's column among them; else features stand for columns."""
    if rule.schema is None or rule.schema.feature_names != rule.feature_names:
        return list(rule.feature_names), np.arange(rule.n_features)
    names = [variable.name for variable in rule.schema.variables]
    widths = [len(variable.features) for variable in rule.schema.variables]
    if rule.schema.limits is not None:
        names, widths = [*names, *rule.schema.limits.features], [*widths, *(1 for _ in rule.schema.limits.features)]
    return names, np.repeat(np.arange(len(widths)), widths)


def _likeness(names: list[str], parts: FloatArray, usual: FloatArray) -> Likeness:
    """Of columns that tell cases apart; those first in which cases usually differ most.

    >>> _likeness(["age", "ward", "year"], np.array([1.0, 0.0, 0.0]), np.array([2.0, 1.0, 0.0]))
    Likeness(alike=('ward',), differs='age')
    """
    alike = (usual > 0) & (parts <= ALIKE * usual)
    order = np.argsort(-usual, kind="stable")
    most = int(parts.argmax())
    return Likeness(
        alike=tuple(names[place] for place in order[alike[order]][:MOST_NAMES]),
        differs=None if alike[most] else names[most],
    )
