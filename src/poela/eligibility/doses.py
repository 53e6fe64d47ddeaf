"""Support of real-valued actions: ranges of amounts that cases like this one never received.

Each column of actions is divided at its quartiles; who got an amount in which quarter is asked of the same model as for
finite actions. Amounts far beyond all that were given have no support anywhere.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from poela.core.arrays import BoolArray, Float32Array, FloatArray, readonly
from poela.core.policy import DensityPolicy
from poela.data.trajectories import Trajectories
from poela.eligibility.boxes import Boxes, log_interval
from poela.eligibility.support import Evidence, cross_fitted_support, looks_back

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
