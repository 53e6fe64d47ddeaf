"""Logs: reading ignores the order of rows and undoes writing; parts partition; returns are plain sums."""

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela import Trajectories, read_logs

PARTS = {"episode", "step", "action", "reward", "cluster"}
# Arrow cuts names of columns at a NUL character.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
FEATURES = NAMES.filter(lambda name: not name.startswith("propensity") and name not in PARTS)
FLOATS = st.floats(-1e6, 1e6, width=32)


def unique(names: st.SearchStrategy[Any], n: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(names, min_size=n, max_size=n, unique=True)


@st.composite
def logs_of_any_kind(draw: st.DrawFn) -> Trajectories:
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    n, n_actions, width = sum(lengths), draw(st.integers(1, 4)), draw(st.integers(0, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = draw(st.one_of(unique(st.integers(-5, 99), n_actions), unique(NAMES, n_actions)))
    kind = draw(st.sampled_from(["none", "logged", "full"]))
    full = rng.dirichlet(np.ones(n_actions), size=n)
    propensities = {"none": None, "logged": full[:, 0], "full": full}[kind]
    ids = draw(st.one_of(unique(st.integers(-(2**40), 2**40), len(lengths)), unique(NAMES, len(lengths))))
    return Trajectories(
        contexts=np.array(draw(st.lists(FLOATS, min_size=n * width, max_size=n * width)), np.float32).reshape(n, width),
        actions=rng.integers(0, n_actions, n),
        rewards=draw(st.lists(st.floats(-1e9, 1e9), min_size=n, max_size=n)),
        offsets=np.cumsum([0, *lengths]),
        propensities=propensities,
        feature_names=draw(unique(FEATURES, width)),
        action_names=names,
        episode_ids=np.array(sorted(ids), object if isinstance(ids[0], str) else np.int64),
        clusters=draw(st.none() | st.lists(NAMES, min_size=len(lengths), max_size=len(lengths))),
        estimated=draw(st.booleans()),
    )


def assert_same(left: Trajectories, right: Trajectories) -> None:
    for name in ("contexts", "actions", "rewards", "offsets", "propensities", "episode_ids", "clusters"):
        one, other = getattr(left, name), getattr(right, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert left.feature_names == right.feature_names
    assert left.estimated == right.estimated
    assert left.action_names == right.action_names
    assert [type(name) for name in left.action_names] == [type(name) for name in right.action_names]


@settings(deadline=None, max_examples=50)
@given(logs_of_any_kind())
def test_reading_undoes_writing(logs: Trajectories) -> None:
    assert_same(read_logs(logs.to_table()), logs)


@settings(deadline=None, max_examples=25)
@given(logs_of_any_kind(), st.integers(1, 5))
def test_reading_undoes_writing_through_parquet(logs: Trajectories, rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logs.parquet"
        pq.write_table(logs.to_table(), path, row_group_size=rows)
        assert_same(read_logs(path), logs)


@settings(deadline=None, max_examples=50)
@given(logs_of_any_kind(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(logs: Trajectories, random: Any) -> None:
    table = logs.to_table()
    rows = list(range(table.num_rows))
    random.shuffle(rows)
    assert_same(read_logs(table.take(pa.array(rows))), logs)


@settings(deadline=None, max_examples=50)
@given(logs_of_any_kind(), st.data())
def test_the_order_of_columns_does_not_matter_under_a_layout(logs: Trajectories, data: st.DataObject) -> None:
    table = logs.to_table()
    columns = data.draw(st.permutations(table.column_names))
    kept = read_logs(table.select(columns), context=logs.feature_names, actions=logs.action_names)
    assert_same(kept, logs)


@settings(deadline=None, max_examples=50)
@given(logs_of_any_kind(), st.data())
def test_taking_gives_those_episodes(logs: Trajectories, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, logs.n_episodes - 1), min_size=1, max_size=6))
    taken = logs.take(chosen)
    bounds = list(pairwise(logs.offsets))
    for position, episode in enumerate(chosen):
        start, stop = bounds[episode]
        rows = slice(*taken.offsets[position : position + 2])
        np.testing.assert_array_equal(taken.contexts[rows], logs.contexts[start:stop])
        np.testing.assert_array_equal(taken.actions[rows], logs.actions[start:stop])
        np.testing.assert_array_equal(taken.rewards[rows], logs.rewards[start:stop])
        assert taken.episode_ids is not None
        assert logs.episode_ids is not None
        assert taken.episode_ids[position] == logs.episode_ids[episode]


@given(st.integers(3, 60), st.integers(0, 1000), st.sampled_from([(0.6, 0.4), (0.4, 0.3, 0.3), (1.0,)]))
def test_parts_are_disjoint_whole_and_reproducible(n: int, seed: int, shares: tuple[float, ...]) -> None:
    lengths = np.arange(n) % 3 + 1
    steps = int(lengths.sum())
    logs = Trajectories(np.arange(steps)[:, None], np.zeros(steps), np.arange(steps), [0, *np.cumsum(lengths)])
    parts = logs.split(shares, seed)
    ids = np.concatenate([part.episode_ids for part in parts if part.episode_ids is not None])
    assert sorted(ids.tolist()) == list(range(n))
    assert sorted(np.concatenate([part.rewards for part in parts]).tolist()) == list(range(steps))
    for part, share, again in zip(parts, shares, logs.split(shares, seed), strict=True):
        assert abs(part.n_episodes - share * n) <= 1
        assert part.episode_ids is not None
        np.testing.assert_array_equal(part.lengths, lengths[part.episode_ids])
        assert_same(part, again)


@settings(deadline=None, max_examples=50)
@given(logs_of_any_kind(), st.floats(0, 1))
def test_returns_are_discounted_sums(logs: Trajectories, discount: float) -> None:
    plain = []
    for start, stop in pairwise(logs.offsets):
        plain.append(sum(float(reward) * discount**step for step, reward in enumerate(logs.rewards[start:stop])))
    assert logs.returns(discount).tolist() == pytest.approx(plain, rel=1e-12, abs=1e-6)
