"""Simulated logs by name: which simulator, which policy acts, and whose probabilities are written down."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_type_hints

from poela.core.errors import InputError
from poela.core.policy import DensityPolicy, Policy
from poela.core.registry import Registry
from poela.core.typed import Range, Share, one_of, parsed
from poela.data.trajectories import Trajectories
from poela.simulators.episodes import Simulator, run

Size = Annotated[int, Range(least=2, most=10_000)]
Horizon = Annotated[int, Range(least=2, most=20)]  # the tree of contexts doubles with every step

Effect = Annotated[float, Range(least=0, most=10)]
Recorded = Annotated[str, one_of("all", "logged", "none")]


@dataclass(frozen=True)
class Source:
    """Where simulated logs come from."""

    simulator: Simulator
    behavior: Policy | DensityPolicy  # acts
    recorded: (
        Policy | DensityPolicy | None
    )  # gives the propensities in the logs; the behavior itself, unless a flaw is to be imitated
    seen: Simulator | None = None  # what the behavior looks at, where it sees more than the logs show
    logged_only: bool = False  # of the propensities, only those of the logged actions are written down

    def collect(self, episodes: int, seed: int = 0) -> Trajectories:
        """Logs of the behavior."""
        logs: Trajectories = run(self.seen or self.simulator, self.behavior, episodes, seed)
        if self.recorded is None:
            logs = logs.with_logging_probabilities(None)
        elif self.recorded is not self.behavior:
            assert not isinstance(self.recorded, DensityPolicy)
            logs = logs.with_propensities(self.recorded.along(logs))
        if self.logged_only:
            logs = logs.with_propensities(logs.logged_propensities)
        shown = self.simulator.feature_names
        if logs.feature_names == shown:
            return logs
        columns = [logs.feature_names.index(name) for name in shown]
        return replace(logs, contexts=logs.contexts[:, columns], feature_names=shown)


def tumor(markov: bool = False, drug: str = "PCV", as_published: bool = False) -> Source:
    """Tumor growth under the paper's logging policy."""
    from poela.simulators.tumor import TumorBehavior, TumorGrowth

    behavior = TumorBehavior(as_published)
    return Source(TumorGrowth(markov, drug), behavior, TumorBehavior() if as_published else behavior)


def sepsis(variant: str = "harmless", extra_death: Share | None = None, hidden: bool = True) -> Source:
    """Sepsis under the clinicians' policy, whose probabilities stay out of the logs unless `hidden=False`."""
    from poela.simulators.sepsis import Sepsis, SepsisBehavior

    behavior = SepsisBehavior()
    return Source(Sepsis(variant, extra_death), behavior, None if hidden else behavior)


def cartpole(markov: bool = True, epsilon: Share = 0.1) -> Source:
    """CartPole under Q-networks from beginner to expert, which see the angular velocity even where the logs do not."""
    from poela.simulators.cartpole import CartPole, CartPoleBehavior

    behavior = CartPoleBehavior(epsilon=epsilon)
    return Source(CartPole(markov), behavior, behavior, seen=CartPole())


def clinic(effect: Effect = 1.0, propensities: Recorded = "all") -> Source:
    """A clinic whose good episodes end early; the logs hold the propensities of all actions, of the logged, or none."""
    from poela.simulators.clinic import Clinic, ClinicBehavior

    behavior = ClinicBehavior()
    recorded = None if propensities == "none" else behavior
    return Source(Clinic(effect), behavior, recorded, logged_only=propensities == "logged")


def bandit(n_contexts: Size = 20, n_actions: Size = 10) -> Source:
    """The bandit of the paper's section 4 under uniform actions."""
    from poela.simulators.tabular import Bandit

    example = Bandit(n_contexts, n_actions)
    behavior = example.behavior
    return Source(example, behavior, behavior)


def hidden_branch(horizon: Horizon = 4, decoy: bool = False) -> Source:
    """The sequential examples of the paper's appendix A under uniform actions."""
    from poela.simulators.tabular import HiddenBranch

    example = HiddenBranch(horizon, decoy)
    behavior = example.behavior
    return Source(example, behavior, behavior)


def dosing(densities: bool = True) -> Source:
    """One real-valued dose for each patient, under a Gaussian logging policy; `densities`: whether they are logged."""
    from poela.simulators.doses import Dosing

    simulator = Dosing()
    behavior = simulator.behavior
    return Source(simulator, behavior, behavior if densities else None)


def titration(densities: bool = True) -> Source:
    """Ten real-valued adjustments of an infusion, under a Gaussian logging policy."""
    from poela.simulators.doses import Titration

    simulator = Titration()
    behavior = simulator.behavior
    return Source(simulator, behavior, behavior if densities else None)


# A new simulator is one line here: its name, and what builds its source from options.
_OWN: dict[str, Callable[..., Source]] = {
    "tumor": tumor,
    "sepsis": sepsis,
    "cartpole": cartpole,
    "clinic": clinic,
    "bandit": bandit,
    "hidden-branch": hidden_branch,
    "dosing": dosing,
    "titration": titration,
}
SOURCES: Registry[Callable[..., Source]] = Registry("poela.simulators", _OWN)


def source(name: str, **options: Any) -> Source:
    """The source of that name, with its options."""
    if name not in SOURCES:
        raise InputError(f"there is no simulator {name!r}: choose one of {', '.join(SOURCES)}")
    known = list(inspect.signature(SOURCES[name]).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise InputError(f"simulator {name!r} has no option {', '.join(unknown)}: it has {', '.join(known)}")
    kinds = get_type_hints(SOURCES[name], include_extras=True)
    return SOURCES[name](**{option: parsed(option, kinds[option], value) for option, value in options.items()})


def simulate(name: str, episodes: int, seed: int = 0, **options: Any) -> Trajectories:
    """Logged episodes of a simulator; see `SOURCES` for the names and their options.

    >>> simulate("tumor", episodes=5, markov=True)
    Trajectories(5 episodes, 150 steps, 5 features, 2 actions, full propensities)
    """
    return source(name, **options).collect(episodes, seed)
