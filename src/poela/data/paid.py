"""What rows paid: rewards and other outcomes from their columns, blank before the end, or lost."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.validation import LARGEST
from poela.data.losses import missing_at_the_end
from poela.data.rewards import only_at_the_end, reward_formula
from poela.data.rows import RowProblems
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    from poela.data.order import Order

Described = Callable[[BoolArray], str]  # of whom an outcome is missing, in words


def paid_rewards(
    paid: FloatArray,
    names: Sequence[str],
    reward: str,
    order: "Order | None",
    problems: RowProblems,
    lost: BoolArray | None = None,
    described: Described | None = None,
) -> tuple[FloatArray, list[str]]:
    """Rewards, or another outcome, from columns [N, k]; blanks before the only value of an episode, at its end, are 0.

    So are those of episodes that were `lost`. `reward` is the column, or the formula of these columns; `described` says
    who is without an outcome.
    """
    notes = list[str]()
    gone = None if lost is None or order is None else np.repeat(lost, np.diff(order.offsets))

    def note(bad: BoolArray, what: str, remedy: str) -> None:
        problems.note(bad if order is None else order.in_file(bad), what, remedy)

    for column, name in enumerate(names):
        values = paid[:, column]
        late = only_at_the_end(values, order.offsets) if order is not None and np.isnan(values).any() else None
        if late is not None and late.any():
            values[late] = 0.0
            blank = counted(int(late.sum()), "row")
            notes.append(f"column {quoted(name)} is blank in {blank} before the end of their episodes: counted as 0")
        if gone is not None:
            values[gone & np.isnan(values)] = 0.0
        what, remedy = f"column {quoted(name)} is null, NaN or infinite", "fill it in"
        if described is not None and order is not None and (unseen := missing_at_the_end(values, order.offsets)).any():
            remedy = (
                f"{described(unseen)}. Without them the others stand for cases unlike them: say --missing censored "
                "(missing='censored') to make up for it by the chance of being seen, or fill them in"
            )
        note(~np.isfinite(values), what, remedy)
    formula = None if tuple(names) == (reward,) else reward_formula(reward)
    subject = f"column {quoted(names)}" if formula is None else "the formula of the reward"
    rewards = paid[:, 0] if formula is None else formula.value(dict(zip(names, paid.T, strict=True)))
    note(
        np.isfinite(paid).all(axis=1) & ~np.isfinite(rewards),
        f"{subject} is no number",
        "it must not divide by 0, nor grow beyond all bounds",
    )
    large = (np.abs(rewards) > LARGEST) & np.isfinite(rewards)
    note(large, f"{subject} is beyond {LARGEST:g}", "scale it down, since squares of rewards are summed")
    return np.ascontiguousarray(rewards), notes
