"""A policy that does what files of decisions say, case by case and step by step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

Decide = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class HandedOut:
    """A policy that does what a file of decisions says; cases that are deferred are left to practice."""

    decide: Decide
    simulator: Any
    practice: Any

    def probabilities(self, contexts: Any) -> Any:
        """Of loose contexts: those of a first step."""
        return self.actor(len(contexts)).probabilities(contexts)

    def along(self, trajectories: Any) -> Any:
        """Not asked for."""
        raise NotImplementedError

    def actor(self, n: int) -> "Acting":
        """Acts in n episodes at once."""
        return Acting(self, self.practice.actor(n))

    def sample(self, contexts: Any, rng: np.random.Generator) -> Any:
        """Real-valued actions of one step."""
        decided = self.decide(_table(self.simulator.feature_names, [contexts], []))
        practised = self.practice.sample(contexts, rng)
        columns = [decided[name].to_numpy() for name in self.simulator.action_names]
        return np.where(np.asarray(decided["defer"])[:, None], practised, np.stack(columns, axis=1))

    def log_density(self, contexts: Any, actions: Any) -> Any:
        """Not needed for a true value."""
        return np.zeros(len(contexts))


@dataclass
class Acting:
    """Running episodes: what was seen and done so far goes into the table that is decided about."""

    policy: HandedOut
    practice: Any
    seen: list[Any] = field(default_factory=list)
    done: list[Any] = field(default_factory=list)

    def probabilities(self, contexts: Any) -> Any:
        """All on the action that is handed out."""
        simulator = self.policy.simulator
        self.seen.append(np.array(contexts))
        names = np.array(simulator.action_names)
        table = _table(simulator.feature_names, self.seen, [names[actions] for actions in self.done])
        decided = self.policy.decide(table).slice(len(contexts) * len(self.done))
        given, left = np.array(decided["action"].to_pylist(), object), np.asarray(decided["defer"])
        handed = np.stack([[str(one) == str(name) for one in given] for name in names], axis=1).astype(float)
        return np.where(left[:, None], self.practice.probabilities(contexts), handed)

    def record(self, actions: Any) -> None:
        """What was done."""
        self.done.append(np.array(actions))
        self.practice.record(actions)


def _table(features: tuple[str, ...], seen: list[Any], done: list[Any]) -> pa.Table:
    """All rows so far, step by step; the action of the last step is yet to come."""
    n, steps = len(seen[0]), len(seen)
    contexts = np.concatenate(seen)
    acted = [name for names in done for name in names.tolist()] + [None] * n
    named = {name: contexts[:, place] for place, name in enumerate(features)}
    keys = {"episode": np.tile(np.arange(n), steps), "step": np.repeat(np.arange(steps), n)}
    return pa.table({**keys, **named, **({"action": acted} if done else {})})
