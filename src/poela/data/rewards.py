"""Rewards: a column, or a small sum of columns; blank before the end of an episode where they come only there."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import episode_of_step
from poela.data.formulas import LONGEST, is_arithmetic, parsed, worked_out
from poela.data.header import spelling
from poela.data.words import quoted

FORMULA_LIKE = re.compile(r"[^\w .]")  # rarely in the name of a column, nearly always in a formula
NO_FORMULA = (
    "reward= is no column and no formula of columns: write something like survived - 0.01*cost "
    f"(at most {LONGEST} characters; + - * / and brackets; `a name of several words` in backquotes)"
)

HARMS = {
    *("death", "deaths", "died", "dead", "mortality", "relapse", "relapsed", "readmission", "readmitted", "infection"),
    *("complication", "complications", "failure", "harm", "pain", "cost", "costs", "dropout", "churn", "churned"),
}


def harm_note(reward: str) -> str:
    """What to say of a reward that is called like a harm; empty of any other.

    >>> harm_note("Death")
    "a larger 'Death' counts as better: if it is to be lower, say --reward=-Death (reward='-Death')"
    >>> harm_note("survived")
    ''
    """
    if spelling(reward) not in HARMS:
        return ""
    minus = f"-{reward}" if reward.isidentifier() else f"-`{reward}`"
    return f"a larger {quoted(reward)} counts as better: if it is to be lower, say --reward={minus} (reward='{minus}')"


@dataclass(frozen=True, eq=False)
class RewardFormula:
    """Numbers, columns, + − * / and brackets; a name that is no word stands between backquotes.

    >>> formula = RewardFormula.of("survived - 0.01 * `cost in $`")
    >>> formula.columns
    ('survived', 'cost in $')
    >>> formula.value({"survived": np.array([1.0, 0.0]), "cost in $": np.array([10.0, 20.0])})
    array([ 0.9, -0.2])
    """

    columns: tuple[str, ...]
    _tree: Any
    _names: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> "RewardFormula":
        """The formula that a text spells; one sentence where it spells none."""
        names: dict[str, str] = {}
        try:
            tree = parsed(text, names)
        except ValueError:
            raise InputError(NO_FORMULA) from None
        if not is_arithmetic(tree):
            raise InputError(NO_FORMULA)
        return cls(tuple(names), tree, {alias: name for name, alias in names.items()})

    def value(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """What it comes to, row by row; not finite where it divides by 0 or grows too large."""
        with np.errstate(all="ignore"):
            return np.asarray(worked_out(self._tree, lambda alias: columns[self._names[alias]]), np.float64)


def reward_formula(reward: str) -> RewardFormula | None:
    """The formula that a reward is; None where it is the name of a column.

    >>> reward_formula("days alive") is None, reward_formula("alive - cost").columns
    (True, ('alive', 'cost'))
    """
    try:
        formula = RewardFormula.of(reward)
    except InputError:
        return None
    return None if not formula.columns or formula.columns == (reward,) else formula


def columns_paid_in(reward: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that a reward, or another outcome, is made of in a table with these columns.

    >>> columns_paid_in("alive - cost", ["alive", "cost"]), columns_paid_in("alive - cost", ["alive - cost"])
    (('alive', 'cost'), ('alive - cost',))
    """
    formula = None if reward in columns else reward_formula(reward)
    return (reward,) if formula is None else formula.columns


def only_at_the_end(values: FloatArray, offsets: IntArray) -> BoolArray:
    """Which blanks (NaN) of a column come before the only value of their episode, in its last row.

    >>> nan = np.nan
    >>> only_at_the_end(np.array([nan, nan, 1.0, 2.0, nan, 3.0, nan]), np.array([0, 3, 4, 6, 7]))
    array([ True,  True, False, False,  True, False, False])
    """
    blank = np.isnan(values)
    episode = episode_of_step(offsets)
    known = np.bincount(episode[~blank], minlength=len(offsets) - 1)
    last = offsets[1:] - 1
    late: BoolArray = (known == 1) & ~blank[last]
    return np.asarray(blank & late[episode])
