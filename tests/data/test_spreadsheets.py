"""CSV files that a spreadsheet may open: no cell of ours runs, and all are read back as they were; no bombs either."""

import csv
import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poela
from poela.cli import main
from poela.cli.simulate import write_logs
from poela.core.errors import InputError
from poela.data.spreadsheets import as_meant, harmless
from poela.data.trajectories import Trajectories
from poela.learners.consensus import Consensus
from poela.policies.deciding import Deciding
from poela.serving.decide import decide_file

NASTY = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''@x", "=HYPERLINK(1)", "--5")
FINE = ("-5", "+3.5", "-1e5", "plain", "'quoted'", "a=b", "")
NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?")


def runs(cell: str) -> bool:
    """Whether a spreadsheet would take this for a formula."""
    return cell.startswith(("=", "+", "-", "@", "\t", "\r")) and NUMBER.fullmatch(cell) is None


def cells(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [cell for row in csv.reader(file) for cell in row]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("'=+-@\t\r1.e5a", max_size=6), min_size=1))
def test_every_text_is_harmless_and_comes_back(texts: list[str]) -> None:
    for column in (pa.array(texts), pa.array(texts, pa.large_string()), pa.array(texts).dictionary_encode()):
        written = harmless(pa.table({"text": column}))
        assert not any(map(runs, written["text"].to_pylist()))
        assert as_meant(written)["text"].to_pylist() == texts
        assert written.schema.field("text").type == column.type


def test_logs_and_decisions_with_formulas_for_names(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 60
    ids = [f"{NASTY[k % len(NASTY)]} {k}" for k in range(n)]
    logs = Trajectories(
        contexts=rng.normal(size=(n, 2)),
        actions=rng.integers(3, size=n),
        rewards=rng.normal(size=n),
        offsets=np.arange(n + 1),
        propensities=np.full((n, 3), 1 / 3),
        feature_names=("=age", "@risk"),
        action_names=("=stop", "-go", "stay"),
        episode_ids=ids,
    )
    write_logs(logs, tmp_path / "logs.csv", overwrite=False)
    assert not any(map(runs, cells(tmp_path / "logs.csv")))
    again = poela.read_logs(tmp_path / "logs.csv")
    assert again.feature_names == logs.feature_names
    assert set(again.action_names) == set(logs.action_names)
    assert again.episode_ids is not None
    assert sorted(map(str, again.episode_ids)) == sorted(ids)
    policy = Consensus().fit(again)
    decided = decide_file(policy, tmp_path / "logs.csv", tmp_path / "decided.csv", Deciding())
    assert decided.rows == n
    assert not any(map(runs, cells(tmp_path / "decided.csv")))
    actions = [cell.lstrip("'") for cell in cells(tmp_path / "decided.csv")]
    assert {"=stop", "-go", "stay"} & set(actions)


def test_numbers_and_plain_text_are_left_alone() -> None:
    table = pa.table({"text": list(FINE), "number": [-1.0] * len(FINE)})
    assert harmless(table).equals(table)
    assert as_meant(table).equals(table)


HEAD = "episode,step,x,action,reward\n"


def bomb(folder: Path, kind: str) -> Path:
    """A small file that unpacks to 4 MB."""
    rows = 200_000
    same = pa.table({name: np.zeros(rows) for name in ("episode", "step", "x", "action", "reward")})
    if kind == "csv.gz":
        (folder / "logs.csv.gz").write_bytes(gzip.compress((HEAD + "0,0,0,0,0\n" * rows).encode()))
        return folder / "logs.csv.gz"
    if kind == "many.csv.gz":  # one member after another
        part = gzip.compress(b"0,0,0,0,0\n" * 20_000)
        (folder / "logs.csv.gz").write_bytes(gzip.compress(HEAD.encode()) + part * 10)
        return folder / "logs.csv.gz"
    if kind == "parquet":
        pq.write_table(same, folder / "logs.parquet")
        return folder / "logs.parquet"
    path = folder / "logs.arrow"
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, same.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        writer.write_table(same)
    return path


TEXTS = ("text.parquet", "plain.parquet", "text.arrow", "stream.arrow", "dictionary.arrow", "rows.arrow")


def text_bomb(folder: Path, kind: str, letters: int = 50_000, rows: int = 20_000) -> Path:
    """One long text in every row, which a file holds once: some kilobytes that unpack to a gigabyte."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * letters]))
    numbers = {name: np.arange(rows) for name in ("episode", "step", "x", "reward")}
    path = folder / f"logs.{kind.rpartition('.')[2]}"
    if path.suffix == ".parquet":
        table = pa.table({**numbers, "action": column})
        dictionary = kind == "text.parquet"
        if not dictionary:  # every row has the text, and compression finds that out
            table = pa.table({**numbers, "action": column.cast(pa.string())})
        how = {"store_schema": False, "compression": "zstd", "use_dictionary": dictionary}
        with pq.ParquetWriter(path, table.schema, **how) as writer:
            writer.write_table(table)
        return path
    if kind == "rows.arrow":  # a column without anything in it
        table = pa.table({"x": pa.nulls((1 << 31) - 1)})
    else:
        table = pa.table({**numbers, "action": column if kind == "dictionary.arrow" else column.cast(pa.string())})
    begin = pa.ipc.new_stream if kind == "stream.arrow" else pa.ipc.new_file
    with (
        pa.OSFile(str(path), "wb") as file,
        begin(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        writer.write_table(table)
    return path


READ = """
import resource, sys
import poela
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    poela.read_logs(sys.argv[1])
except poela.InputError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", TEXTS)
def test_long_texts_are_refused_before_each_row_has_its_own(kind: str, tmp_path: Path) -> None:
    """By the memory of a process that reads such a file: far less than the gigabyte that it unpacks to."""
    path = text_bomb(tmp_path, kind)
    assert path.stat().st_size < 1_000_000
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    said, _, kilobytes = done.stdout.strip().rpartition("\n")
    assert "times its size" in said, done
    assert int(kilobytes) < 300_000


@pytest.mark.parametrize("kind", TEXTS[:5])
def test_texts_that_many_rows_have_are_read_as_they_are(kind: str, tmp_path: Path) -> None:
    from poela.data.layout import LogLayout
    from poela.data.opening import open_source

    source = open_source(text_bomb(tmp_path, kind, letters=5, rows=20_000), LogLayout(), ())
    assert set(source.read("action").to_pylist()) == {"xxxxx"}
    batches = list(source.batches(["action", "x"]))
    assert sum(map(len, batches)) == 20_000
    assert {kind for batch in batches for kind in batch.schema.types} == {
        source.schema.field(name).type for name in ("action", "x")
    }


@pytest.mark.parametrize("kind", ["csv.gz", "many.csv.gz", "parquet", "arrow"])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bomb(tmp_path, kind)
    with pytest.raises(InputError) as sound:
        poela.read_logs(path)  # whatever else is wrong with it: it is small enough to be looked at
    assert "times its size" not in str(sound.value)
    monkeypatch.setattr("poela.data.unpacking.SMALL", 1 << 20)
    monkeypatch.setattr("poela.data.unpacking.MOST_TIMES", 5)
    assert main(["learn", str(path), "--out", str(tmp_path / "study")]) == 2
    said = capsys.readouterr().err
    assert "unpacks to more than 1.00 MiB and 5 times its size" in said, said
    assert not (tmp_path / "study").exists()


def test_a_bomb_is_refused_before_all_of_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poela.data import unpacking

    sizes: list[int] = []
    refuse = unpacking.refuse_swollen

    def noted(path: Path, size: int) -> None:
        sizes.append(size)
        refuse(path, size)

    monkeypatch.setattr(unpacking, "refuse_swollen", noted)
    monkeypatch.setattr(unpacking, "SMALL", 1 << 20)
    path = tmp_path / "logs.csv.gz"
    path.write_bytes(gzip.compress(bytes(50 << 20)))
    with pytest.raises(InputError, match="unpacks to more"):
        unpacking.refuse_bomb(path)
    assert sizes[-1] < 20 << 20
