"""Decisions for tables: by name, by episode, with what stands behind them; compared with the policy itself."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.data.log_files import SOURCES

import poela
from poela import InputError, load_policy, read_logs
from poela.behavior.history import HistoryBehavior
from poela.data import decision_rows
from poela.learners.registry import LEARNERS

NAMES: dict[str, Any] = {"episode": "stay", "step": "hour", "action": "dose"}


def stays(n: int = 60, seed: int = 0) -> pa.Table:
    """Three decisions of each stay, with text, gaps and two features of numbers."""
    rng = np.random.default_rng(seed)
    rows = 3 * n
    return pa.table(
        {
            "stay": np.repeat([f"s{stay:03}" for stay in range(n)], 3),
            "hour": np.tile([0, 4, 8], n),
            "ward": pa.array(rng.choice(["ICU", "surgery"], rows), mask=rng.random(rows) < 0.1),
            "lactate": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.1),
            "age": rng.integers(20, 90, rows),
            "dose": rng.choice(["high", "low", "none"], rows),
            "reward": rng.normal(size=rows),
            "propensity": np.full(rows, 1 / 3),
        }
    )


def learned(name: str = "poela", table: pa.Table | None = None, **settings: Any) -> Any:
    logs = read_logs(stays() if table is None else table, **NAMES)
    full = logs.with_propensities(np.full((logs.n_steps, logs.n_actions), 1 / logs.n_actions))
    quick = {"steps": 20} if name == "poela" else {}
    rule = (
        {"rule": poela.Radius("q50", scale="standard")} if name != "poela" else {"radius": "q50", "scale": "standard"}
    )
    return LEARNERS[name](**{**rule, **quick, **settings}).fit(full, seed=0)


@pytest.fixture(scope="module")
def policy() -> Any:
    return learned()


def expected(policy: Any, table: pa.Table) -> Any:
    """The probabilities by the other way: read as logs, and followed along."""
    layout = poela.LogLayout(**NAMES).fixed_by(policy.table_schema, policy.action_space)
    logs = read_logs(table, layout=layout)
    return logs, policy.along(logs)


def propensities(found: pa.Table, policy: Any) -> Any:
    """Those of every action [N, A]; NaN where it defers."""
    columns = [found[f"propensity_{name}"].to_numpy() for name in policy.action_names]
    return np.stack(columns, axis=1)


def drawn(probabilities: Any, keys: Any, seed: Any) -> list[int]:
    """One action for each row, by the definition: the first whose cumulated probability is above the case's number."""
    found = []
    for row, (case, step) in zip(probabilities, keys, strict=True):
        digest = hashlib.blake2b(f"{seed}\n{case}\n{step}".encode(), digest_size=8).digest()
        uniform = (int.from_bytes(digest, "little") >> 11) / 2**53
        found.append(next(place for place, total in enumerate(np.cumsum(row)) if total > uniform))
    return found


def test_decisions_are_those_of_the_policy_bit_for_bit(policy: Any, tmp_path: Path) -> None:
    table = stays(seed=1)
    logs, probabilities = expected(policy, table)
    np.testing.assert_array_equal(policy.probabilities(table), probabilities)
    policy.save(tmp_path / "policy")
    for kind in ("parquet", "csv", "csv.gz", "arrow", "pandas", "polars"):
        found = load_policy(tmp_path / "policy").decide(SOURCES[kind](table, tmp_path))
        acts = ~found["defer"].to_numpy()
        np.testing.assert_array_equal(propensities(found, policy)[acts], probabilities[acts])
        keys = zip(table["stay"].to_pylist(), table["hour"].to_pylist(), strict=True)
        names = np.array(policy.action_names)[drawn(probabilities, keys, policy.content_hash[:16])]
        assert set(found["policy"].to_pylist()) == {policy.content_hash[:16]}
        assert np.array(found["action"].to_pylist(), object)[acts].tolist() == names[acts].tolist()
        np.testing.assert_array_equal(~acts, policy.stranded(logs))
        assert 0 < acts.sum() < len(acts)
        assert found["stay"].to_pylist() == table["stay"].to_pylist()


def test_what_may_be_done_and_who_was_like_it(policy: Any) -> None:
    table = stays(seed=2)
    logs, _ = expected(policy, table)
    rule = policy.eligibility
    eligible, distances, counts = rule.along(logs), rule.distances(logs.contexts), rule.counts(logs.contexts)
    found = policy.decide(table).to_pylist()
    for row, said in enumerate(found):
        if said["defer"]:
            assert {said[name] for name in ("action", "propensity_high", "propensity_none", "similar")} == {None}
            assert "unlike any logged case" in said["note"]
            continue
        parts = dict(part.split(":") for part in said["eligible"].split("; "))
        assert list(parts) == [name for name, may in zip(policy.action_names, eligible.mask[row], strict=True) if may]
        for name, text in parts.items():
            assert float(text) == pytest.approx(distances[row, policy.action_names.index(name)], rel=6e-3)
        assert said["similar"] == counts[row, policy.action_names.index(said["action"])] > 0


def test_what_happened_to_similar_cases_is_their_mean(policy: Any) -> None:
    outcomes = np.random.default_rng(3).normal(size=180)
    table, logged = stays(seed=4), policy.eligibility.logged
    logs, _ = expected(policy, table)
    decided = policy.decide(table, outcomes=outcomes)
    assert {name for name in decided["action"].to_pylist() if name} == set(policy.action_names)
    found = decided["outcome"].to_pylist()
    features, known = logged.features(logs.contexts), logged.features(logged.contexts)
    for row, name in enumerate(decided["action"].to_pylist()):
        if name is None:
            assert found[row] is None
            continue
        chosen = policy.action_names.index(name)
        squared = ((known - features[row]) ** 2).sum(axis=1)
        near = np.flatnonzero((squared / known.shape[1] <= policy.eligibility.radius) & (logged.actions == chosen))
        nearest = near[np.argsort(squared[near], kind="stable")][:10]
        if len(near) >= 5:
            assert found[row] == pytest.approx(outcomes[nearest].mean())
        else:
            assert found[row] is None


def test_the_order_of_rows_and_columns_changes_nothing(policy: Any) -> None:
    table, rng = stays(seed=5), np.random.default_rng(0)
    rows = rng.permutation(table.num_rows)
    mixed = table.take(pa.array(rows)).select(list(rng.permutation(table.column_names)))
    for seed in (None, 7):
        plain, other = policy.decide(table, seed=seed), policy.decide(mixed, seed=seed)
        assert plain.take(pa.array(rows)).to_pylist() == other.to_pylist()


def test_drawn_actions_follow_their_probabilities() -> None:
    policy = learned("clone", rule=poela.AnyAction())
    one = stays(1).slice(0, 1)
    n = 4000
    many = one.take(pa.array(np.zeros(n, int))).set_column(0, "stay", pa.array([f"s{row}" for row in range(n)]))
    drawn = policy.decide(many, seed=1)
    shares = np.array([(np.array(drawn["action"].to_pylist()) == name).mean() for name in policy.action_names])
    np.testing.assert_allclose(shares, policy.probabilities(one)[0], atol=0.03)
    assert drawn.equals(policy.decide(many, seed=1))
    assert not drawn.equals(policy.decide(many, seed=2))


def test_new_categories_and_gaps_are_said_by_column(policy: Any) -> None:
    table = stays(2).slice(0, 3)
    table = table.set_column(2, "ward", pa.array(["SECRET", "ICU", None])).set_column(
        3, "lactate", pa.array([None, 0.5, 1])
    )
    notes = policy.decide(table)["note"].to_pylist()
    assert "ward: a category that was not logged" in notes[0]
    assert "lactate: missing, filled in" in notes[0]
    assert "ward: missing, filled in" in notes[2]
    assert "SECRET" not in str(notes)
    # None of the category's features is set, and the gap has the median of the log.
    first = dict(zip(policy.feature_names, expected(policy, table)[0].contexts[0], strict=True))
    assert (first["ward=ICU"], first["ward=surgery"], first["ward missing"], first["lactate missing"]) == (0, 0, 0, 1)
    assert first["lactate"] == np.float32(np.median(stays()["lactate"].drop_null().to_numpy().astype(np.float32)))


def test_gaps_that_were_never_logged_and_columns_that_are_not_there_are_refused(policy: Any) -> None:
    table = stays(2)
    with pytest.raises(InputError, match="'age' is null, NaN or infinite in 1 row, first row 2: fill it in"):
        policy.decide(table.set_column(4, "age", pa.array([1, None, 3, 4, 5, 6])))
    with pytest.raises(
        InputError, match=r"column 'age' is missing \(did you mean 'Age'\?\): columns are found by name"
    ):
        policy.decide(table.rename_columns(["stay", "hour", "ward", "lactate", "Age", "dose", "reward", "propensity"]))
    with pytest.raises(InputError, match="'age' is text, not a number, in 1 row, first row 3"):
        policy.decide(table.set_column(4, "age", pa.array(["1", "2", "x", "4", "5", "6"])))
    with pytest.raises(InputError, match="there are no rows"):
        policy.decide(table.slice(0, 0))
    with pytest.raises(InputError, match="column 'patient' is missing"):
        policy.decide(table, keep=["patient"])
    with pytest.raises(InputError, match="seed is -1"):
        policy.decide(table, seed=-1)


def test_headerless_cells_are_not_quoted(policy: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("SECRET,age2,70\nJane,51,3\n")
    with pytest.raises(InputError) as error:
        policy.decide(tmp_path / "rows.csv")
    assert "SECRET" not in str(error.value)


LOOKING_BACK: dict[str, tuple[str, dict[str, Any]]] = {
    "step": ("poela", {"neighbours": "same_step"}),
    "history": ("poela", {"network": "gru"}),
}


@pytest.mark.parametrize("needs", LOOKING_BACK)
def test_rules_and_networks_that_look_back_are_followed(needs: str) -> None:
    name, settings = LOOKING_BACK[needs]
    policy, table = learned(name, **settings), stays(seed=9)
    assert policy.needs == needs
    _, probabilities = expected(policy, table)
    found = policy.decide(table)
    acts = ~found["defer"].to_numpy()
    np.testing.assert_array_equal(propensities(found, policy)[acts], probabilities[acts])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_episodes_are_followed_by_their_ids(kind: str, tmp_path: Path) -> None:
    policy, table = learned("fittedq", history=1), stays(seed=6)
    assert policy.needs == "history"
    _, probabilities = expected(policy, table)
    rows = np.random.default_rng(1).permutation(table.num_rows)
    found = policy.decide(SOURCES[kind](table.take(pa.array(rows)), tmp_path))
    acts = ~found["defer"].to_numpy()
    np.testing.assert_array_equal(propensities(found, policy)[acts], probabilities[rows][acts])
    # What is to be decided need not be done yet; what was done before must be said.
    doses = table["dose"].to_pylist()
    later = [None if row % 3 == 2 else dose for row, dose in enumerate(doses)]
    waiting = policy.decide(table.set_column(5, "dose", pa.array(later)))
    assert waiting.equals(policy.decide(table))  # what is written as `action` is what is drawn
    unsaid = [None if row % 3 == 1 else dose for row, dose in enumerate(doses)]
    with pytest.raises(
        InputError, match="'dose' is missing, or no action that the policy knows, in 60 rows, first row 2"
    ):
        policy.decide(table.set_column(5, "dose", pa.array(unsaid)))
    with pytest.raises(InputError, match=r"column 'stay' is missing.* looks at earlier decisions"):
        policy.decide(table.drop_columns(["stay"]))


@pytest.mark.parametrize("history", [0, 1])
def test_steps_that_are_missing_before_a_row_are_told(history: int) -> None:
    policy, table = learned("fittedq", history=history), stays(seed=7)
    assert policy.table_schema.pace == (0.0, 4.0)
    hours = table["hour"].to_numpy()
    first = np.arange(180) // 3

    def told(kept: Any) -> list[bool]:
        notes = policy.decide(table.filter(pa.array(kept)))["note"].to_pylist()
        return ["earlier steps of its episode are missing" in (note or "") for note in notes]

    assert not any(told(hours < 8))  # the end of an episode is yet to come
    assert told(~((first == 0) & (hours == 0))) == [True] * 2 + [False] * 177
    assert told(~((first == 1) & (hours == 4))) == [False] * 4 + [True] + [False] * 174
    uneven = table.set_column(1, "hour", pa.array(np.tile([0, 4, 9], 60)))
    schema = read_logs(uneven, **NAMES).schema
    assert schema is not None
    assert schema.pace is None


def test_steps_are_counted_and_needs_are_said() -> None:
    policy, table = learned("fittedq", history=0), stays(seed=7)
    assert policy.needs == "step"
    logs, probabilities = expected(policy, table)
    with pytest.raises(InputError, match=r"give the step numbers .* decide"):
        policy.probabilities(table)
    np.testing.assert_array_equal(policy.probabilities(table, steps=logs.step_numbers), probabilities)
    assert policy.sample(table, seed=0, steps=logs.step_numbers).shape == (180,)
    without = policy.decide(table.drop_columns(["dose"]))  # what was done does not matter
    assert without.equals(policy.decide(table))
    assert learned().needs == "context"
    remembering = HistoryBehavior(poela.MultinomialBehavior()).fit(read_logs(stays(), **NAMES))
    ruled = poela.MinimumProbability(0.01).fit(read_logs(stays(), **NAMES), remembering)
    assert learned("clone").__class__(**{**vars(learned("clone")), "eligibility": ruled}).needs == "history"


def test_frames_are_matched_by_name_and_matrices_by_place(policy: Any) -> None:
    table = stays(4)
    frame = table.to_pandas()
    plain = policy.probabilities(frame)
    np.testing.assert_array_equal(policy.probabilities(frame[frame.columns[::-1]]), plain)
    np.testing.assert_array_equal(policy.probabilities(pl.from_arrow(table)), plain)
    np.testing.assert_array_equal(policy.actor(12).probabilities(frame), plain)
    with pytest.raises(InputError, match="column 'age' is missing"):
        policy.probabilities(frame.drop(columns="age"))
    assert policy.explain(frame.iloc[[0]]).actions
    rule = policy.eligibility
    np.testing.assert_array_equal(rule.distances(frame[frame.columns[::-1]]), rule.distances(policy.checked(frame)))


def test_numbers_alone_in_another_order_are_matched_by_name_too() -> None:
    rng = np.random.default_rng(0)
    names = ["b", "a", "c"]
    frame = pd.DataFrame({name: rng.normal(size=90) for name in names})
    frame["action"], frame["reward"] = rng.integers(0, 2, 90), rng.normal(size=90)
    logs = read_logs(frame, for_learning=True)
    policy: Any = poela.Clone().fit(logs, seed=0)
    by_place = policy.probabilities(frame[names].to_numpy(np.float32))
    np.testing.assert_array_equal(policy.probabilities(frame[["c", "a", "b"]]), by_place)
    model = poela.MultinomialBehavior().fit(logs)
    by_name = model.probabilities(frame[["c", "a", "b"]])
    np.testing.assert_array_equal(by_name, model.probabilities(frame[names].to_numpy(np.float32)))
    renamed = frame.rename(columns={"a": "A"})
    with pytest.raises(InputError, match=r"column 'a' is missing \(did you mean|column 'a' is missing"):
        policy.probabilities(renamed)


def test_policies_without_a_schema_still_decide() -> None:
    """Files of earlier versions, and policies learned from arrays."""
    rng = np.random.default_rng(0)
    logs = poela.Trajectories(rng.normal(size=(60, 2)), rng.integers(0, 2, 60), np.zeros(60), np.arange(61))
    policy: Any = poela.Clone().fit(logs, seed=0)
    assert policy.eligibility.schema is None
    table = pa.table({"x1": logs.contexts[:, 1], "x0": logs.contexts[:, 0]})
    found = policy.decide(table)
    np.testing.assert_array_equal(propensities(found, policy), policy.probabilities(logs.contexts))
    assert found["row"].to_pylist()[:2] == [1, 2]
    with pytest.raises(InputError, match="'x0' is null, NaN or infinite in 1 row"):
        policy.decide({"x0": [None, 1.0], "x1": [1.0, 2.0]})


def test_parts_change_nothing(policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stays(40, seed=8)
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=50)
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    whole = policy.decide(table)
    monkeypatch.setattr(decision_rows, "PART_ROWS", 7)
    for name in ("rows.parquet", "rows.csv"):
        part = policy.decide(tmp_path / name)
        approximate = ["hour", *(f"propensity_{name}" for name in policy.action_names)]  # text, or rounded by networks
        assert part.drop_columns(approximate).to_pylist() == whole.drop_columns(approximate).to_pylist()
        np.testing.assert_allclose(propensities(part, policy), propensities(whole, policy), rtol=1e-6)
    broken = table.set_column(4, "age", pa.array([*[50] * 20, None, *[50] * 98, None]))
    pq.write_table(broken, tmp_path / "broken.parquet")
    with pytest.raises(InputError, match="in 2 rows, first row 21"):
        policy.decide(tmp_path / "broken.parquet")
