"""Receipts: what was decided outlasts a crash, and becomes a log once outcomes are known."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from poela import InputError, read_logs
from poela.data.beside import Beside
from poela.data.layout import LogLayout
from poela.data.outcomes import joined_receipts
from poela.data.receipts import ReceiptKeys, Receipts, ReceiptsOf, receipts_of

KEYS = ReceiptKeys("case", None, ("age",))
STAYS = ReceiptKeys("stay", "day", ("age",))


def decided(n: int, seed: int = 0, **columns: Any) -> pa.Table:
    rng = np.random.default_rng(seed)
    treat = rng.uniform(0.2, 0.8, n)
    action = np.where(rng.random(n) < treat, "treat", "wait")
    own = {"case": [f"c{i:04d}" for i in range(n)], "age": rng.normal(size=n), "action": action}
    own |= {"propensity_treat": treat, "propensity_wait": 1 - treat, "defer": np.zeros(n, bool)}
    return pa.table({**own, "policy": ["0123456789abcdef"] * n, **columns})


def written(folder: Path, table: pa.Table, keys: ReceiptKeys = KEYS) -> Path:
    Receipts.to_append(folder).append(receipts_of(table, keys, ("treat", "wait"), {}))
    return folder


def outcomes(table: pa.Table, rewards: Any, case: str = "case") -> pa.Table:
    return pa.table({case: table[case], "reward": rewards})


def test_receipts_and_outcomes_are_a_log(tmp_path: Path) -> None:
    table = decided(50)
    folder = written(tmp_path / "receipts", table)
    order = np.random.default_rng(1).permutation(50)
    logs = read_logs(folder, outcomes=outcomes(table, np.arange(50.0)).take(order))
    assert logs.feature_names == ("age",)
    assert logs.action_names == ("treat", "wait")
    assert not logs.estimated
    assert logs.rewards.tolist() == list(range(50))
    assert np.array_equal(np.asarray(logs.propensities)[:, 0], table["propensity_treat"].to_numpy())
    assert [logs.action_names[a] for a in logs.actions] == table["action"].to_pylist()
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_side_outcomes_come_with_the_outcomes(tmp_path: Path) -> None:
    table = decided(5)
    folder = written(tmp_path / "receipts", table)
    harm = [0.0, 1.0, 0.0, 0.0, 1.0]
    came = outcomes(table, np.arange(5.0)).append_column("harm", [harm])
    logs = read_logs(folder, outcomes=came, side_outcomes=["harm", "2*harm"])
    assert logs.outcome_names == ("harm", "2*harm")
    assert np.asarray(logs.outcomes).tolist() == [[value, 2 * value] for value in harm]
    assert logs.feature_names == ("age",)
    with pytest.raises(InputError, match="the outcomes have no column 'pain'"):
        read_logs(folder, outcomes=came, side_outcomes=["pain"])


def test_what_cannot_say_when_a_case_ended_is_told_by_its_name(tmp_path: Path) -> None:
    table = decided(4)
    folder = written(tmp_path / "receipts", table)
    known = outcomes(table, [1.0, 2.0, 3.0, 4.0]).append_column("left", pa.array(["May", "June", "July", "May"]))
    with pytest.raises(InputError, match="column 'left' is text, not a number or time, in 4 rows"):
        read_logs(folder, outcomes=known, ended="left")
    with pytest.raises(InputError, match="column 'reward' is the reward: name another with ended="):
        read_logs(folder, outcomes=known, ended="reward")


def test_cases_that_are_deferred_on_the_way_are_told_of(tmp_path: Path) -> None:
    """Being deferred later may come of what was done earlier, so that leaving these cases out selects."""
    table = decided(6).drop_columns(["case"])
    stays = {"stay": ["a", "a", "b", "b", "c", "c"], "day": [0, 1] * 3}
    for name, values in stays.items():
        table = table.append_column(name, pa.array(values))
    table = table.set_column(table.column_names.index("defer"), "defer", pa.array([False, True, *[False] * 4]))
    folder = written(tmp_path / "receipts", table, STAYS)
    logs = read_logs(folder, outcomes=pa.table({"stay": ["a", "b", "c"], "reward": [1.0, 2.0, 3.0]}))
    assert logs.n_episodes == 2
    assert any("1 of them had several steps" in note for note in logs.notes)


def test_unfinished_unknown_deferred_and_repeated_are_counted(tmp_path: Path) -> None:
    table = decided(20)
    left = np.arange(20) == 3
    table = table.set_column(table.column_names.index("defer"), "defer", pa.array(left))
    folder = written(tmp_path / "receipts", table)
    written(folder, table.slice(5, 2))
    known = outcomes(table, [None, None, *np.ones(18)])
    known = pa.concat_tables([known, pa.table({"case": ["elsewhere"], "reward": [1.0]})])
    logs = read_logs(folder, outcomes=known)
    assert logs.n_episodes == 17
    said = "\n".join(logs.notes)
    assert "2 of 20 cases have no outcome yet: unfinished" in said
    assert "1 cases were left to those who decide" in said
    assert "several steps" not in said
    assert "2 receipts repeat an earlier one" in said
    assert "1 outcomes belong to no receipt" in said


def test_a_case_with_two_answers_or_two_outcomes_is_refused(tmp_path: Path) -> None:
    table = decided(10)
    folder = written(tmp_path / "receipts", table)
    with pytest.raises(InputError, match="2 cases have several rows among the outcomes"):
        read_logs(folder, outcomes=outcomes(table, np.zeros(10)).take([*range(10), 3, 4]))
    other = pa.array(["wait" if a == "treat" else "treat" for a in table["action"].to_pylist()])
    written(folder, table.set_column(table.column_names.index("action"), "action", other).slice(0, 1))
    with pytest.raises(InputError, match="1 cases were decided several times with different answers"):
        read_logs(folder, outcomes=outcomes(table, np.zeros(10)))


def test_episodes_come_in_the_order_in_which_they_end(tmp_path: Path) -> None:
    steps: dict[str, Any] = {"stay": ["b", "b", "a", "a", "a"], "day": [0, 1, 2, 0, 1]}
    table = decided(5, **steps).drop_columns("case")
    folder = written(tmp_path / "receipts", table, STAYS)
    done = pa.table({"stay": ["a", "b"], "reward": [5.0, 7.0], "left": [20, 10]})
    logs = read_logs(folder, outcomes=done, ended="left")
    assert logs.episode_ids is not None
    assert logs.episode_ids.tolist() == ["b", "a"]
    assert logs.returns().tolist() == [7.0, 5.0]
    assert logs.rewards.tolist() == [0, 7, 0, 0, 5]
    assert logs.contexts[2:, 0] == pytest.approx(table["age"].to_numpy()[[3, 4, 2]])
    by_step = pa.table({"stay": steps["stay"], "day": steps["day"], "reward": [1.0, 2.0, 3.0, 4.0, None]})
    logs = read_logs(folder, outcomes=by_step)
    assert logs.rewards.tolist() == [1.0, 2.0]
    assert "1 of 2 cases have no outcome" in logs.notes[-1]


def test_what_was_done_gives_weights_of_what_was_done(tmp_path: Path) -> None:
    """30% do not follow: propensities are those of what was done, known in closed form for two actions."""
    n = 6000
    table = decided(n)
    said = table["action"].to_numpy(zero_copy_only=False)
    follows = np.random.default_rng(5).random(n) < 0.7
    done = np.where(follows, said, np.where(said == "treat", "wait", "treat"))
    folder = written(tmp_path / "receipts", table)
    known = outcomes(table, np.zeros(n)).append_column("done", pa.array(done))
    logs = read_logs(folder, outcomes=known, done="done")
    assert logs.estimated
    assert logs.adherence == pytest.approx(follows.mean())
    assert [logs.action_names[a] for a in logs.actions[:50]] == done[:50].tolist()
    treat = table["propensity_treat"].to_numpy()
    assert np.asarray(logs.propensities)[:, 0] == pytest.approx(0.7 * treat + 0.3 * (1 - treat), abs=0.03)
    assert "71% of 6,000 recommendations were followed" in "\n".join(logs.notes)
    logs = read_logs(folder, outcomes=known.drop_columns("done").append_column("done", pa.array(said)), done="done")
    assert not logs.estimated
    assert logs.adherence == 1.0
    plain = decided(40).append_column("reward", pa.array(np.zeros(40)))
    plain = plain.append_column("acted", plain["action"])
    assert read_logs(plain, done="acted").feature_names == ("age",)


def test_words_for_what_is_wrong(tmp_path: Path) -> None:
    table = decided(5)
    folder = written(tmp_path / "receipts", table)
    with pytest.raises(InputError, match="receipts do not know what came of them"):
        read_logs(folder)
    with pytest.raises(InputError, match=r"no case of the receipts in .* has an outcome"):
        read_logs(folder, outcomes=pa.table({"case": ["x"], "reward": [1.0]}))
    with pytest.raises(InputError, match="the outcomes have no column 'reward'"):
        read_logs(folder, outcomes=pa.table({"case": ["c0001"]}))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not empty and holds no receipts"):
        Receipts.to_append(tmp_path / "mine")
    with pytest.raises(InputError, match="goes with a folder of receipts"):
        read_logs(decided(5), outcomes=table)


def test_a_kill_loses_at_most_what_nobody_was_told(tmp_path: Path) -> None:
    """A process that appends and acknowledges is killed; every acknowledged row is there, and nothing is torn."""
    folder = tmp_path / "receipts"
    code = """
        import sys
        from tests.data.test_receipts import KEYS, decided
        from poela.data.receipts import Receipts, receipts_of
        receipts, table = Receipts.to_append(sys.argv[1]), decided(2000)
        for row in range(2000):
            receipts.append(receipts_of(table.slice(row, 1), KEYS, ("treat", "wait"), {}))
            print(row, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(8)]
        os.kill(process.pid, signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().split()]
    table = decided(2000)
    logs = read_logs(folder, outcomes=outcomes(table, np.arange(2000.0)))
    assert len(told) <= logs.n_episodes <= len(told) + 1
    assert logs.rewards[: len(told)].tolist() == told
    written(folder, table.slice(1999, 1))  # what the dead process left half-written is in nobody's way
    assert read_logs(folder, outcomes=outcomes(table, np.arange(2000.0))).n_episodes == logs.n_episodes + 1


def test_a_damaged_part_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "receipts", decided(5))
    [part] = folder.glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(InputError, match=f"1 part of the receipts is damaged.*{part.name}"):
        read_logs(folder, outcomes=outcomes(decided(5), np.zeros(5)))
    written(folder, decided(30).slice(5))
    logs = read_logs(folder, outcomes=outcomes(decided(30), np.zeros(30)))
    assert logs.n_episodes == 25
    said = "\n".join(logs.notes)
    assert f"1 part of the receipts is damaged, and its decisions are left out ({part.name})" in said
    assert "5 outcomes belong to no receipt" in said
    assert part.exists()


def test_a_part_that_may_not_be_read_is_no_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving it out would lose decisions that are there."""
    folder = written(tmp_path / "receipts", decided(5))

    def refused(*given: Any, **more: Any) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr("pyarrow.parquet.read_table", refused)
    with pytest.raises(InputError, match="may not be read"):
        read_logs(folder, outcomes=outcomes(decided(5), np.zeros(5)))


def test_receipts_of_one_policy_of_two(tmp_path: Path) -> None:
    folder = written(tmp_path / "receipts", decided(30))
    other = decided(50).slice(30).append_column("lactate", pa.array(np.zeros(20)))
    other = other.set_column(other.column_names.index("policy"), "policy", pa.array(["fedcba9876543210"] * 20))
    written(folder, other, ReceiptKeys("case", None, ("age", "lactate")))
    known = outcomes(decided(50), np.zeros(50))
    logs = read_logs(ReceiptsOf(folder, "0123456789abcdef"), outcomes=known)
    assert logs.n_episodes == 30
    assert "20 of 50 receipts are of policy fedcba9876543210: left out" in logs.notes
    logs = read_logs(ReceiptsOf(folder, "fedcba9876543210", frozenset({"0123456789abcdef"})), outcomes=known)
    assert (logs.n_episodes, logs.feature_names) == (20, ("age", "lactate"))
    assert not any("left out" in note for note in logs.notes)
    with pytest.raises(InputError, match=r"no receipts of this policy \(ffff\), but 30 of 0123456789abcdef, 20 of"):
        read_logs(ReceiptsOf(folder, "ffff"), outcomes=known)
    with pytest.raises(InputError, match="policies with other columns"):
        read_logs(folder, outcomes=known)
    alike = other.drop_columns(["lactate"])
    both = written(written(tmp_path / "both", decided(30)), alike)
    notes = read_logs(both, outcomes=known).notes
    assert any("receipts of 2 policies are taken together: 30 of" in note for note in notes)


def test_csv_outcomes(tmp_path: Path) -> None:
    table = decided(30)
    folder = written(tmp_path / "receipts", table)
    pa.csv.write_csv(outcomes(table, np.arange(30.0)), tmp_path / "outcomes.csv")
    assert read_logs(folder, outcomes=tmp_path / "outcomes.csv").rewards.tolist() == list(range(30))
    assert pq.read_table(next(folder.glob("part-*"))).num_rows == 30


def test_outcomes_of_two_folders_in_one_table_are_no_surprise(tmp_path: Path) -> None:
    """Outcomes that belong to another folder are called unused only where there is no other one."""
    folder = written(tmp_path / "receipts", decided(5))
    cases = [str(one) for one in decided(5)["case"].to_pylist()]
    beside = Beside(pa.table({"case": [*cases, "elsewhere"], "reward": [0.0] * 6}))
    alone, shared = (
        joined_receipts(folder, beside.among(given), LogLayout()).notes for given in ([folder], [folder, folder])
    )
    assert "1 outcomes belong to no receipt: not used" in alone
    assert not [note for note in shared if "belong to no receipt" in note]
