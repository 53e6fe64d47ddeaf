"""Outcomes that were not seen: which episodes broke off, how many, and whether that has to do with what was done."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.validation import LARGEST
from poela.data.action_space import ActionName
from poela.data.rewards import only_at_the_end, reward_formula
from poela.data.rows import RowProblems
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.order import Order

MANY_ACTIONS = 10  # named in a note
CLEAR = 0.2  # of a standard deviation: a column differs between those lost and the others
CHANCE = 0.01
TRUE, FALSE = {"1", "true", "yes", "y", "t"}, {"0", "false", "no", "n", "f", ""}


def missing_at_the_end(values: FloatArray, offsets: IntArray) -> BoolArray:
    """Which episodes [n] have no value (NaN) in their last row.

    >>> missing_at_the_end(np.array([1.0, np.nan, 2.0]), np.array([0, 2, 3])).tolist()
    [True, False]
    """
    return np.asarray(np.isnan(values[offsets[1:] - 1]))


def with_middle(returns: FloatArray, lost: BoolArray | None) -> FloatArray:
    """Returns [n] with a middle one of those seen in the place of those that were lost.

    >>> with_middle(np.array([1.0, 99.0, 3.0, 5.0]), np.array([False, True, False, False]))
    array([1., 3., 3., 5.])
    """
    if lost is None or not lost.any() or lost.all():
        return returns
    return np.where(lost, np.sort(returns[~lost])[(~lost).sum() // 2], returns)


def flags_in(column: "pa.ChunkedArray") -> BoolArray | None:
    """A column of yes and no, however they are written; a blank is no. None where it holds anything else.

    >>> import pyarrow as pa
    >>> flags_in(pa.chunked_array([["yes", None, "no"]])).tolist(), flags_in(pa.chunked_array([[1.5]]))
    ([True, False, False], None)
    """
    known = {_spelled(value) for value in column.unique().to_pylist()}
    if not known <= TRUE | FALSE:
        return None
    return np.array([_spelled(value) in TRUE for value in column.to_pylist()], bool)


def _spelled(value: Any) -> str:
    if value is None or value != value:
        return ""
    plain = int(value) if isinstance(value, float) and value == int(value) else value
    return str(plain).strip().lower()


def loss_in_words(
    lost: BoolArray,
    actions: IntArray | None,
    contexts: Float32Array,
    features: Sequence[str],
    names: Sequence[ActionName] = (),
    what: str = "{} have no outcome",
) -> str:
    """How many episodes [n] were lost, of which actions (of their last step), and of whom; `names` names actions.

    >>> lost = np.array([True] * 40 + [False] * 60 + [True] * 10 + [False] * 90)
    >>> actions = np.repeat([0, 1], 100)
    >>> print(loss_in_words(lost, actions, np.zeros((200, 1), np.float32), ["age"], ["large", "small"]))
    50 of 200 episodes (25%) have no outcome: 40% after large, 10% after small; this depends on the action (p < 0.001)
    """
    text = what.format(f"{int(lost.sum())} of {counted(len(lost), 'episode')} ({lost.mean():.0%})")
    if actions is not None and len(np.unique(actions)) > 1:
        text += _by_action(lost, actions, names)
    telling = _telling(lost, contexts, features)
    return f"{text}; those lost differ most in {quoted(telling)}" if telling else text


def _by_action(lost: BoolArray, actions: IntArray, names: Sequence[ActionName]) -> str:
    taken, codes = np.unique(actions, return_inverse=True)
    cases, gone = np.bincount(codes), np.bincount(codes, lost.astype(np.float64))
    shares = gone / cases
    if len(names) > 0 and len(taken) <= MANY_ACTIONS:
        parts = [f"{share:.0%} after {names[code]}" for code, share in zip(taken, shares, strict=True)]
        by_action = ", ".join(parts)
    else:
        by_action = f"{shares.min():.0%} to {shares.max():.0%} by action"
    return f": {by_action}; {_in_words(dependence(np.asarray(gone, np.float64), cases))}"


def loss_by_group(lost: BoolArray, column: str, names: Sequence[str], place: IntArray) -> str:
    """Which shares of groups were lost: `place` [n] has the group of each episode.

    >>> print(loss_by_group(np.arange(200) % 5 == 0, "ward", ["a", "b"], np.arange(200) // 100))
    outcomes not seen, by ward: 20% of a, 20% of b; no sign that it depends on it (p = 1.00)
    """
    cases = np.bincount(place, minlength=len(names))
    gone = np.bincount(place, lost.astype(np.float64), minlength=len(names))
    parts = [f"{some / all_:.0%} of {name}" for name, some, all_ in zip(names, gone, cases, strict=True) if all_]
    chance = dependence(np.asarray(gone[cases > 0], np.float64), cases[cases > 0])
    return f"outcomes not seen, by {column}: {', '.join(parts)}; {_in_words(chance, 'it')}"


def dependence(gone: FloatArray, cases: IntArray) -> float:
    """The p-value of Pearson's χ² test that loss does not depend on the action; 1 where all or none were lost.

    >>> round(dependence(np.array([10, 20]), np.array([100, 100])), 4)  # χ² = 3.9216 with one degree of freedom
    0.0477
    """
    from scipy.stats import chi2

    rate = gone.sum() / cases.sum()
    if not 0 < rate < 1:
        return 1.0
    expected = cases * rate
    return float(chi2.sf((np.square(gone - expected) / (expected * (1 - rate))).sum(), len(cases) - 1))


def _in_words(chance: float, what: str = "the action") -> str:
    shown = "p < 0.001" if chance < 0.001 else f"p = {chance:.3f}" if chance < 0.1 else f"p = {chance:.2f}"
    return f"this depends on {what} ({shown})" if chance < CHANCE else f"no sign that it depends on it ({shown})"


def _telling(lost: BoolArray, contexts: Float32Array, features: Sequence[str]) -> str:
    """The feature whose mean differs most between those lost and the others, where that is clear."""
    if not lost.any() or lost.all() or not contexts.shape[1]:
        return ""
    columns = np.where(np.isfinite(contexts), contexts, 0.0).astype(np.float64)
    spread = columns.std(axis=0)
    apart = np.abs(columns[lost].mean(axis=0) - columns[~lost].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    most = int(apart.argmax())
    error = np.sqrt(1 / lost.sum() + 1 / (~lost).sum())
    return features[most] if apart[most] > max(CLEAR, 3 * error) else ""


# What rows paid: rewards and other outcomes from their columns, blank before the end, or lost.

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
