"""Policies that people can say and carry out: *always*, *never*, *instead of* in cases like these, else as before."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps, along_once, as_policy
from poela.core.storage import Stored
from poela.core.typed import from_plain, to_plain
from poela.core.validation import expect_contents
from poela.eligibility.fitted import Eligible
from poela.policies.cases import MOST_CASES, Case
from poela.policies.network import NAMES, common_fields
from poela.policies.practice import PracticePolicy, stored_behavior
from poela.policies.rule_words import cases_in_words, sentences_of
from poela.policies.ruled import followed
from poela.policies.valued import priced


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainPolicy(PracticePolicy):
    """Practice, changed where a case of its rule holds (the first that does); under the rule of eligible actions.

    What a case asks for is done only where practice does it, too: probability goes nowhere new.
    """

    cases: tuple[Case, ...]

    @property
    def rule(self) -> str:
        """What it says, in the columns, categories and units of the log."""
        return cases_in_words(self.cases, self.table_schema, self.action_names)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same, a sentence for each case and one for the rest."""
        return sentences_of(self.cases, self.table_schema, self.action_names)

    def decided(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities [N, A] from contexts and μ."""
        practice = priced(behavior, eligible)
        decided = np.array(practice)
        for case, rows in self._by_case(contexts):
            decided[rows] = case.acted(practice[rows], eligible.free[rows])
        return followed(decided, eligible)

    def barred(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> BoolArray:
        """What must no longer be done [N, A]; the rest is left to those who decide."""
        rows = self.checked(contexts)
        numbers = None if steps is None else np.asarray(steps, np.int64)
        return self._barred(rows, as_policy(self.behavior).probabilities(rows), self.eligibility.resolve(rows, numbers))

    def barred_along(self, trajectories: LoggedSteps) -> BoolArray:
        """The same along logged episodes."""
        rows = self.checked(trajectories.contexts)
        return self._barred(rows, along_once(self.behavior, trajectories), self.eligibility.along(trajectories))

    def leaves_along(self, trajectories: LoggedSteps) -> BoolArray:
        """Where it says no more than *never* or *as before* [N]: the rest is for those who decide."""
        contexts = self.checked(trajectories.contexts)
        leaves = np.ones(len(contexts), np.bool_)
        for case, rows in self._by_case(contexts):
            leaves[rows] = case.do == "never"
        return leaves

    def _barred(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> BoolArray:
        practice = priced(behavior, eligible)
        barred = np.zeros(practice.shape, np.bool_)
        for case, rows in self._by_case(contexts):
            barred[rows] = case.barred(practice[rows])
        barred[eligible.stranded] = False
        return barred

    def _by_case(self, contexts: Float32Array) -> list[tuple[Case, BoolArray]]:
        """Each case, and the rows in which it is the first that holds."""
        left, found = np.ones(len(contexts), np.bool_), []
        for case in self.cases:
            rows = left & case.holds(contexts, self.feature_names)
            left &= ~rows
            found.append((case, rows))
        return found

    def stored(self) -> Stored:
        """The policy as plain settings, with the rule of eligible actions and the logging policy as parts."""
        return self.stored_as("plain_policy", {"cases": [to_plain(case) for case in self.cases]})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "PlainPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, (*NAMES, "cases"), parts=("eligibility", "behavior"))
        fields = common_fields(stored, load_part)
        listed = stored.settings["cases"]
        if not isinstance(listed, list) or len(listed) > MOST_CASES:
            raise InputError(f"cases must be a list of at most {MOST_CASES} cases")
        cases = tuple(from_plain(Case, one, f"case {place}") for place, one in enumerate(listed, start=1))
        n_actions, features = len(fields["action_names"]), set(fields["feature_names"])
        if any(max(case.action, case.other or 0) >= n_actions for case in cases):
            raise InputError(f"a case of the rule names an action beyond the {n_actions} that there are")
        if any(condition.feature not in features for case in cases for condition in case.where):
            raise InputError("a case of the rule has a condition on a feature that there is not")
        return cls(cases=cases, behavior=stored_behavior(stored, load_part, fields), **fields)
