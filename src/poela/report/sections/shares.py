"""How often each action is taken, before and after."""

from collections.abc import Sequence

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.report.blocks import Picture
from poela.report.pictures.charts import Key, Pair, pairs
from poela.studies.acted import OTHERS
from poela.studies.groups import Groups

BEFORE, AFTER = "now", "new policy"
MOST_TOLD = 10  # actions that the label of a picture names
KEYS = (Key("log", BEFORE), Key("new", AFTER))


def percent(share: float) -> str:
    """A share, with a decimal where it is small.

    >>> percent(0.25), percent(0.0123), percent(0.0)
    ('25%', '1.2%', '0%')
    """
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def shares_picture(groups: Groups, most: int | None = None, title: str = "", caption: str = "") -> Picture:
    """Everybody's actions, before and after; with `most`, those that change most and the rest together."""
    both = np.nan_to_num([groups.everybody.before, groups.everybody.after])  # no weight, no share
    names, both = _few(groups.actions, both, np.abs(both[1] - both[0]), most)
    rows = [
        Pair(name, old, new, f"{percent(old)} → {percent(new)}", f"{name}: now {old:.1%}, new policy {new:.1%}")
        for name, (old, new) in zip(names, both.T.tolist(), strict=True)
    ]
    label = f"Share of decisions for each action, now and under the new policy: {_told(rows)}"
    return Picture(title, pairs(rows, label, KEYS), caption)


def practice_picture(logs: Trajectories, most: int | None = None) -> Picture:
    """How often each action is taken now."""
    shares = np.bincount(logs.actions, minlength=logs.n_actions) / logs.n_steps
    names, few = _few(tuple(map(str, logs.action_names)), shares[None], shares, most)
    rows = [
        Pair(name, share, None, percent(share), f"{name}: {share:.1%}")
        for name, share in zip(names, few[0].tolist(), strict=True)
    ]
    return Picture("", pairs(rows, f"Share of decisions for each action now: {_told(rows)}", KEYS[:1]))


def _told(rows: Sequence[Pair]) -> str:
    return "; ".join(f"{row.name} {row.note}" for row in rows) if len(rows) <= MOST_TOLD else f"{len(rows)} actions"


def _few(names: Sequence[str], shares: FloatArray, size: FloatArray, most: int | None) -> tuple[list[str], FloatArray]:
    """The actions of the largest `size` in their order, with the rest as one, and their shares [k, few]."""
    if most is None or len(names) <= most:
        return list(names), shares
    kept = np.sort(np.argsort(-size, kind="stable")[: most - 1])
    rest = np.setdiff1d(np.arange(len(names)), kept)
    together = np.column_stack([shares[:, kept], shares[:, rest].sum(axis=1)])
    return [*(names[place] for place in kept), OTHERS], together
