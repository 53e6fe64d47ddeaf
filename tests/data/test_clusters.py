"""Clusters: read and numbered, kept by all that copies logs, and whole in every part and fold."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.log_files import SOURCES, Write, csv

from poela import InputError, LogLayout, Trajectories, read_logs
from poela.behavior.annotation import annotation
from poela.behavior.model import held_out_split
from poela.data.folds import fold_numbers
from poela.data.joining import joined
from poela.eligibility.quantiles import action_distances
from poela.eligibility.rules import Eligibility
from poela.studies.fold_data import data_hash

UNITS = st.lists(st.integers(0, 12), min_size=4, max_size=60).map(
    lambda names: np.unique(names, return_inverse=True)[1]
)


def logs_of(clusters: Any = None, n: int = 6, **more: Any) -> Trajectories:
    """Two steps each; the rewards tell the episode."""
    return Trajectories(
        np.arange(2.0 * n)[:, None],
        np.arange(2 * n) % 2,
        np.repeat(np.arange(n), 2),
        np.arange(0, 2 * n + 1, 2),
        clusters=clusters,
        **more,
    )


@pytest.mark.parametrize(
    "names",
    [
        ["b", "a", "b", "c", "a", "b"],
        np.array(["b", "a", "b", "c", "a", "b"], object),
        [7, -1, 7, 2**60, -1, 7],
        [0.5, 0.25, 0.5, 3, 0.25, 0.5],
        np.array(["2020-01-03", "2020-01-02", "2020-01-03", "2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"),
    ],
    ids=["text", "objects", "numbers", "fractions", "days"],
)
def test_names_of_any_kind_are_numbered_in_order_of_appearance(names: Any) -> None:
    logs = logs_of(names)
    assert logs.clusters is not None
    assert logs.clusters.tolist() == logs.units.tolist() == [0, 1, 0, 2, 1, 0]
    assert logs.clusters.dtype == np.int64
    assert not logs.clusters.flags.writeable
    assert logs.n_units == 3
    assert repr(logs) == "Trajectories(6 episodes in 3 clusters, 12 steps, 1 features, 2 actions, no propensities)"


def test_without_clusters_each_episode_is_a_unit() -> None:
    assert logs_of().clusters is None
    assert logs_of().units.tolist() == list(range(6))
    assert logs_of().n_units == 6


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a", "b"], "clusters must name one unit for each of the 6 episodes, not 2"),
        ([["a"] * 6], "one name"),
        ("abcdef", "one name"),
        ([["a"], ["b", "c"]], "one name"),
        ([None, *"abcde"], "None or NaN"),
        ([np.nan, 1, 2, 3, 4, 5], "None or NaN"),
        (np.array(["NaT"] * 6, "datetime64[s]"), "None or NaN"),
    ],
)
def test_what_names_no_clusters(names: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        logs_of(names)


def test_whatever_copies_logs_keeps_clusters() -> None:
    logs = logs_of(["p", "q", "p", "r", "r", "q"], propensities=np.full((12, 2), 0.5))
    assert logs.take([3, 1, 4]).units.tolist() == [0, 1, 0]
    for same in (logs.with_propensities(None), logs.with_history(1)):
        assert same.units.tolist() == logs.units.tolist()
    assert joined(logs, logs).units.tolist() == [0, 1, 0, 2, 2, 1, 3, 4, 3, 5, 5, 4]
    assert joined(logs.take([0, 2]), logs_of(n=2)).units.tolist() == [0, 0, 1, 2]


def test_clusters_belong_to_what_a_log_is() -> None:
    plain, grouped = logs_of(), logs_of([0, 0, 1, 1, 2, 2])
    assert data_hash(plain) != data_hash(grouped) != data_hash(logs_of([0, 0, 0, 1, 2, 2]))
    assert data_hash(grouped.take([0, 2, 4])) == data_hash(logs_of(["x", "y", "z", "u", "v", "w"]).take([0, 2, 4]))


@given(st.integers(2, 50), st.integers(2, 6), st.integers(0, 1000))
def test_single_episodes_are_divided_as_ever(n: int, folds: int, seed: int) -> None:
    """The folds and parts that studies before clusters were made with."""
    plain, alone = logs_of(n=n), logs_of([f"p{number}" for number in range(n)], n=n)
    order = np.random.default_rng(seed).permutation(n)
    shares = (0.5, 0.5)
    half = int(np.round(n / 2))
    for logs in (plain, alone):
        if folds <= n:
            expected = np.random.default_rng(seed).permutation(np.arange(n) % folds)
            np.testing.assert_array_equal(fold_numbers(logs, folds, seed), expected)
        for part, episodes in zip(logs.split(shares, seed), (order[:half], order[half:]), strict=True):
            assert part.returns().tolist() == (2 * np.sort(episodes)).tolist()
        judged = held_out_split(logs, 0.2, seed)[1]
        assert judged is not None
        count = min(max(1, round(0.2 * n)), n - 1)
        assert judged.returns().tolist() == (2 * np.sort(order[:count])).tolist()


@given(UNITS, st.integers(2, 5), st.integers(0, 1000))
def test_folds_keep_units_whole_and_are_balanced(units: np.ndarray, folds: int, seed: int) -> None:
    sizes = np.bincount(units)
    if len(sizes) < folds:
        with pytest.raises(InputError, match="cannot be made"):
            fold_numbers(units, folds, seed)
        return
    found = fold_numbers(units, folds, seed)
    assert all(len(set(found[units == unit])) == 1 for unit in range(len(sizes)))
    assert set(found) == set(range(folds))
    # A fold is filled only while it has the fewest episodes.
    assert np.ptp(np.bincount(found)) <= sizes.max()


@given(UNITS, st.sampled_from([(1.0,), (0.6, 0.4), (0.5, 0.3, 0.2), (0.3, 0.3)]), st.integers(0, 1000))
def test_parts_keep_clusters_whole(units: np.ndarray, shares: tuple[float, ...], seed: int) -> None:
    logs = logs_of(units, n=len(units))
    if logs.n_units < len(shares):
        with pytest.raises(InputError, match=r"cannot be split into \d parts, since episodes of a cluster stay"):
            logs.split(shares, seed)
        return
    episodes = [(part.returns() / 2).astype(int) for part in logs.split(shares, seed)]
    taken = np.concatenate(episodes)
    assert len(set(taken)) == len(taken)
    assert all(len(part) for part in episodes)
    assert all(not set(units[a]) & set(units[b]) for a in episodes for b in episodes if a is not b)
    assert all(set(np.flatnonzero(np.isin(units, units[part]))) == set(part) for part in episodes)
    if sum(shares) == 1:
        assert len(taken) == len(units)


@given(st.lists(st.integers(1, 4), min_size=30, max_size=60), st.integers(0, 1000))
def test_shares_are_met_as_nearly_as_clusters_allow(sizes: list[int], seed: int) -> None:
    logs = logs_of(np.repeat(np.arange(len(sizes)), sizes), n=sum(sizes))
    for part, share in zip(logs.split((0.5, 0.3, 0.2), seed), (0.5, 0.3, 0.2), strict=True):
        assert abs(part.n_episodes - share * logs.n_episodes) <= max(sizes) + 1


def test_too_few_clusters_are_told() -> None:
    logs = logs_of([0, 0, 0, 1, 1, 1])
    with pytest.raises(InputError, match="2 clusters cannot be split into 3 parts"):
        logs.split((0.4, 0.3, 0.3), seed=0)
    with pytest.raises(InputError, match=r"3 folds of 2 clusters cannot be made: .* at most one per cluster"):
        fold_numbers(logs, 3, seed=0)
    assert held_out_split(logs_of([0] * 6), 0.5, seed=0)[1] is None


@given(UNITS, st.integers(0, 100))
def test_judging_episodes_share_no_cluster_with_those_learned_from(units: np.ndarray, seed: int) -> None:
    rare = np.arange(2 * len(units)) % 2
    rare[:2] = 2  # the first episode alone takes a third action
    logs = logs_of(units, n=len(units))
    logs = Trajectories(logs.contexts, rare, logs.rewards, logs.offsets, clusters=units)
    learn, judge = held_out_split(logs, 0.4, seed)
    if judge is None:
        assert learn is logs
        return
    of = {side: units[(logs_.returns() / 2).astype(int)] for side, logs_ in (("learn", learn), ("judge", judge))}
    assert not set(of["learn"]) & set(of["judge"])
    assert len(of["learn"]) + len(of["judge"]) == len(units)
    assert set(judge.actions) <= set(learn.actions)


class Spy:
    """Notes which episodes (told by their rewards) each model is fitted on, and asked about."""

    def __init__(self) -> None:
        self.pairs: list[tuple[set[float], set[float]]] = []

    def fit_quietly(self, train: Trajectories, seed: int) -> "Spy":
        self.pairs.append((set(train.rewards), set()))
        return self

    @property
    def unseen(self) -> tuple[str | int, ...]:
        return ()

    def along(self, trajectories: Any) -> np.ndarray:
        self.pairs[-1][1].update(trajectories.rewards)
        return np.full((len(trajectories.actions), 2), 0.5)


def test_cross_fitted_models_have_seen_nothing_of_the_cluster() -> None:
    spy, clusters = Spy(), [0, 1, 2, 0, 1, 2]
    annotation(spy, logs_of(clusters), folds=3)
    fitted = [({clusters[int(e)] for e in seen}, {clusters[int(e)] for e in asked}) for seen, asked in spy.pairs]
    assert [seen & asked for seen, asked in fitted] == [set()] * 3
    assert sorted(number for _, asked in fitted for number in asked) == [0, 1, 2]


def test_radii_are_measured_to_other_clusters() -> None:
    """Each patient's second stay is like the first, and nobody else's is near."""
    contexts = np.repeat(10.0 * np.arange(8), 2)[:, None]
    logs = Trajectories(contexts, np.zeros(16), np.zeros(16), np.arange(17), n_actions=1)
    assert action_distances(logs, Eligibility(radius=0.0)).min() == 0
    named = Trajectories(contexts, np.zeros(16), np.zeros(16), np.arange(17), clusters=np.arange(16) // 2)
    assert action_distances(named, Eligibility(radius=0.0)).min() > 0


ROWS = pa.table(
    {
        "episode": ["d", "a", "b", "c", "a"],
        "step": [0, 1, 0, 0, 0],
        "age": [1.0, 2.0, 3.0, 4.0, 5.0],
        "action": ["x", "y", "x", "y", "x"],
        "reward": [0.0, 1.0, 2.0, 3.0, 4.0],
        "patient": ["SECRET-1", "SECRET-2", "SECRET-2", "SECRET-1", "SECRET-2"],
    }
)


@pytest.mark.parametrize("write", SOURCES.values(), ids=list(SOURCES))
def test_every_source_names_clusters(write: Write, tmp_path: Path) -> None:
    logs = read_logs(write(ROWS, tmp_path), cluster="patient")
    assert logs.units.tolist() == [0, 0, 1, 1]  # of a, b, c and d
    assert logs.feature_names == ("age",)


def test_numbers_as_names_of_clusters_in_csv(tmp_path: Path) -> None:
    table = ROWS.set_column(5, "patient", pa.array([12, 7, 7, 12, 7]))
    assert read_logs(csv(table, tmp_path), cluster="patient").units.tolist() == [0, 0, 1, 1]


def problems(table: pa.Table, **named: Any) -> list[str]:
    with pytest.raises(InputError) as error:
        read_logs(table, **named)
    return list(error.value.problems)


def test_an_episode_has_one_cluster() -> None:
    changed = ROWS.set_column(5, "patient", pa.array(["p", "p", "p", "p", "SECRET"]))
    sentence = "column 'patient' changes within 1 episode, first row 5: give all rows of an episode the same cluster"
    assert problems(changed, cluster="patient") == [sentence]


def test_clusters_that_are_missing_or_of_no_use() -> None:
    holes = ROWS.set_column(5, "patient", pa.array(["p", None, "p", None, "q"]))
    assert problems(holes, cluster="patient") == [
        "column 'patient' is null or NaN in 2 rows, first row 2: fill it in, or drop those episodes"
    ]
    assert problems(ROWS, cluster="patients")[0] == (
        "column 'patients' is missing (did you mean 'patient'?): add it, or name another with cluster="
    )
    assert problems(ROWS, cluster="episode")[0] == ("column 'episode' is named as episode and as cluster: name it once")
    assert (
        "column 'age' is named as cluster and as context"
        in problems(ROWS.drop_columns(["patient"]), cluster="age", context=["age"])[0]
    )
    lists = ROWS.set_column(5, "patient", pa.array([["p"]] * 5))
    assert problems(lists, cluster="patient")[0].startswith("column 'patient' is list in 5 rows")


def test_no_column_is_taken_for_clusters_by_its_name() -> None:
    table = ROWS.set_column(5, "cluster", pa.array([1, 2, 1, 2, 3]))
    logs = read_logs(table)
    assert logs.clusters is None
    assert logs.feature_names == ("age", "cluster")


def test_tables_that_we_write_know_their_clusters(tmp_path: Path) -> None:
    logs = logs_of(["p", "q", "p", "r", "r", "q"])
    table = logs.to_table()
    assert read_logs(table).units.tolist() == logs.units.tolist()
    assert read_logs(table, context=["cluster"]).clusters is None
    path = csv(table, tmp_path)
    assert read_logs(path).feature_names == ("x0", "cluster")
    assert read_logs(path, cluster="cluster").units.tolist() == logs.units.tolist()
    with pytest.raises(InputError, match="'cluster' have no name or that of another column"):
        logs_of([0] * 6, feature_names=["cluster"]).to_table()
    assert logs_of(feature_names=["cluster"]).to_table().num_rows == 12


def test_layouts_name_clusters(tmp_path: Path) -> None:
    (tmp_path / "layout.toml").write_text('cluster = "patient"\n')
    layout = LogLayout.from_toml(tmp_path / "layout.toml")
    assert layout == LogLayout(cluster="patient") == LogLayout.from_json(layout.to_json())
    assert read_logs(ROWS, layout=layout.fixed(read_logs(ROWS, layout=layout))).n_units == 2
    with pytest.raises(InputError, match="cluster= must name a column"):
        LogLayout(cluster=3)  # type: ignore[arg-type]
