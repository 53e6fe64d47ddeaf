"""Unions of boxes of actions, and the exact mass that a Gaussian with independent columns gives to them.

The sides of all boxes cut each column into intervals, and their products into cells. A cell lies in the union or
outside it, never half; the mass of a cell is a product of differences of normal distribution functions. So the density
of a Gaussian that is kept within the union is known exactly, whatever way the boxes overlap.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poela.core.arrays import BoolArray, Float32Array, FloatArray, readonly
from poela.core.policy import SMALLEST_UNIFORM, DensityPolicy
from poela.data.trajectories import Trajectories
from poela.eligibility.support import Evidence, cross_fitted_support, looks_back

SMALLEST_MASS = 1e-200  # beside the likeliest cell of each column
MOST_CELLS = 4096  # at one context
_LETTERS = "ijklpqrs"


def most_boxes(n_components: int) -> int:
    """How many boxes of that many columns may overlap at one context.

    >>> most_boxes(1), most_boxes(2), most_boxes(3)
    (2048, 32, 8)
    """
    return max(int((round(MOST_CELLS ** (1 / n_components), 9) + 1) // 2), 1)


@dataclass(frozen=True, eq=False)
class Boxes:
    """At each of N contexts, K boxes of actions with m columns; `there` says which of them count."""

    lower: FloatArray  # [N, K, m]
    upper: FloatArray  # [N, K, m]
    there: BoolArray  # [N, K]

    def __len__(self) -> int:
        return len(self.lower)

    def hold(self, actions: FloatArray) -> BoolArray:
        """Whether each action [N, m] lies in a box [N]."""
        inside = (actions[:, None] >= self.lower) & (actions[:, None] <= self.upper)
        return np.asarray((inside.all(axis=2) & self.there).any(axis=1))

    def take(self, rows: slice) -> "Boxes":
        """Some of the contexts."""
        return Boxes(self.lower[rows], self.upper[rows], self.there[rows])

    def cells(self) -> "Cells":
        """The cells of the union."""
        edges, inside = [], []
        for column in range(self.lower.shape[2]):
            lower, upper = self.lower[..., column], self.upper[..., column]
            ends = np.sort(np.concatenate([lower, upper], axis=1), axis=1)  # [N, 2K]
            edges.append(ends)
            within = (ends[:, :-1, None] >= lower[:, None]) & (ends[:, 1:, None] <= upper[:, None])
            inside.append(within & (np.diff(ends, axis=1) > 0)[..., None])  # [N, C, K]
        inside[0] = inside[0] & self.there[:, None]
        if len(inside) == 1:
            return _merged(edges[0], np.asarray(inside[0].any(axis=2)))
        letters = _LETTERS[: len(inside)]
        spelled = ",".join(f"n{letter}a" for letter in letters) + f"->n{letters}"
        covered = np.einsum(spelled, *(part.astype(np.float32) for part in inside), optimize=True)
        return Cells(tuple(edges), np.asarray(covered > 0))


@dataclass(frozen=True, eq=False)
class Cells:
    """The grid that the sides of boxes make of the actions, and which of its cells the boxes cover."""

    edges: tuple[FloatArray, ...]  # m times [N, C + 1], ascending
    covered: BoolArray  # [N, C, …, C], an axis for each column

    def log_masses(self, mean: Tensor, std: Tensor) -> Tensor:
        """The log of what a Gaussian [N, m] gives to each cell [N, C, …, C]; −inf outside the union."""
        total: Tensor | float = 0.0
        for column, masses in enumerate(self._by_column(mean, std)):
            shape = [len(masses)] + [1] * len(self.edges)
            shape[1 + column] = -1
            total = total + masses.reshape(shape)
        assert isinstance(total, Tensor)
        return total.masked_fill(~torch.as_tensor(self.covered, device=mean.device), -math.inf)

    def _by_column(self, mean: Tensor, std: Tensor) -> Iterator[Tensor]:
        """The log of what each column of a Gaussian gives to its intervals [N, C]."""
        for column, edges in enumerate(self.edges):
            ends = (torch.as_tensor(edges, device=mean.device) - mean[:, column, None]) / std[:, column, None]
            yield log_interval(ends[:, :-1], ends[:, 1:])

    def log_mass(self, mean: Tensor, std: Tensor) -> Tensor:
        """The log of what a Gaussian [N, m] gives to the union [N]."""
        if len(self.edges) == 1:
            return torch.logsumexp(self.log_masses(mean, std), dim=1)
        # A sum of products is a chain of matrix products, far cheaper than the logarithm of each cell.
        left, scale = self._counted.to(mean.device), torch.zeros_like(mean[:, 0])
        for masses in reversed(list(self._by_column(mean, std))):
            most = masses.detach().amax(dim=1)
            rows = left.reshape(len(left), -1, left.shape[-1])
            left = (rows @ torch.exp(masses - most[:, None])[..., None]).reshape(left.shape[:-1])
            scale = scale + most
        far = left < SMALLEST_MASS  # nearly all mass lies outside the union: products lose their digits
        found = scale + torch.log(left.masked_fill(far, 1.0))
        if far.any():
            asked = far.cpu().numpy()
            some = Cells(tuple(edges[asked] for edges in self.edges), self.covered[asked])
            found = found.masked_scatter(far, torch.logsumexp(some.log_masses(mean[far], std[far]).flatten(1), dim=1))
        return found

    @cached_property
    def _counted(self) -> Tensor:
        return torch.as_tensor(self.covered).double()

    def sample(self, mean: FloatArray, std: FloatArray, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] of the Gaussian within the union, by as many uniform numbers as it has columns.

        The first number chooses a cell by its mass; where it falls within that share is uniform again.
        """
        n, m = mean.shape
        uniform = rng.random((n, m))
        masses = self.log_masses(torch.as_tensor(mean), torch.as_tensor(std)).flatten(1).numpy()
        shares = np.exp(masses - masses.max(axis=1, keepdims=True))
        reached = np.cumsum(shares, axis=1)
        wanted = uniform[:, 0] * reached[:, -1]
        rows, found = np.arange(n), np.empty((n, m))
        cell = np.minimum((reached <= wanted[:, None]).sum(axis=1), reached.shape[1] - 1)
        within = (wanted - reached[rows, cell] + shares[rows, cell]) / shares[rows, cell]
        uniform[:, 0] = np.clip(within, 0.0, 1.0)
        places = np.unravel_index(cell, self.covered.shape[1:])
        for column, (edges, place) in enumerate(zip(self.edges, places, strict=True)):
            low, high = edges[rows, place], edges[rows, place + 1]
            middle, spread = mean[:, column], std[:, column]
            drawn = truncated_normal((low - middle) / spread, (high - middle) / spread, uniform[:, column])
            found[:, column] = np.clip(middle + spread * drawn, low, high)
        return found


def _merged(edges: FloatArray, covered: BoolArray) -> Cells:
    """The same union in one column with as few cells as it has parts and gaps: neighbouring cells are one."""
    n = len(edges)
    closed = np.concatenate([np.zeros((n, 1), np.bool_), covered, np.zeros((n, 1), np.bool_)], axis=1)
    turns = closed[:, 1:] != closed[:, :-1]  # [N, C + 1]: edges where the union begins or ends
    most = int(turns.sum(axis=1).max(initial=2))
    place = np.cumsum(turns, axis=1) - 1
    rows, columns = np.nonzero(turns)
    kept = np.repeat(edges[:, -1:], most, axis=1)
    kept[rows, place[rows, columns]] = edges[rows, columns]
    parts = turns.sum(axis=1) // 2
    return Cells((kept,), (np.arange(most - 1) % 2 == 0) & (np.arange(most - 1) < 2 * parts[:, None]))


def log_interval(low: Tensor, high: Tensor) -> Tensor:
    """log(Φ(high) − Φ(low)), exact in both tails; −inf where the interval is empty.

    >>> torch.exp(log_interval(torch.tensor([-1.96], dtype=torch.float64), torch.tensor([1.96], dtype=torch.float64)))
    tensor([0.9500], dtype=torch.float64)
    """
    flipped = low + high > 0
    low, high = torch.where(flipped, -high, low), torch.where(flipped, -low, high)
    empty = high <= low
    high = torch.where(empty, low + 1.0, high)  # keeps gradients finite where they are not wanted
    upper = torch.special.log_ndtr(high)
    found: Tensor = upper + torch.log(-torch.expm1(torch.special.log_ndtr(low) - upper))
    return found.masked_fill(empty, -math.inf)


def truncated_normal(low: FloatArray, high: FloatArray, uniform: FloatArray) -> FloatArray:
    """Standard normal numbers between the bounds, by inversion of uniform ones; exact in both tails.

    >>> truncated_normal(np.array([0.0]), np.array([np.inf]), np.array([0.5])).round(4)
    array([0.6745])
    """
    from scipy.special import log_ndtr, ndtri_exp

    flipped = low + high > 0
    a, b = np.where(flipped, -high, low), np.where(flipped, -low, high)
    share = np.clip(np.where(flipped, 1 - uniform, uniform), SMALLEST_UNIFORM, 1 - 2.0**-53)
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp(np.log(share) + log_ndtr(b), np.log1p(-share) + log_ndtr(a))
    drawn = ndtri_exp(np.minimum(mixed, 0.0))
    return np.asarray(np.where(flipped, -drawn, drawn))


# Support of real-valued actions: ranges of amounts that cases like this one never received.
# Each column of actions is divided at its quartiles; who got an amount in which quarter is asked of the same model as
# for finite actions. Amounts far beyond all that were given have no support anywhere.

QUANTILES = (0.25, 0.5, 0.75)  # more ranges would each have too few cases in small logs
MARGIN = 0.1  # of the range of amounts given: as far beyond it, amounts are still like those at its end
DRAWS = 64  # for each step, of a policy whose distribution is not known in closed form
AT_ONCE = 4096
EVIDENCE = Evidence(enough=0, level=0.01)  # it bars nothing and only judges: what is missing must be more than chance


@dataclass(frozen=True, eq=False)
class DoseRanges:
    """Ranges of amounts, above `low` and up to `high`, each of one column of actions."""

    column: FloatArray  # [K], whole numbers
    low: FloatArray  # [K]
    high: FloatArray  # [K]

    @classmethod
    def of(cls, logs: Trajectories) -> "DoseRanges":
        """Those of each column that varies: as low as nobody got, the quarters, and as high as nobody got.

        >>> doses = [[1.0], [2.0], [3.0], [4.0], [5.0]]
        >>> ranges = DoseRanges.of(Trajectories(np.zeros((5, 1)), doses, np.zeros(5), np.arange(6)))
        >>> ranges.high
        array([0.6, 2. , 3. , 4. , 5.4, inf])
        """
        parts = [np.empty((0, 3))]
        for column, amounts in enumerate(logs.actions.T):
            lowest, highest = float(amounts.min()), float(amounts.max())
            if lowest == highest:
                continue
            margin = MARGIN * (highest - lowest)
            # An amount that more than a quarter of cases got makes two quarters one.
            inner = np.unique(np.quantile(amounts, QUANTILES, method="lower"))
            ends = [-np.inf, lowest - margin, *inner[inner < highest], highest + margin, np.inf]
            parts.append(np.column_stack([np.full(len(ends) - 1, column), ends[:-1], ends[1:]]))
        return cls(*(readonly(numbers, np.float64) for numbers in np.concatenate(parts).T))

    def within(self, logs: Trajectories, column: int) -> Trajectories:
        """The logs with the range of one column's amounts as a finite action, without propensities."""
        own = self.column == column
        levels = np.searchsorted(self.high[own][:-1], logs.actions[:, column], side="left")
        return Trajectories(
            logs.contexts,
            levels,
            logs.rewards,
            logs.offsets,
            None,
            int(own.sum()),
            feature_names=logs.feature_names,
            clusters=logs.clusters,
        )

    def shares(self, policy: DensityPolicy, contexts: Float32Array, asked: BoolArray) -> FloatArray:
        """How probable it is that a policy's amounts lie in each range that is asked for [K]; 0 in others [N, K].

        Exact for Gaussian policies, under a rule or not; else as often as drawn amounts do.
        """
        found = np.zeros((len(contexts), len(self.low)))
        exact = callable(getattr(policy, "moments", None)) and hasattr(policy, "eligibility")
        for start in range(0, len(contexts), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            some = (self._exact if exact else self._drawn)(policy, contexts[rows], np.flatnonzero(asked))
            found[rows, asked] = some
        return found

    def _drawn(self, policy: DensityPolicy, contexts: Float32Array, asked: Any) -> FloatArray:
        rng, total = np.random.default_rng(0), np.zeros((len(contexts), len(asked)))
        columns = self.column[asked].astype(np.int64)
        for _ in range(DRAWS):
            drawn = np.asarray(policy.sample(contexts, rng), np.float64)[:, columns]
            total += (drawn > self.low[asked]) & (drawn <= self.high[asked])
        return total / DRAWS

    def _exact(self, policy: Any, contexts: Float32Array, asked: Any) -> FloatArray:
        mean, std = map(torch.as_tensor, policy.moments(contexts))
        found = np.zeros((len(contexts), len(asked)))
        if policy.eligibility is None:
            for place, number in enumerate(asked):
                column = int(self.column[number])
                ends = [(end - mean[:, column]) / std[:, column] for end in (self.low[number], self.high[number])]
                found[:, place] = torch.exp(log_interval(*ends)).numpy()
            return found
        boxes, _ = policy.eligibility.boxes(contexts)
        whole = boxes.cells().log_mass(mean, std)
        for place, number in enumerate(asked):
            part = _cut(boxes, int(self.column[number]), float(self.low[number]), float(self.high[number]))
            here = part.there.any(axis=1)
            if here.any():
                some = Boxes(part.lower[here], part.upper[here], part.there[here]).cells()
                rows = torch.as_tensor(here)
                found[here, place] = torch.exp(some.log_mass(mean[rows], std[rows]) - whole[rows]).numpy()
        return np.minimum(found, 1.0)


def _cut(boxes: Boxes, column: int, low: float, high: float) -> Boxes:
    """What of boxes lies in a range of one column."""
    lower, upper = boxes.lower.copy(), boxes.upper.copy()
    lower[..., column] = np.clip(lower[..., column], low, high)
    upper[..., column] = np.clip(upper[..., column], low, high)
    return Boxes(lower, upper, boxes.there & (upper[..., column] > lower[..., column]))


def dose_support(logs: Trajectories, share: float, surely: float) -> tuple[DoseRanges, BoolArray] | None:
    """Ranges of amounts, and where [N, K] like cases never received any such amount; None where nothing can be told.

    An action is outside where it is predicted at no more than this part (`surely`) of the limit of its support.
    """
    if logs.n_units < 2:
        return None
    ranges, parts = DoseRanges.of(logs), []
    for column in np.unique(ranges.column):
        levels = ranges.within(logs, int(column))
        support = cross_fitted_support(levels, share, looks_back(levels, None), EVIDENCE)
        if support is None:
            return None
        parts.append(support.held_out <= surely * support.model.least)
    return (ranges, np.concatenate(parts, axis=1)) if parts else None
