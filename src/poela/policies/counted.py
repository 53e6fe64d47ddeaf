"""Values where enough was seen nearby, current practice elsewhere: policies of safe improvement."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps
from poela.core.storage import Stored
from poela.core.typed import from_plain
from poela.core.validation import expect_contents, expect_part, expect_sizes
from poela.data.limits import within
from poela.eligibility.fitted import Eligible, FittedEligibility
from poela.policies.ruled import followed, greedy
from poela.policies.valued import PARTS, SETTINGS, ValuedPolicy, valued_fields
from poela.regression.departures import Departure


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedPolicy(ValuedPolicy):
    """Departs from the logging policy as far as the counts of logged neighbours allow."""

    departure: Departure
    nearby: FittedEligibility  # whose radius says what is nearby; it bars nothing

    def decided(self, q: FloatArray, behavior: FloatArray, eligible: Eligible, counts: FloatArray | None) -> FloatArray:
        """Probabilities [N, A] from Q, μ and the counts."""
        assert counts is not None
        return followed(self.departure.act(q, within(behavior, eligible.free), counts), eligible)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """What it would do if enough had been seen of everything."""
        return greedy(scores, eligible)

    def counts(self, contexts: Float32Array, steps: IntArray) -> FloatArray:
        """Logged contexts nearby with each action [N, A]."""
        return self.nearby.counts(contexts, steps)

    def counts_along(self, trajectories: LoggedSteps) -> FloatArray:
        """The same along logged episodes."""
        return self.nearby.counts_along(trajectories)

    def deferred(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] are left to current practice: nothing is done otherwise than now."""
        eligible = self.eligibility.along(trajectories)
        current = followed(within(self.behavior_along(trajectories), eligible.free), eligible)
        return np.asarray((self.along(trajectories) == current).all(axis=1))

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """What a file of this policy holds whole: the models of the logging policy, and the contexts to be counted."""
        return (*super().behavior_models, self.nearby)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return self.stored_as("counted_policy", {"departure": asdict(self.departure)}, {"nearby": self.nearby.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "CountedPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, settings=(*SETTINGS, "departure"), parts=(*PARTS, "nearby"))
        departure = from_plain(Departure, stored.settings["departure"], "departure")
        fields = valued_fields(stored, load_part)
        nearby = expect_part(stored, "nearby", load_part, FittedEligibility, "an eligibility rule")
        expect_sizes("nearby", nearby, len(fields["feature_names"]), len(fields["action_names"]))
        if nearby.radius is None:
            raise InputError("nearby has no radius: it must say how near contexts are to be counted")
        return cls(departure=departure, nearby=nearby, **fields)
