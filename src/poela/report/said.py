"""What pages say of actions: of a finite set, or of amounts, which they call doses."""

from collections.abc import Mapping
from dataclasses import dataclass

from poela.data.action_space import ActionSpace, Box, Finite

NOT_CHECKED = "This is not checked for real-valued actions."


@dataclass(frozen=True)
class Said:
    """The words of one kind of actions; empty where there is nothing to say."""

    counted: str  # what the data have so many of
    unruled: str  # of a policy that no rule puts in words
    like: str  # an example of chances that are wrong by a tenth of this
    curve: str  # what the logs would show of sensitivity
    memory: tuple[str, str]  # whether the logging policy remembers: with the logs, and without


SAID: Mapping[str, Said] = {
    Finite.kind: Said(
        counted="Actions",
        unruled="",
        like=", such as {:.0%} logged as 10%",
        curve="The curve of the gain over Γ",
        memory=("See section “The data”.", "Needs the logs (--logs)."),
    ),
    Box.kind: Said(
        counted="Columns of doses",
        unruled="Doses change with what is known of a case.",
        like="",
        curve="",
        memory=(NOT_CHECKED, NOT_CHECKED),
    ),
}


def said_of(actions: ActionSpace) -> Said:
    """The words for these actions.

    >>> said_of(Box(("dose",))).counted
    'Columns of doses'
    """
    return SAID[actions.kind]
