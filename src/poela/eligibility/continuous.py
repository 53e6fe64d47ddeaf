"""Which real-valued actions are eligible: those near a logged pair of context and action.

The distance of (x, a) from a logged pair j is ‖x − x_j‖²/d + κ·‖a − a_j‖²/m, features and actions standardised. As a
penalty it is smooth. As a hard rule the largest column stands for the mean square of actions, which is the same where
there is one column and stricter where there are several: so the eligible actions at a context are a union of boxes, and
a Gaussian that is kept within them has a density that is known exactly (`boxes`).
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.log_cache import cached
from poela.core.options import HasParams
from poela.core.policy import gaussian_log_density
from poela.core.readable import readable
from poela.core.storage import Stored
from poela.core.typed import Count, Positive, from_plain, refuse_problems, to_plain
from poela.core.validation import expect_array, expect_contents, refuse
from poela.data.action_space import ActionName, real_actions
from poela.data.trajectories import Trajectories
from poela.eligibility.boxes import Boxes, most_boxes
from poela.eligibility.quantiles import RadiusSetting, distances_to_others, quantile_of
from poela.neighbours.search import Neighbours

# Why a real-valued action is eligible or barred at a context, with the nearest logged pairs, in words.


@dataclass(frozen=True)
class LoggedPair:
    """A logged context and action near the ones in question."""

    episode: ActionName | None  # None where ids were left out
    action: tuple[float, ...]
    context_distance: float
    distance: float

    def __str__(self) -> str:
        episode = "a logged case" if self.episode is None else f"episode {self.episode}"
        return f"{episode} did {', '.join(map(readable, self.action))} at {readable(self.distance)}"


@dataclass(frozen=True)
class PairExplanation:
    """Whether one action may be taken at one context.

    >>> print(PairExplanation((0.5,), False, 0.1, (LoggedPair(7, (0.9,), 0.0, 0.4),)))
    0.500: barred, since the nearest logged case is 0.400 away and the radius is 0.100
      episode 7 did 0.900 at 0.400
    """

    action: tuple[float, ...]
    eligible: bool
    radius: float
    cases: tuple[LoggedPair, ...]

    @property
    def why(self) -> str:
        """The reason, in words."""
        if not self.cases:
            return "no logged case was looked at"
        nearest = self.cases[0].distance
        stranded = self.eligible and nearest > self.radius
        near = f"the nearest logged case is {readable(nearest)} away and the radius is {readable(self.radius)}"
        return f"{near}; nothing else was logged near this context" if stranded else near

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers, for JSON."""
        return {**asdict(self), "why": self.why}

    def __str__(self) -> str:
        word = "eligible" if self.eligible else "barred"
        first = f"{', '.join(map(readable, self.action))}: {word}, since {self.why}"
        return "\n".join([first, *(f"  {case}" for case in self.cases)])


NEAREST = 32
ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class ContinuousEligibility(HasParams):
    """An action is eligible within `radius` of one of the logged pairs whose contexts are the nearest `neighbours`.

    "q99" is the radius within which 99 of 100 logged pairs have one of another episode. `action_weight` (κ) says how
    much actions count beside contexts. `neighbours=None` takes 32, or as many as several action columns allow. Where no
    logged context is near, the nearest stands for it, and the step is counted as stranded.

    >>> logs = Trajectories([[0.0], [0.0], [9.0]], [[1.0], [2.0], [5.0]], [0, 0, 0], [0, 1, 2, 3])
    >>> rule = ContinuousEligibility(radius=0.01).fit(logs)
    >>> rule.eligible([[0.0], [0.0], [0.0]], [[1.1], [5.0], [2.0]])
    array([ True, False,  True])
    """

    radius: RadiusSetting = "q100"  # farthest logged pair of context and action: a number, or "q99"
    action_weight: Positive = 1.0  # how much actions count beside contexts (κ)
    neighbours: Count | None = None  # logged contexts that are looked at; None: 32 or more

    def __post_init__(self) -> None:
        refuse_problems(self)

    def fit(self, train: Trajectories) -> "FittedContinuousEligibility":
        """The rule over these training logs, with a radius that is a number."""
        logs = real_actions(train, "a distance to logged actions")
        most = most_boxes(logs.n_components)
        if self.radius == np.inf:
            raise InputError("radius is infinite, which is no rule: leave the rule out")
        if self.neighbours is not None and self.neighbours > most:
            raise InputError(
                f"neighbours is {self.neighbours}: with {logs.n_components} action columns at most {most} can be "
                "looked at together; say fewer, or use the penalty instead of the rule"
            )
        settings = replace(self, neighbours=self.neighbours or min(NEAREST, most))
        share = quantile_of(self.radius)
        if share is not None:
            measure = replace(settings, radius=0.0)  # all that distances depend on
            key = ("pair distances", measure)
            distances = cached(logs, key, None, lambda: precedent_distances(measure, logs))
            settings = replace(settings, radius=float(np.quantile(distances, share)))
        return fitted(settings, logs)


@dataclass(frozen=True, eq=False)
class FittedContinuousEligibility:
    """The rule over logged pairs; contexts and actions are kept standardised."""

    settings: ContinuousEligibility
    contexts: FloatArray  # [M, d], standardised
    actions: FloatArray  # [M, m], standardised
    context_scale: FloatArray  # [2, d]: means and deviations
    action_scale: FloatArray  # [2, m]
    episode_ids: Any = field(default=None)  # [M], to explain by; files do without

    @property
    def holds_logged_contexts(self) -> bool:
        """Whether a file of the rule holds contexts of the training logs."""
        return True

    @cached_property
    def _search(self) -> Neighbours:
        return Neighbours(self.contexts)

    def nearest(self, contexts: ArrayLike) -> tuple[IntArray, FloatArray]:
        """The nearest logged contexts [N, K], and their squared distances ‖x − x_j‖²/d."""
        rows = (np.asarray(contexts, np.float64) - self.context_scale[0]) / self.context_scale[1]
        k = min(self.settings.neighbours or NEAREST, len(self.contexts))
        found, squared = self._search.k_nearest(rows, k)
        return found, squared / self.contexts.shape[1]

    def nearness(self, contexts: ArrayLike) -> tuple[FloatArray, BoolArray]:
        """The distance ‖x − x_j‖²/d to the nearest logged context [N], and whether each feature is in its range [N]."""
        rows = (np.asarray(contexts, np.float64) - self.context_scale[0]) / self.context_scale[1]
        low, high = self.ranges
        return self.nearest(contexts)[1][:, 0], np.asarray(((rows >= low) & (rows <= high)).all(axis=1))

    @cached_property
    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest of each logged feature [d], standardised."""
        return self.contexts.min(axis=0), self.contexts.max(axis=0)

    def standardised(self, actions: ArrayLike) -> FloatArray:
        """Actions [N, m] on the scale of the logs."""
        return np.asarray((np.asarray(actions, np.float64) - self.action_scale[0]) / self.action_scale[1])

    def distances(self, contexts: ArrayLike, actions: ArrayLike, largest: bool = False) -> FloatArray:
        """The distance [N] of each pair from the nearest logged one; with `largest` as the hard rule has it."""
        near, squared = self.nearest(contexts)
        apart = np.square(self.standardised(actions)[:, None] - self.actions[near])
        apart = apart.max(axis=2) if largest else apart.mean(axis=2)
        return np.asarray((squared + self.settings.action_weight * apart).min(axis=1))

    def boxes(self, contexts: ArrayLike) -> tuple[Boxes, BoolArray]:
        """The eligible actions, in their own units, and which contexts [N] have no logged one near."""
        assert not isinstance(self.settings.radius, str)
        near, squared = self.nearest(contexts)
        stranded = squared[:, 0] > self.settings.radius
        squared = squared.copy()
        squared[stranded, 0] = 0.0  # the nearest stands for a context that has none near
        room = (self.settings.radius - squared) / self.settings.action_weight
        reach = np.sqrt(np.maximum(room, 0.0))[..., None] * self.action_scale[1]
        middle = self.actions[near] * self.action_scale[1] + self.action_scale[0]
        # A radius of 0 leaves points, to which no density belongs: they get a width that nobody would notice.
        reach = np.maximum(reach, 1e-9 * self.action_scale[1])
        return Boxes(middle - reach, middle + reach, room >= 0), stranded

    def eligible(self, contexts: ArrayLike, actions: ArrayLike) -> BoolArray:
        """Whether each action [N, m] is eligible at its context."""
        return self.boxes(contexts)[0].hold(np.asarray(actions, np.float64))

    def stranded(self, contexts: ArrayLike) -> BoolArray:
        """Which contexts [N] have no logged one near."""
        return self.boxes(contexts)[1]

    def log_density(self, contexts: Float32Array, actions: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
        """Of a Gaussian that is kept within the eligible actions; −inf elsewhere."""
        boxes, _ = self.boxes(contexts)
        plain = np.where(boxes.hold(actions), gaussian_log_density(actions, mean, std), -np.inf)
        for start in range(0, len(plain), ROWS_AT_A_TIME):
            rows = slice(start, start + ROWS_AT_A_TIME)
            moments = torch.as_tensor(mean[rows]), torch.as_tensor(std[rows])
            plain[rows] -= boxes.take(rows).cells().log_mass(*moments).numpy()
        return plain

    def sample(self, contexts: Float32Array, mean: FloatArray, std: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Eligible actions [N, m] of a Gaussian."""
        return self.boxes(contexts)[0].cells().sample(mean, std, rng)

    def explain(self, context: ArrayLike, action: ArrayLike, k: int = 3) -> PairExplanation:
        """Whether one action is eligible at one context, and the nearest logged pairs."""
        row, done = np.atleast_2d(np.asarray(context)), np.atleast_2d(np.asarray(action, np.float64))
        near, squared = self.nearest(row)
        apart = np.square(self.standardised(done)[:, None] - self.actions[near]).max(axis=2)
        total = (squared + self.settings.action_weight * apart)[0]
        order = np.argsort(total, kind="stable")[:k]
        units = self.actions[near[0]] * self.action_scale[1] + self.action_scale[0]
        ids = self.episode_ids
        cases = tuple(
            LoggedPair(
                None if ids is None else ids[near[0, place]],
                tuple(units[place].round(6).tolist()),
                float(squared[0, place]),
                float(total[place]),
            )
            for place in order
        )
        eligible = bool(self.eligible(row, done)[0])
        assert not isinstance(self.settings.radius, str)
        return PairExplanation(tuple(done[0].tolist()), eligible, self.settings.radius, cases)

    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
        names = ("contexts", "actions", "context_scale", "action_scale")
        arrays = {name: getattr(self, name) for name in names}
        return Stored("continuous_eligibility", {"settings": to_plain(self.settings)}, arrays)

    @classmethod
    def from_stored(
        cls, stored: Stored, load_part: Callable[[Stored], Any] | None = None
    ) -> "FittedContinuousEligibility":
        """The inverse of `stored`."""
        names = ("contexts", "actions", "context_scale", "action_scale")
        expect_contents(stored, ("settings",), names)
        settings = from_plain(ContinuousEligibility, stored.settings["settings"], "eligibility")
        if isinstance(settings.radius, str) or settings.neighbours is None:
            refuse("radius", settings.radius, "a number, with a number of neighbours")
        found = {name: np.asarray(stored.arrays[name]) for name in names}
        if any(array.ndim != 2 for array in found.values()) or not len(found["contexts"]):
            refuse("contexts", found["contexts"].shape, "matrices with at least one row")
        rows, d, m = len(found["contexts"]), found["contexts"].shape[1], found["actions"].shape[1]
        shapes = {"contexts": (rows, d), "actions": (rows, m), "context_scale": (2, d), "action_scale": (2, m)}
        arrays = [expect_array(stored, name, np.float64, shape) for name, shape in shapes.items()]
        if settings.neighbours > most_boxes(m) or (arrays[2][1] <= 0).any() or (arrays[3][1] <= 0).any():
            refuse("eligibility", settings.neighbours, "of fewer neighbours and positive scales")
        return cls(settings, *arrays)


def fitted(settings: ContinuousEligibility, logs: Trajectories) -> FittedContinuousEligibility:
    """The rule over these logs, whose radius and neighbours are numbers."""
    context_scale, action_scale = _scale(logs.contexts.astype(np.float64)), _scale(logs.actions)
    ids = None if logs.episode_ids is None else logs.episode_ids[logs.episode_of_step]
    contexts, actions = (
        (rows - scale[0]) / scale[1] for rows, scale in ((logs.contexts, context_scale), (logs.actions, action_scale))
    )
    return FittedContinuousEligibility(settings, contexts, actions, context_scale, action_scale, ids)


def precedent_distances(settings: ContinuousEligibility, logs: Trajectories) -> FloatArray:
    """The distance of logged pairs from the nearest of other episodes, and other clusters of them."""
    if logs.n_units < 2:
        return np.zeros(1)

    def asked(others: Trajectories, held_out: Trajectories, rows: IntArray) -> FloatArray:
        return fitted(settings, others).distances(held_out.contexts[rows], held_out.actions[rows], largest=True)

    return distances_to_others(logs, asked)


def _scale(rows: FloatArray) -> FloatArray:
    spread = rows.std(axis=0)
    return np.stack([rows.mean(axis=0), np.where(spread > 1e-12, spread, 1.0)])
