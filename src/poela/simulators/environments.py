"""The simulators as Gymnasium environments, over the same vectorised cores.

Importing this module registers them. `gymnasium.make` can import it by itself, too:

>>> import gymnasium
>>> environment = gymnasium.make("poela.simulators.environments:poela/TumorGrowth-v0")
>>> context, _ = environment.reset(seed=0)
>>> context.shape
(3,)
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array
from poela.simulators.cartpole import FARTHEST, STEEPEST, CartPole
from poela.simulators.clinic import VISITS, Clinic
from poela.simulators.episodes import GeneratorNoise, Simulator
from poela.simulators.sepsis import Sepsis
from poela.simulators.tabular import Bandit, HiddenBranch
from poela.simulators.tumor import MONTHS, TumorGrowth

FASTEST_CART = 100.0  # far beyond what 200 steps allow
LARGEST_MEASUREMENT = 200.0  # far beyond what the noise allows; sepsis contexts are standardised
LARGEST_TUMOR = 1000.0  # far beyond what thirty months allow


class SimulatorEnvironment(gymnasium.Env):  # type: ignore[misc]
    """One episode at a time of a simulator; `state` is the core's state of this one episode."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, simulator: Simulator, low: ArrayLike, high: ArrayLike, render_mode: str | None = None) -> None:
        self.simulator = simulator
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(
            np.asarray(low, np.float32), np.asarray(high, np.float32), dtype=np.float32
        )
        self.action_space = gymnasium.spaces.Discrete(len(simulator.action_names))
        self.state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """A fresh episode."""
        super().reset(seed=seed)
        self.state = self.simulator.reset(1, GeneratorNoise(self.np_random, 1))
        return self.simulator.contexts(self.state)[0], {}

    def step(self, action: int) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """One decision. The end of an episode is part of the task: it terminates and is never truncated."""
        noise = GeneratorNoise(self.np_random, 1)
        self.state, rewards, ended = self.simulator.step(self.state, np.array([action], np.int64), noise)
        return self.simulator.contexts(self.state)[0], float(rewards[0]), bool(ended[0]), False, {}


class TumorEnvironment(SimulatorEnvironment):
    """Tumor growth; see `TumorGrowth`."""

    def __init__(self, markov: bool = False, drug: str = "PCV", render_mode: str | None = None) -> None:
        tissues = 3 if markov else 1
        low = [0.0, *[-1.0] * tissues, 0.0]
        high = [float(MONTHS), *[LARGEST_TUMOR] * tissues, float(MONTHS)]
        super().__init__(TumorGrowth(markov, drug), low, high, render_mode)


class SepsisEnvironment(SimulatorEnvironment):
    """Sepsis; see `Sepsis`."""

    def __init__(
        self, variant: str = "harmless", extra_death: float | None = None, render_mode: str | None = None
    ) -> None:
        bound = np.full(len(Sepsis.feature_names), LARGEST_MEASUREMENT)
        super().__init__(Sepsis(variant, extra_death), -bound, bound, render_mode)


class CartPoleEnvironment(SimulatorEnvironment):
    """CartPole; see `CartPole`."""

    def __init__(self, markov: bool = True, render_mode: str | None = None) -> None:
        bound = np.array([2 * FARTHEST, FASTEST_CART, 2 * STEEPEST, FASTEST_CART][: 4 if markov else 3])
        super().__init__(CartPole(markov), -bound, bound, render_mode)


class ClinicEnvironment(SimulatorEnvironment):
    """A clinic; see `Clinic`."""

    def __init__(self, effect: float = 1.0, render_mode: str | None = None) -> None:
        high = np.array([*[LARGEST_MEASUREMENT] * (len(Clinic.feature_names) - 1), VISITS])
        super().__init__(Clinic(effect), np.zeros(len(high)), high, render_mode)


class BanditEnvironment(SimulatorEnvironment):
    """The bandit of the paper's section 4; see `Bandit`."""

    def __init__(self, n_contexts: int = 20, n_actions: int = 10, render_mode: str | None = None) -> None:
        example = Bandit(n_contexts, n_actions)
        super().__init__(example, np.zeros(n_contexts), np.ones(n_contexts), render_mode)


class HiddenBranchEnvironment(SimulatorEnvironment):
    """The sequential examples of the paper's appendix A; see `HiddenBranch`."""

    def __init__(self, horizon: int = 4, decoy: bool = False, render_mode: str | None = None) -> None:
        example = HiddenBranch(horizon, decoy)
        bound = np.ones(len(example.feature_names))
        super().__init__(example, -bound, bound, render_mode)


gymnasium.register("poela/TumorGrowth-v0", f"{__name__}:TumorEnvironment", kwargs={"markov": False})
gymnasium.register("poela/TumorGrowthMarkov-v0", f"{__name__}:TumorEnvironment", kwargs={"markov": True})
gymnasium.register("poela/Sepsis-v0", f"{__name__}:SepsisEnvironment")
gymnasium.register("poela/SepsisHarmful-v0", f"{__name__}:SepsisEnvironment", kwargs={"variant": "harmful"})
gymnasium.register("poela/CartPole-v0", f"{__name__}:CartPoleEnvironment")
gymnasium.register("poela/CartPoleNonMarkov-v0", f"{__name__}:CartPoleEnvironment", kwargs={"markov": False})
gymnasium.register("poela/Clinic-v0", f"{__name__}:ClinicEnvironment")
gymnasium.register("poela/ClinicNoEffect-v0", f"{__name__}:ClinicEnvironment", kwargs={"effect": 0.0})
gymnasium.register("poela/Bandit-v0", f"{__name__}:BanditEnvironment")
gymnasium.register("poela/HiddenBranch-v0", f"{__name__}:HiddenBranchEnvironment")
gymnasium.register("poela/HiddenBranchDecoy-v0", f"{__name__}:HiddenBranchEnvironment", kwargs={"decoy": True})
