# %% [markdown]
# # A Gymnasium environment: log, learn, and check against the truth
#
# Any environment can make logs. Three things matter: write down the probability of each action when it is taken, name
# the episodes, and keep what the policy saw. Here it is blackjack, played by somebody careless.

# %%
import gymnasium
import numpy as np

import poela

environment = gymnasium.make("Blackjack-v1")
NAMES = ("sum", "dealer", "ace")


class Careless:
    """Hits less the higher the sum is, but never seldom."""

    def probabilities(self, contexts):
        """The chances to stick and to hit, for each context."""
        hit = 0.9 - 0.025 * contexts[:, 0]
        return np.stack([1 - hit, hit], axis=1)

    def record(self, actions):
        """Nothing is remembered."""


def play(new_player, episodes, seed):
    """One row for each decision."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        player = new_player()
        context, _ = environment.reset(seed=seed * 1_000_000 + episode)
        step, ended = 0, False
        while not ended:
            shares = player.probabilities(np.array([context], dtype=float))[0]
            action = int(rng.random() < shares[1])
            player.record(np.array([action]))
            following, reward, terminated, truncated, _ = environment.step(action)
            seen = dict(zip(NAMES, context, strict=True))
            chances = {"propensity_stick": shares[0], "propensity_hit": shares[1]}
            done = {"action": ("stick", "hit")[action], "reward": reward}
            rows.append({"episode": episode, "step": step, **seen, **done, **chances})
            context, step, ended = following, step + 1, terminated or truncated
    return rows


# %% [markdown]
# ## Log 2,000 hands
#
# A list of rows becomes a table, and the table becomes logs. `propensity_<action>` columns are found by their names.

# %%
import pyarrow as pa

logs = poela.read_logs(pa.Table.from_pylist(play(Careless, 2000, seed=1)))
print(logs)

# %% [markdown]
# ## Learn

# %%
study = poela.learn(logs, learners=["fittedq"], returns=(-1, 1), backend="inline")
print(study.answer)

# %% [markdown]
# ## Was it true?
#
# In a simulator we can play the recommended policy. With real logs nobody can, which is why the lower end of the gain
# matters. `policy.actor(1)` acts live in one episode: it has the same two methods as our careless player.


# %%
def value(new_player, seed, hands=4000):
    """The mean reward of a hand."""
    return sum(row["reward"] for row in play(new_player, hands, seed)) / hands


before = value(Careless, seed=2)
after = value(lambda: study.policy.actor(1), seed=2)
print(f"what is done now:  {before:+.3f} a hand")
print(f"recommended:       {after:+.3f} a hand")
print(
    f"true gain:         {after - before:+.3f}; shown: at least {study.gain.low:+.3f}"
)

# %% [markdown]
# The promise was kept here, and is in about 95 of 100 logs.
#
# ## Simulators of this package
#
# `poela simulate --help` lists tumor growth, sepsis, a clinic, CartPole and more. They are Gymnasium environments too:
# `gymnasium.make("poela.simulators.environments:poela/TumorGrowth-v0")`. Data sets that others collected come through
# [Minari](../guides/datasets.md#minari).
