"""Networks under a rule: the softmax that POELA, PO-mu and PO-CRM learn, and the greedy one of BCQ, PQL and CQL."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps
from poela.core.storage import Stored
from poela.core.typed import from_plain
from poela.core.validation import (
    expect_contents,
    expect_names,
    expect_part,
    expect_sizes,
    finite_scores,
    refuse,
)
from poela.eligibility.fitted import FittedEligibility
from poela.networks.modules import GRU, Network, NetworkShape
from poela.networks.outputs import outputs_along, outputs_at
from poela.policies.ruled import ActingRule, RuledPolicy, greedy, softmax

NAMES = ("feature_names", "action_names")


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkPolicy(RuledPolicy):
    """π(a|x) ∝ exp(logit_a(x)) over the eligible actions."""

    network: Network

    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """The network's logits [N, A]."""
        return outputs_at(self.network, contexts)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """The softmax over eligible actions."""
        return softmax(finite_scores(scores), eligible)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return stored_network("network_policy", self, self.network)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "NetworkPolicy":
        """The policy that `stored` describes."""
        return policy_of(**network_fields(stored, load_part))


@dataclass(frozen=True, eq=False, kw_only=True)
class RecurrentPolicy(NetworkPolicy):
    """The same over a GRU: a policy of the whole history, so it needs episodes, not loose contexts."""

    @property
    def needs(self) -> str:
        """The history."""
        return "history"

    def probabilities(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """Refused: loose contexts carry no history."""
        raise InputError(
            "this policy remembers the whole episode: use decide(table), along(trajectories) or actor(n), not loose "
            "contexts"
        )

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        contexts = self.checked(trajectories.contexts)
        scores = outputs_along(self.network, contexts, trajectories.actions, trajectories.offsets)
        return self.ruled(scores, self.eligibility.along(trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, remembering each."""
        return _RecurrentActor(self, n)


class _RecurrentActor:
    def __init__(self, policy: RecurrentPolicy, n: int) -> None:
        assert isinstance(policy.network, GRU)
        self._policy, self._network = policy, policy.network
        self._previous = torch.zeros(n, policy.n_actions)
        self._memory: torch.Tensor | None = None  # after the steps that were recorded
        self._next_memory: torch.Tensor | None = None
        self._rule = ActingRule(policy.eligibility, n)

    @torch.no_grad()
    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = self._policy.checked(contexts)
        logits, self._next_memory = self._network.step(torch.tensor(rows), self._previous, self._memory)
        return self._policy.ruled(logits.double().numpy(), self._rule.eligible(rows))

    def record(self, actions: IntArray) -> None:
        self._memory = self._next_memory
        self._previous = torch.nn.functional.one_hot(torch.tensor(actions), self._policy.n_actions).float()
        self._rule.record(actions)


def policy_of(network: Network, **fields: Any) -> NetworkPolicy:
    """The policy class that fits the network."""
    return RecurrentPolicy(network=network, **fields) if network.remembers else NetworkPolicy(network=network, **fields)


def stored_network(kind: str, policy: RuledPolicy, network: Network, **settings: Any) -> Stored:
    """What every network policy writes: names, shape, weights, rule."""
    return Stored(
        kind,
        settings={
            "feature_names": list(policy.feature_names),
            "action_names": list(policy.action_names),
            "network": network.shape.to_dict(),
            **settings,
        },
        arrays=network.weights(),
        parts={"eligibility": policy.eligibility.stored()},
    )


def network_fields(stored: Stored, load_part: Callable[[Stored], Any]) -> dict[str, Any]:
    """The fields of a stored network policy: what `stored_network` wrote."""
    shape = from_plain(NetworkShape, stored.settings.get("network"), "network")
    arrays = shape.weight_shapes()
    expect_contents(stored, (*NAMES, "network"), arrays, parts=("eligibility",))
    fields = common_fields(stored, load_part)
    sizes = len(fields["feature_names"]), len(fields["action_names"])
    if (shape.n_inputs, shape.n_outputs) != sizes:
        refuse("network", (shape.n_inputs, shape.n_outputs), f"of {sizes[0]} inputs and {sizes[1]} outputs")
    return {"network": shape.from_stored(stored), **fields}


def common_fields(stored: Stored, load_part: Callable[[Stored], Any]) -> dict[str, Any]:
    """The fields that every ruled policy has."""
    feature_names, action_names = expect_names(stored)
    rule = expect_part(stored, "eligibility", load_part, FittedEligibility, "an eligibility rule")
    expect_sizes("eligibility", rule, len(feature_names), len(action_names))
    return {"eligibility": rule, "feature_names": feature_names, "action_names": action_names}


# The greedy policy of a Q network under a rule: what BCQ, PQL and CQL learn.


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
