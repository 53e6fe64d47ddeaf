"""What is known of the cases of a log beside its table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from poela.core.errors import InputError
from poela.data.receipts import is_receipts


@dataclass(frozen=True)
class Beside:
    """What else is known of the cases of a log: outcomes in a table of their own, what was done, when cases ended."""

    outcomes: Any = None
    done: str | None = None
    ended: str | None = None
    logged_by: Any = None
    shared: bool = False  # whether other folders of receipts have their outcomes in the same table

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log that are no part of its layout."""
        return tuple(name for name in (self.done, self.ended) if name is not None)

    def of(self, source: Any) -> "Beside":
        """For one log of several: a folder of receipts has what is named here, a table has it all by itself."""
        return self if is_receipts(source) else Beside(logged_by=self.logged_by)

    def among(self, sources: Sequence[Any]) -> "Beside":
        """For these logs; refuses what is said about receipts where none of them are receipts."""
        said = [name for name in ("outcomes", "done", "ended") if getattr(self, name) is not None]
        if said and not any(map(is_receipts, sources)):
            raise InputError(
                f"{' and '.join(said)} {'go' if len(said) > 1 else 'goes'} with a folder of receipts, and none of "
                "these logs is one: name the folder of --receipts"
            )
        return replace(self, shared=sum(map(is_receipts, sources)) > 1)
