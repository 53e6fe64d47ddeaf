"""The paper's small problems on which importance sampling overfits, with values that are known exactly.

In each, a learner that maximises an importance-weighted estimate does best on paper by leaving the logged actions of
unlucky contexts alone: those contexts then carry no weight. Restricting it to eligible actions closes that way out.
"""

from typing import ClassVar

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.simulators.tabular import TablePolicy, TabularMDP

SAFE, GAMBLE, DECOY = 0, 1, 2  # the first actions of the sequential examples
LOSS = -5.0


class Bandit(TabularMDP):
    """Example 1 (section 4): contexts and logged actions are uniform, and the best value is 0.

    In half of the contexts one action pays 1 and the others nothing; in the other half, half of the actions pay −1 and
    the others −5.

    >>> bandit = Bandit(n_contexts=4, n_actions=2)
    >>> bandit.optimal()[0], bandit.value(bandit.behavior)
    (0.0, -1.25)
    """

    best_value: ClassVar[float] = 0.0

    def __init__(self, n_contexts: int = 20, n_actions: int = 10) -> None:
        if n_contexts < 2 or n_contexts % 2 or n_actions < 2 or n_actions % 2:
            raise InputError(f"n_contexts ({n_contexts}) and n_actions ({n_actions}) must be even and at least 2")
        context, action = np.indices((n_contexts, n_actions))
        # The paying actions move on from context to context, so that no action is good everywhere.
        turn = (action - context) % n_actions
        gains = np.where(turn == 0, 1.0, 0.0)
        losses = np.where(turn < n_actions // 2, -1.0, LOSS)
        super().__init__(
            transitions=np.zeros((n_contexts, n_actions, n_contexts)),
            rewards=np.where(context < n_contexts // 2, gains, losses),
            initial=np.full(n_contexts, 1 / n_contexts),
            horizon=1,
        )

    @property
    def behavior(self) -> TablePolicy:
        """The logging policy: uniform."""
        return TablePolicy(self, np.full(self.rewards.shape, 1 / self.rewards.shape[1]))


class HiddenBranch(TabularMDP):
    """Examples 2 and 3 (appendix A): the longer the horizon H, the more ways not to see where a hidden branch leads.

    Half of the patients are lucky: either first action pays 1 and ends. For the others action 0 pays −1 and ends, and
    action 1 leads through H − 1 further choices, all of which end in −5. So starting with action 0 is worth 0, the
    best; starting with action 1 is worth −2. A context is the history: whether the branch was entered, and each choice
    made there as ±1.

    With `decoy=True` this is example 3: action 0 pays its ±1 one step later, and a third first action leads to the same
    observation and then to −5; whoever values contexts takes one for the other. After the first step only two actions
    are on offer: the third, never logged there, would act as the second.

    >>> example = HiddenBranch(horizon=4)
    >>> example.optimal()[0], example.value(example.behavior)
    (0.0, -1.0)
    """

    best_value: ClassVar[float] = 0.0
    best_first_action: ClassVar[int] = SAFE

    def __init__(self, horizon: int = 4, decoy: bool = False) -> None:
        if not 2 <= horizon <= 11:
            raise InputError(f"horizon must be from 2 to 11, not {horizon}: its tree has 2 to that power of leaves")
        root = 5 if decoy else 2
        n_states, n_actions = root + 2 ** (horizon - 1) - 1, 3 if decoy else 2
        transitions = np.zeros((n_states, n_actions, n_states))
        rewards = np.zeros((n_states, n_actions))
        observations = np.zeros((n_states, horizon if decoy else horizon - 1))
        lucky, unlucky = 0, 1
        rewards[lucky, [SAFE, GAMBLE]] = 1.0
        rewards[unlucky, SAFE] = -1.0
        transitions[unlucky, GAMBLE, root] = 1.0
        if decoy:
            # Three states that look alike, and pay one step late: safe and lucky, safe and unlucky, decoyed.
            rewards[[lucky, unlucky], SAFE] = 0.0
            transitions[[lucky, unlucky], SAFE, [2, 3]] = 1.0
            transitions[[lucky, unlucky], DECOY, 4] = 1.0
            rewards[2:5] = [[1.0], [-1.0], [LOSS]]
            observations[2:5, -1] = 1.0
        _grow_tree(transitions, rewards, observations, root, horizon)
        initial = np.zeros(n_states)
        initial[[lucky, unlucky]] = 0.5
        super().__init__(transitions, rewards, initial, horizon, observations=observations)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One for each column of the contexts."""
        choices = tuple(f"choice_{number}" for number in range(1, self.horizon - 1))
        return ("branch", *choices, *(("waiting",) if len(self.action_names) == 3 else ()))

    @property
    def behavior(self) -> TablePolicy:
        """The logging policy: uniform over the actions on offer."""
        on_offer = np.ones(self.rewards.shape)
        on_offer[2:, 2:] = 0.0
        return TablePolicy(self, on_offer / on_offer.sum(axis=1, keepdims=True))


def _grow_tree(transitions: FloatArray, rewards: FloatArray, observations: FloatArray, root: int, horizon: int) -> None:
    """The choices of the branch, one node for each history; the last choice always ends in the loss."""
    observations[root, 0] = 1.0
    rewards[root + 2 ** (horizon - 2) - 1 :] = LOSS
    for depth in range(horizon - 2):
        for node in range(2**depth - 1, 2 ** (depth + 1) - 1):
            left, right = root + 2 * node + 1, root + 2 * node + 2
            transitions[root + node, 0, left] = 1.0
            transitions[root + node, 1:, right] = 1.0
            observations[[left, right]] = observations[root + node]
            observations[[left, right], depth + 1] = [-1.0, 1.0]
