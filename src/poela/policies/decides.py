"""What all stored policies can do: decide about the rows of a table, under a name that is a hash of what they are."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps, log_prob_of
from poela.core.stored import Stored, fingerprint_of_stored
from poela.data.action_space import ActionSpace, Finite
from poela.data.opening import AnyTable
from poela.policies.deciding import Deciding, decisions

if TYPE_CHECKING:
    import pyarrow as pa

SHORT = 16  # digits of a hash that stand for a policy


class Decides:
    """Gives `decide`, a name and a short `repr` to policies that can be stored."""

    real_valued: ClassVar[bool] = False  # whether its actions are real numbers
    acts_in: ClassVar[type[ActionSpace]] = Finite

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # a dataclass would print its arrays, which may be rows of a log
            cls.__repr__ = Decides.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        names = ", ".join(map(str, getattr(self, "action_names", ())))
        return f"{type(self).__name__}({names})"

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        raise TypeError(f"{type(self).__name__} must define stored()")

    def log_prob(self, logs: LoggedSteps) -> FloatArray:
        """The log of the probability, or of the density, with which it takes each logged action [N]."""
        return log_prob_of(self, logs)

    @property
    def action_space(self) -> ActionSpace:
        """What it may do: one of a finite set of actions, or amounts."""
        return self.acts_in(getattr(self, "action_names", ()))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all that its files hold, settings and arrays, whatever folder they are in."""
        return fingerprint_of_stored(self.stored())

    @property
    def short_hash(self) -> str:
        """The first sixteen digits of it: what decisions, servers and graphs call the policy."""
        return self.content_hash[:SHORT]

    def decide(
        self,
        rows: AnyTable,
        *,
        case: str | None = None,
        seed: int | None = None,
        similar: bool = True,
        keep: Sequence[str] = (),
        outcomes: ArrayLike | None = None,
        likeliest: bool = False,
        unproven: bool = False,
        leave: bool = False,
    ) -> "pa.Table":
        """A decision for each row of a table, drawn as the policy was judged: a file, or what Arrow takes for a table.

        Columns are found by name and become features as those of the log did. Where the policy looks at earlier
        decisions, rows of an episode are followed by its id, with what was done before in the action column. A draw
        depends on the policy (or a `seed`), the `case` and its step alone: the same file gives the same actions. Cases
        are named by that column, else by the episode, else by a column `case`, else by the number of the row.

        The result has the case (or `row`), its context and columns to `keep`; the `action`, `propensity_<action>` of
        every action, whether the policy would `defer` (unlike any logged case: no action), and the `policy` (its
        hash): with outcomes added, `read_logs` reads it as the next log. Then come the `distance` to the nearest
        logged case, whether each feature is `in_range` of the log, the `eligible` actions, those that are `barred` (by
        a policy that says *never*, or since similar past cases did not receive them), how many `similar` cases got the
        action, and a `note` on gaps. Of real-valued actions there are the amounts, their `log_density` and spread.

        With `likeliest` it hands out the likeliest action, which is another policy: `Study.decide` knows whether
        anything is shown for it; here `unproven` says that you know it is not.

        With `leave`, a policy that says *never* decides only where one action is left: elsewhere `action` and
        propensities are empty, `defer` is true, and people choose among what is not `barred`.

        >>> from poela import POELA, read_logs
        >>> import pyarrow as pa
        >>> table = pa.table({"age": [1, 2, 8, 9] * 9, "action": ["wait", "treat"] * 18, "reward": [0, 1] * 18})
        >>> policy = POELA(radius=1.0, steps=5).fit(read_logs(table).with_propensities([0.5] * 36), seed=0)
        >>> policy.decide({"age": [2, 50]}).select(["age", "defer", "eligible"]).to_pylist()
        [{'age': 2, 'defer': False, 'eligible': 'treat:0; wait:1'},
         {'age': 50, 'defer': True, 'eligible': ''}]
        """
        if likeliest and not unproven:
            raise InputError(
                "the likeliest action is another policy than the drawn one, and nothing is shown for it here: "
                "decide by the study that judged it, or say unproven=True"
            )
        known = None if outcomes is None else np.asarray(outcomes, np.float64)
        how = Deciding(seed, similar, tuple(keep), known, case=case, likeliest=likeliest, leave=leave)
        return decisions(self, rows, how)  # type: ignore[arg-type]
