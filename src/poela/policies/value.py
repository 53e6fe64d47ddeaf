"""The greedy policy of a Q network under a rule: what BCQ, PQL and CQL learn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.core.validation import finite_scores
from poela.networks.modules import Network
from poela.networks.outputs import outputs_at
from poela.policies.network import network_fields, stored_network
from poela.policies.ruled import RuledPolicy, greedy


@dataclass(frozen=True, eq=False, kw_only=True)
class GreedyQPolicy(RuledPolicy):
    """The eligible action with the highest value of a Q network.

    Importance sampling sees a deterministic policy only where the log happens to agree with it at every step;
    `evaluate(..., smoothing=0.01)` mixes in a little of the logging policy, as the paper does.
    """

    network: Network

    @property
    def is_greedy(self) -> bool:
        """Always."""
        return True

    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """Action values [N, A]."""
        return outputs_at(self.network, contexts)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """All probability on the best eligible action."""
        return greedy(finite_scores(scores), eligible)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return stored_network("greedy_q_policy", self, self.network)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "GreedyQPolicy":
        """The policy that `stored` describes."""
        fields = network_fields(stored, load_part)
        if fields["network"].remembers:
            raise InputError("the network is a GRU: a greedy policy has an MLP")
        return cls(**fields)
