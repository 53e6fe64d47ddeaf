"""What policies are truly worth in the sepsis simulator: exactly for tables, and with little noise for all others."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, Memoryless, MemorylessActor, Policy, as_policy
from poela.core.ragged import episode_sums
from poela.simulators.episodes import ROLL_OUTS, run_in_batches
from poela.simulators.sepsis import SAVED, STEPS, Sepsis, SepsisState


class SepsisTruth(NamedTuple):
    """A value and its standard error."""

    value: float
    standard_error: float


def exact_sepsis_value(table: ArrayLike, simulator: Sepsis, truncated: bool = True) -> float:
    """The exact value of a policy of the hidden state, a table [713, 25], in the task or without its limit of steps.

    >>> round(exact_sepsis_value(Sepsis().model.expert, Sepsis()), 2)
    78.18
    """
    model, policy = simulator.model, np.asarray(table, np.float64)
    values = model.expert_values if truncated else model.survival(policy)
    for _ in range(STEPS if truncated else 0):
        values = (policy * model.q_values(values)).sum(axis=1)
    return float(SAVED * model.initial @ values)


def best_sepsis_value(simulator: Sepsis, truncated: bool = True, tolerance: float = 1e-10) -> float:
    """The best value that knowing the hidden state allows, in the task or without its limit of steps.

    >>> round(best_sepsis_value(Sepsis()), 2)
    85.86
    """
    model = simulator.model
    values, step, change = model.expert_values, 0, np.inf
    while step < STEPS if truncated else change > tolerance:
        best = model.q_values(values).max(axis=1)
        change, values, step = float(np.abs(best - values).max()), best, step + 1
    return float(SAVED * model.initial @ values)


def sepsis_value(policy: Any, simulator: Sepsis, episodes: int = 20_000, seed: int = 0) -> SepsisTruth:
    """The value of a policy of the contexts, by roll-outs and the performance-difference identity.

    The value is the clinicians', which is known exactly, plus the expected sum of the policy's advantages over them in
    the hidden states that it comes to (Kakade and Langford 2002). The luck of survival cancels out.

    >>> from poela.simulators.sepsis import SepsisBehavior
    >>> sepsis_value(SepsisBehavior(), Sepsis(), episodes=500)
    SepsisTruth(value=78.1..., standard_error=0.007...)
    """
    if episodes < 2:
        raise InputError(f"{episodes} roll-outs have no standard error: ask for at least 2")
    model = simulator.model
    advantages = SAVED * (model.expert_q - model.expert_values[:, None])
    gains = []
    for logs in run_in_batches(_StateShown(simulator), _StateIgnored(as_policy(policy)), episodes, (seed, ROLL_OUTS)):
        assert logs.propensities is not None  # of every action: `run` always records them
        here = advantages[logs.contexts[:, -1].astype(np.int64)]
        gains.append(episode_sums((logs.propensities * here).sum(axis=1), logs.offsets))
    gain = np.concatenate(gains)
    clinicians = SAVED * model.initial @ model.expert_values
    return SepsisTruth(float(clinicians + gain.mean()), float(gain.std(ddof=1) / np.sqrt(episodes)))


class _StateShown:
    """The simulator with the hidden state as one more column of the contexts."""

    def __init__(self, simulator: Sepsis) -> None:
        self._simulator = simulator
        self.feature_names = (*simulator.feature_names, "state")
        self.action_names = simulator.action_names
        self.horizon = simulator.horizon
        self.reset, self.step = simulator.reset, simulator.step

    def contexts(self, state: SepsisState) -> Float32Array:
        shown = self._simulator.contexts(state)
        return np.column_stack([shown, state.states.astype(np.float32)])


class _StateIgnored(Memoryless):
    """A policy that does not look at that column."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return self._policy.probabilities(np.asarray(contexts)[:, :-1])

    def actor(self, n: int) -> Actor:
        inner = self._policy.actor(n)
        return (_RowsIgnoringState if isinstance(inner, MemorylessActor) else _ActorIgnoringState)(inner)


class _ActorIgnoringState:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return self._actor.probabilities(contexts[:, :-1])

    def record(self, actions: IntArray) -> None:
        self._actor.record(actions)


class _RowsIgnoringState(_ActorIgnoringState, MemorylessActor):
    """The same for actors that need not be asked about ended episodes."""
