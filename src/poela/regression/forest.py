"""Boosted trees as plain arrays, and their scores without scikit-learn (so that they can be saved and loaded)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, readonly
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.core.validation import expect_array

MAX_LEAVES = 32  # one bit each
ALL = np.uint32(0xFFFFFFFF)
ROWS_AT_A_TIME = 8192  # keeps one block of features in the processor's cache
BYTES_AT_A_TIME = 1 << 15  # rows, where a feature is a byte for each of them
FEW_TESTS = 1 << 21  # up to so many tests, all trees are asked at once: few rows should not wait for a loop over trees

_LEFTMOST = np.array([0, *((bits & -bits).bit_length() - 1 for bits in range(1, 256))])  # the first leaf of each set

_DTYPES: dict[str, type[np.generic]] = {
    "features": np.int32,
    "thresholds": np.float32,
    "keeps": np.uint32,
    "node_offsets": np.int64,
    "leaf_values": np.float64,
    "leaf_offsets": np.int64,
    "baseline": np.float64,
}
ARRAYS = tuple(_DTYPES)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of at most 32 leaves; tree t adds to the score of action t modulo the number of actions.

    A row ends in the leftmost leaf that no failed test has ruled out (Lucchese et al. 2015): each inner node tests
    context[feature] ≤ threshold, and a failed test rules out the leaves on its left. All rows take all tests, without
    following any path, which suits arrays.
    """

    features: NDArray[np.int32]  # inner nodes of all trees, flat
    thresholds: NDArray[np.float32]
    keeps: NDArray[np.uint32]  # the leaves that a failed test leaves, one bit each
    node_offsets: NDArray[np.int64]  # [trees + 1]
    leaf_values: FloatArray  # of all trees, flat, from left to right
    leaf_offsets: NDArray[np.int64]  # [trees + 1]
    baseline: FloatArray  # [actions]

    @classmethod
    def of(cls, trees: Sequence[NDArray[Any]], baseline: FloatArray) -> "Forest":
        """From scikit-learn's node tables, round by round."""
        plain = [_plain_tree(nodes) for nodes in trees]
        features, thresholds, keeps, leaf_values = (
            [value for tree in plain for value in tree[part]] for part in range(4)
        )
        return cls.from_arrays(
            {
                "features": np.array(features),
                "thresholds": _rounded_down(np.array(thresholds, np.float64)),
                "keeps": np.array(keeps),
                "node_offsets": np.cumsum([0, *(len(tree[0]) for tree in plain)]),
                "leaf_values": np.array(leaf_values),
                "leaf_offsets": np.cumsum([0, *(len(tree[3]) for tree in plain)]),
                "baseline": baseline,
            }
        )

    def beginning(self, trees: int) -> "Forest":
        """The first trees alone."""
        nodes, leaves = self.node_offsets[: trees + 1], self.leaf_offsets[: trees + 1]
        parts = {name: getattr(self, name)[: nodes[-1]] for name in ("features", "thresholds", "keeps")}
        values = self.leaf_values[: leaves[-1]]
        return replace(self, **parts, node_offsets=nodes, leaf_values=values, leaf_offsets=leaves)

    def scores(self, contexts: Float32Array) -> FloatArray:
        """The raw scores [N, actions] (two actions: one score, of the second)."""
        if len(contexts) * max(len(self.features), 1) <= FEW_TESTS and len(self.features):
            return self._scores_at_once(contexts)
        codes = self._codes()
        if codes is not None:
            return self._scores_by_bytes(contexts, codes)
        blocks = [
            self._block_scores(np.asfortranarray(contexts[start : start + ROWS_AT_A_TIME]))
            for start in range(0, len(contexts), ROWS_AT_A_TIME)
        ]
        return np.concatenate(blocks)

    def _block_scores(self, contexts: Float32Array) -> FloatArray:
        scores = np.tile(self.baseline, (len(contexts), 1))
        for tree in range(len(self.node_offsets) - 1):
            leaves = np.full(len(contexts), ALL)
            for node in range(self.node_offsets[tree], self.node_offsets[tree + 1]):
                passed = contexts[:, self.features[node]] <= self.thresholds[node]
                leaves &= np.where(passed, ALL, self.keeps[node])
            leftmost = leaves & (~leaves + np.uint32(1))
            leaf = np.frexp(leftmost.astype(np.float32))[1] - 1
            scores[:, tree % len(self.baseline)] += self.leaf_values[self.leaf_offsets[tree] + leaf]
        return scores

    def _codes(self) -> dict[int, Float32Array] | None:
        """The thresholds of each feature in order; None where features or leaves need more than a byte."""
        cuts = {int(one): np.unique(self.thresholds[self.features == one]) for one in np.unique(self.features)}
        small = np.diff(self.leaf_offsets).max(initial=1) <= 8 and all(len(own) < 256 for own in cuts.values())
        return cuts if small else None

    def _scores_by_bytes(self, contexts: Float32Array, cuts: dict[int, Float32Array]) -> FloatArray:
        """The same bits as by `_block_scores`, several times as fast: 32 tests at once by one instruction.

        A feature is how many of its thresholds are below it, and the values of a tree are listed by sets of leaves.
        """
        ranks, keeps = np.zeros(len(self.features), np.uint8), self.keeps.astype(np.uint8)
        for feature, own in cuts.items():
            ranks[self.features == feature] = np.searchsorted(own, self.thresholds[self.features == feature])
        ends = zip(self.leaf_offsets[:-1], self.leaf_offsets[1:], strict=True)
        tables = [self.leaf_values[np.minimum(first + _LEFTMOST, last - 1)] for first, last in ends]
        scores = np.empty((len(contexts), len(self.baseline)))
        for start in range(0, len(contexts), BYTES_AT_A_TIME):
            block = contexts[start : start + BYTES_AT_A_TIME]
            codes = {one: np.searchsorted(own, block[:, one]).astype(np.uint8) for one, own in cuts.items()}
            sums = np.repeat(self.baseline[:, None], len(block), axis=1)
            leaves, left = np.empty((2, len(block)), np.uint8)
            values = np.empty(len(block))
            for tree, table in enumerate(tables):
                leaves.fill(255)
                for node in range(self.node_offsets[tree], self.node_offsets[tree + 1]):
                    np.greater(codes[int(self.features[node])], ranks[node], out=left.view(np.bool_))
                    left -= 1  # 255 where the test is passed, 0 where it failed
                    left |= keeps[node]
                    leaves &= left
                sums[tree % len(sums)] += table.take(leaves, out=values, mode="clip")
            scores[start : start + len(block)] = sums.T
        return scores

    def passed(self, contexts: Float32Array) -> BoolArray:
        """Which tests contexts pass [N, nodes]."""
        return np.asarray(contexts[:, self.features] <= self.thresholds)

    def leaves(self, passed: BoolArray) -> NDArray[np.int32]:
        """The number of the leaf of each tree [N, trees] that passed tests [N, nodes] lead to."""
        grown = np.flatnonzero(np.diff(self.node_offsets))  # trees with any test; `reduceat` has no empty sums
        leaves = np.full((len(passed), len(self.node_offsets) - 1), ALL)
        left = np.where(passed, ALL, self.keeps)
        leaves[:, grown] = np.bitwise_and.reduceat(left, self.node_offsets[grown], axis=1)
        return np.asarray(np.frexp((leaves & (~leaves + np.uint32(1))).astype(np.float32))[1] - 1)

    def _scores_at_once(self, contexts: Float32Array) -> FloatArray:
        values = self.leaf_values[self.leaf_offsets[:-1] + self.leaves(self.passed(contexts))]  # [N, trees]
        return np.asarray(self.baseline + values.reshape(len(contexts), -1, len(self.baseline)).sum(axis=1))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays, for files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Forest":
        """The inverse of `to_arrays`."""
        fields: dict[str, Any] = {name: readonly(arrays[name], dtype) for name, dtype in _DTYPES.items()}
        return cls(**fields)

    @classmethod
    def from_stored(cls, stored: Stored, n_scores: int, n_inputs: int = 2**31) -> "Forest":
        """From a file, after checking that every test looks at an input, and every row ends in a leaf of its tree."""
        nodes, values = stored.arrays["features"].size, stored.arrays["leaf_values"].size
        expect_array(stored, "features", np.int32, (nodes,), low=0, high=n_inputs - 1)
        expect_array(stored, "thresholds", np.float32, (nodes,), low=-np.inf, high=np.inf)
        expect_array(stored, "keeps", np.uint32, (nodes,))
        expect_array(stored, "leaf_values", np.float64, (values,))
        expect_array(stored, "baseline", np.float64, (n_scores,))
        offsets = expect_array(stored, "node_offsets", np.int64, (None,), low=0, high=nodes)
        leaf_offsets = expect_array(stored, "leaf_offsets", np.int64, offsets.shape, low=0, high=values)
        leaves = np.diff(leaf_offsets)
        ends = [*offsets[:1], *offsets[-1:], *leaf_offsets[:1], *leaf_offsets[-1:]]
        if ends != [0, nodes, 0, values] or (np.diff(offsets) < 0).any() or (leaves != np.diff(offsets) + 1).any():
            raise InputError("the offsets of the trees do not ascend from 0 to the numbers of nodes and leaves")
        # No failed test may rule out the last leaf.
        last = np.repeat(leaves - 1, np.diff(offsets))
        if leaves.max(initial=1) > MAX_LEAVES or not (stored.arrays["keeps"].astype(np.int64) >> last & 1).all():
            raise InputError(f"a tree has more than {MAX_LEAVES} leaves, or a test that leaves none of them")
        return cls.from_arrays(stored.arrays)


def _plain_tree(nodes: NDArray[Any]) -> tuple[list[int], list[float], list[int], list[float]]:
    """Features, thresholds and masks of the inner nodes, and the leaf values from left to right."""
    features: list[int] = []
    thresholds: list[float] = []
    keeps: list[int] = []
    values: list[float] = []

    def walk(place: int) -> None:
        node = nodes[place]
        if node["is_leaf"]:
            values.append(float(node["value"]))
            return
        first = len(values)
        walk(int(node["left"]))
        left_leaves = (1 << len(values)) - (1 << first)
        features.append(int(node["feature_idx"]))
        thresholds.append(float(node["num_threshold"]))
        keeps.append(int(ALL) & ~left_leaves)
        walk(int(node["right"]))

    walk(0)
    return features, thresholds, keeps, values


def _rounded_down(thresholds: FloatArray) -> Float32Array:
    """The largest float32 not above each threshold: float32 contexts compare with it just as with the original."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
