"""The logged contexts behind the distance rule: searched for each action, pooled or step by step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.log_cache import cached
from poela.data.trajectories import Trajectories
from poela.eligibility.foreign import OwnScale
from poela.neighbours.approximate import ApproximateNeighbours
from poela.neighbours.grouped import FEW, NearestOfGroups
from poela.neighbours.quantised import MakeProducts
from poela.neighbours.scales import FeatureScale
from poela.neighbours.search import TREE_FEATURES, Neighbours

if TYPE_CHECKING:
    from poela.eligibility.rules import Eligibility

COVER_BLOCK = 512
MOST_SAMPLED = 20_000  # logged contexts that a sample has
FIRST_ASKED, ASKED_AT_ONCE = 256, 1 << 16  # logged contexts that anyone's distance is asked to first; and rows at once
ROWS_AT_ONCE = 1 << 18  # logged contexts that are made ready for an exact search at once


@dataclass(frozen=True, eq=False)
class LoggedContexts:
    """Contexts, and for each its action, step number, row and episode in the training log."""

    contexts: Float32Array  # [M, d]
    actions: IntArray  # [M]
    steps: IntArray  # [M]
    rows: IntArray  # [M]
    episodes: IntArray  # [M], by position
    scale: FeatureScale | OwnScale  # what distances see of features
    n_actions: int
    same_step: bool
    approximate: bool = False  # distances are to a near context, which may not be the nearest

    @classmethod
    def of(cls, train: Trajectories, scale: FeatureScale | OwnScale, rule: "Eligibility") -> "LoggedContexts":
        """The contexts of the training log: all of them, or a sample if the rule says so."""
        rows, contexts = np.arange(train.n_steps), train.contexts
        if rule.search == "sample" and train.n_steps > MOST_SAMPLED:
            # Made once for each log, so that distances to the very same contexts are measured once.
            rows, contexts = cached(train, "sampled contexts", None, lambda: _sampled(train))
        return cls(
            contexts=contexts,
            actions=train.actions[rows],
            steps=train.step_numbers[rows],
            rows=rows,
            episodes=train.episode_of_step[rows],
            scale=scale,
            n_actions=train.n_actions,
            same_step=rule.neighbours == "same_step",
            approximate=rule.search == "approximate",
        )

    def features(self, contexts: Float32Array) -> FloatArray:
        """Contexts as the distance sees them, in float64."""
        return self.scale(contexts)

    @cached_property
    def spread(self) -> FloatArray:
        """The variance [d] of each feature as the distance sees it."""
        return np.asarray(self.features(self.contexts).var(axis=0))

    def squared_distances(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """To the nearest logged context with each action [N, A]; infinite where there is none."""
        if not self.approximate:
            together = self._together(contexts) if len(contexts) <= FEW and not self.same_step else None
            if together is not None:
                return together
            return self._by_action(contexts, steps, lambda search, features: search.nearest(features)[1], np.inf)
        result = np.full((len(contexts), self.n_actions), np.inf)
        groups = self._steps_of(steps) if self.same_step and steps is not None else [(-1, slice(None))]
        for step, here in groups:
            index = self._index(step)
            if index is not None:
                result[here] = index.squared_distances(contexts[here])
        return result

    def any_within(self, contexts: Float32Array, squared: float) -> BoolArray:
        """Whether any logged context, of whatever action and step, is at a squared distance of at most this [N].

        Nearly every context has such cases among a few of the log, and others are asked only for those that have not.

        >>> from poela.data.trajectories import Trajectories
        >>> from poela.eligibility.rules import Eligibility
        >>> rule = Eligibility(reach=1.0)
        >>> logs = Trajectories([[0.0], [8.0]], [0, 1], [0.0, 0.0], [0, 1, 2])
        >>> logged = LoggedContexts.of(logs, FeatureScale.of(rule, logs.contexts), rule)
        >>> logged.any_within(np.array([[0.5], [4.0], [9.0]], np.float32), 1.0)
        array([ True, False,  True])
        """
        found = np.zeros(len(contexts), np.bool_)
        for search in self._ever_more():
            left = np.flatnonzero(~found)
            for start in range(0, len(left), ASKED_AT_ONCE):
                rows = left[start : start + ASKED_AT_ONCE]
                found[rows] = search.nearest(self.features(contexts[rows]))[1] <= squared
        return found

    def _ever_more(self) -> Iterator[Neighbours]:
        """Some of the contexts, spread over the log, then the contexts of each action."""
        if len(self.contexts) > FIRST_ASKED:
            yield self._first
        for action in range(self.n_actions):
            search = self._search(action, -1)
            if search is not None:
                yield search[1]

    @cached_property
    def _first(self) -> Neighbours:
        rows = np.linspace(0, len(self.contexts) - 1, FIRST_ASKED).astype(np.int64)
        return Neighbours(self.features(self.contexts[rows]))

    def _together(self, contexts: Float32Array) -> FloatArray | None:
        """The same for a few contexts, by one product for all actions; None where that is not the way."""
        if self._of_groups is None or not len(contexts):
            return None
        logged, search = self._of_groups
        features = self.features(contexts)
        if not np.isfinite(features).all():
            return None  # which is refused in words where each action is searched
        squared = search.squared(features)
        if squared is None:
            return None
        result = np.full((len(contexts), self.n_actions), np.inf)
        result[:, logged] = squared
        return result

    def in_bytes(self, make: MakeProducts) -> None:
        """Look for what is near a few contexts in eight bits a number first; distances stay the same."""
        if self._of_groups is not None and not self.same_step and not self.approximate:
            self._of_groups[1].in_bytes(make)

    @cached_property
    def _of_groups(self) -> tuple[list[int], NearestOfGroups] | None:
        """The actions that were logged, and the search among all of them; None where trees are quicker."""
        if self.contexts.shape[1] <= TREE_FEATURES:
            return None
        found = {action: self._search(action, -1) for action in range(self.n_actions)}
        searches = {action: one[1].distinct for action, one in found.items() if one is not None}
        return (list(searches), NearestOfGroups(list(searches.values()))) if searches else None

    def recall(self, squared_radius: float, contexts: int) -> float:
        """The share of pairs of context and action within the radius that the search finds, at some contexts here."""
        some = np.unique(np.linspace(0, len(self.contexts) - 1, contexts).astype(np.int64))
        steps = self.steps[some]
        found = self.squared_distances(self.contexts[some], steps if self.same_step else None) <= squared_radius
        exact = found.copy()
        for start in range(0, len(self.contexts), ROWS_AT_ONCE):  # only a part at a time, as it may be large
            part = replace(self._only(slice(start, start + ROWS_AT_ONCE)), approximate=False)
            missed = ~exact.all(axis=1)
            asked = self.contexts[some[missed]], steps[missed] if self.same_step else None
            exact[missed] |= part.squared_distances(*asked) <= squared_radius
        return float(found.sum() / exact.sum()) if exact.any() else 1.0

    def counts(self, contexts: Float32Array, steps: IntArray | None, squared_radius: float) -> FloatArray:
        """How many contexts with each action were logged within the radius [N, A]."""
        return self._by_action(
            contexts, steps, lambda search, features: search.count_within(features, squared_radius), 0.0
        )

    def _by_action(
        self,
        contexts: Float32Array,
        steps: IntArray | None,
        ask: Callable[[Neighbours, FloatArray], FloatArray | IntArray],
        nothing: float,
    ) -> FloatArray:
        """What the contexts with each action answer [N, A]; `nothing` where there are none."""
        features = self.features(contexts)
        result = np.full((len(contexts), self.n_actions), nothing)
        groups = self._steps_of(steps) if self.same_step and steps is not None else [(-1, slice(None))]
        for step, here in groups:
            for action in range(self.n_actions):
                search = self._search(action, step)
                if search is not None:
                    result[here, action] = ask(search[1], features[here])
        return result

    def counts_of(
        self, contexts: Float32Array, steps: IntArray | None, actions: IntArray, squared_radius: float
    ) -> IntArray:
        """How many contexts with one action each [N] were logged within the radius."""
        result = np.zeros(len(contexts), np.int64)
        for rows, _, search in self._of_actions(steps, actions):
            result[rows] = search.count_within(self.features(contexts[rows]), squared_radius)
        return result

    def outcomes_of(
        self,
        contexts: Float32Array,
        steps: IntArray | None,
        actions: IntArray,
        squared_radius: float,
        outcomes: FloatArray,
        k: int,
    ) -> FloatArray:
        """The mean outcome of up to k nearest contexts with one action each [N] within the radius; NaN without any.

        Equal contexts count by the mean of all of them, since none of these is nearer than another.
        """
        result = np.full(len(contexts), np.nan)
        for rows, members, search in self._of_actions(steps, actions):
            nearest, squared = search.k_nearest(self.features(contexts[rows]), min(k, len(members)))
            near = squared <= squared_radius
            known = search.means_of_equal(outcomes[self.rows[members]])
            total = np.where(near, known[nearest], 0.0).sum(axis=1)
            result[rows] = np.divide(total, near.sum(axis=1), out=np.full(len(rows), np.nan), where=near.any(axis=1))
        return result

    def _of_actions(self, steps: IntArray | None, actions: IntArray) -> Iterator[tuple[IntArray, IntArray, Neighbours]]:
        """Rows of one action (and step), the positions of contexts logged with it, and the search among them."""
        groups = self._steps_of(steps) if self.same_step and steps is not None else [(-1, np.arange(len(actions)))]
        for step, here in groups:
            for action in np.unique(actions[here]).tolist():
                search = self._search(action, step)
                if search is not None:
                    yield here[actions[here] == action], *search

    def cases(self, context: Float32Array, action: int, k: int, step: int | None) -> tuple[IntArray, FloatArray]:
        """Up to k nearest logged contexts with this action: positions here, and squared distances."""
        search = self._search(action, step if self.same_step and step is not None else -1)
        if search is None:
            return np.empty(0, np.int64), np.empty(0)
        members, neighbours = search
        nearest, squared = neighbours.k_nearest(self.features(context[None]), min(k, len(members)))
        return members[nearest[0]], squared[0]

    def pooled(self) -> "LoggedContexts":
        """The same contexts with neighbours of every step."""
        return replace(self, same_step=False) if self.same_step else self

    def cover(self, squared_gap: float) -> "LoggedContexts":
        """A subset: every context left out has a kept one of its action (and step) within the gap."""
        groups = self.actions * (self.steps.max() + 1) + self.steps if self.same_step else self.actions
        features = self.features(self.contexts)
        keep = np.zeros(len(self.actions), bool)
        for group in np.unique(groups):
            members = np.flatnonzero(groups == group)
            keep[members[_cover(features[members], squared_gap)]] = True
        return self._only(keep)

    def _only(self, kept: BoolArray | slice) -> "LoggedContexts":
        fields = {name: getattr(self, name)[kept] for name in ("contexts", "actions", "steps", "rows", "episodes")}
        return replace(self, **fields)

    def _steps_of(self, steps: IntArray) -> list[tuple[int, IntArray]]:
        return [(int(step), np.flatnonzero(steps == step)) for step in np.unique(steps)]

    def _search(self, action: int, step: int) -> tuple[IntArray, Neighbours] | None:
        key = (action, step)
        if key not in self._searches:
            members = self._members(action, step)
            self._searches[key] = (members, Neighbours(self.features(self.contexts[members]))) if len(members) else None
        return self._searches[key]

    def _members(self, action: int, step: int) -> IntArray:
        wanted = self.actions == action
        return np.flatnonzero(wanted if step < 0 else wanted & (self.steps == step))

    def _index(self, step: int) -> ApproximateNeighbours | None:
        if step not in self._indexes:
            members = slice(None) if step < 0 else self.steps == step
            contexts, actions = self.contexts[members], self.actions[members]
            known = ApproximateNeighbours(contexts, actions, self.n_actions, self.scale) if len(actions) else None
            self._indexes[step] = known
        return self._indexes[step]

    @cached_property
    def _indexes(self) -> dict[int, ApproximateNeighbours | None]:
        return {}

    @cached_property
    def _searches(self) -> dict[tuple[int, int], tuple[IntArray, Neighbours] | None]:
        return {}


def _cover(features: FloatArray, squared_gap: float) -> IntArray:
    """Positions of a greedy cover, in blocks: each context is kept unless a kept one lies within the gap."""
    chosen: list[int] = []
    # An order of values, not of rows, so that the cover does not depend on the order of the log.
    order = np.lexsort(features.T[::-1])
    for start in range(0, len(order), COVER_BLOCK):
        block = order[start : start + COVER_BLOCK]
        if chosen:
            block = block[Neighbours(features[chosen]).nearest(features[block])[1] > squared_gap]
        covered: BoolArray = np.zeros(len(block), bool)
        for position, member in enumerate(block):
            if not covered[position]:
                chosen.append(int(member))
                differences = features[block[position:]] - features[member]
                covered[position:] |= np.einsum("ij,ij->i", differences, differences) <= squared_gap
    return np.array(chosen, np.int64)


def _sampled(train: Trajectories) -> tuple[IntArray, Float32Array]:
    """Rows and contexts of a sample: as many of each action, or all where there are fewer, spread over the log."""
    each = MOST_SAMPLED // train.n_actions
    parts = []
    for action in range(train.n_actions):
        own = np.flatnonzero(train.actions == action)
        parts.append(own if len(own) <= each else own[np.linspace(0, len(own) - 1, each).astype(np.int64)])
    rows = np.sort(np.concatenate(parts))
    return rows, readonly(train.contexts[rows], np.float32)
