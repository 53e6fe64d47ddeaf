"""Files that are damaged, truncated or no logs at all: one sentence, and nothing of their content."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.data.log_files import arrow, csv, parquet

from poela import InputError, read_logs
from poela.data.decision_rows import loose_contexts
from poela.data.order import order_of
from poela.data.schema import TableSchema, Variable

SOUND: dict[str, list[Any]] = {
    "episode": [1, 1, 2, 2, 3, 3],
    "step": [0, 1, 0, 1, 0, 1],
    "age": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
    "action": ["a", "b", "a", "b", "a", "b"],
    "reward": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
}


def problems(source: Any) -> list[str]:
    with pytest.raises(InputError) as error:
        read_logs(source)
    return list(error.value.problems)


DAMAGED = "cannot be read: it is damaged, truncated or not what its name says; write it again"


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
@pytest.mark.parametrize("write", [parquet, arrow])
def test_a_truncated_file(write: Any, share: float, tmp_path: Path) -> None:
    path = write(pa.table(SOUND), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert problems(path) == [f"{path} {DAMAGED}"]


def test_a_parquet_file_with_garbled_pages(tmp_path: Path) -> None:
    path = parquet(pa.table({name: column * 500 for name, column in SOUND.items()}), tmp_path)
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(255 - byte for byte in content[100:400])
    path.write_bytes(bytes(content))
    assert problems(path) == [f"{path} {DAMAGED}"]


def test_an_arrow_file_with_garbled_text_offsets(tmp_path: Path) -> None:
    path = arrow(pa.table(SOUND), tmp_path)
    content = path.read_bytes()
    offsets = np.arange(7, dtype=np.int32).tobytes()
    assert offsets in content
    path.write_bytes(content.replace(offsets, np.full(7, 2**30, np.int32).tobytes()))
    assert problems(path) == [f"{path} {DAMAGED}"]


FILES: dict[str, tuple[str, bytes, str]] = {
    "CSV as Parquet": ("logs.parquet", b"episode,step\n1,2\n", DAMAGED),
    "Parquet as Arrow": ("logs.arrow", b"PAR1\x15\x04\x15PAR1", DAMAGED),
    "empty CSV": ("logs.csv", b"", "is empty: it needs a header and a row for each decision"),
    "Parquet as CSV": ("logs.csv", b"PAR1\x00\xff\n1,\xfe", "is a Parquet file: let its name end in .parquet"),
    "latin CSV": (
        "logs.csv",
        "episode,step,x,action,reward\n1,0,1,é,1\n".encode("latin-1"),
        "cannot be read as CSV: it is not text in UTF-8; name its encoding, e.g. encoding='latin-1' "
        "(--encoding latin-1)",
    ),
    "ragged CSV": (
        "logs.csv",
        b"episode,step\n1,0\n1,1,7\n1\n",
        "cannot be read as CSV: 2 rows have more or fewer cells than the header, first row 2; write it again",
    ),
    "truncated CSV": (
        "logs.csv",
        b"episode,step\n1,0\n1",
        "cannot be read as CSV: 1 row has more or fewer cells than the header, first row 2; write it again",
    ),
    "damaged gzip": ("logs.csv.gz", b"\x1f\x8b\x08\x00rubbish", DAMAGED),
    "unknown kind": ("logs.txt", b"1", "is of an unknown kind (.txt): give a .parquet, .csv, .arrow or .feather file"),
}


@pytest.mark.parametrize(("name", "content", "sentence"), FILES.values(), ids=list(FILES))
def test_files_that_are_no_logs(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert problems(tmp_path / name) == [f"{tmp_path / name} {sentence}"]


def test_a_saved_row_index_is_not_taken_for_a_feature(tmp_path: Path) -> None:
    pd.DataFrame(SOUND).to_csv(tmp_path / "logs.csv")
    assert problems(tmp_path / "logs.csv") == [
        "a column has no name (a saved index?): drop it, or name the context columns"
    ]
    assert read_logs(tmp_path / "logs.csv", context=["age"]).n_features == 1
    pd.DataFrame(SOUND, index=list("abcdef")).to_parquet(tmp_path / "logs.parquet")
    assert read_logs(tmp_path / "logs.parquet").feature_names == ("age",)


def test_sources_that_are_none(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.csv") == [f"{tmp_path / 'none.csv'} does not exist: check the path"]
    assert problems(tmp_path) == [f"{tmp_path} is a directory: give one file"]
    assert problems(7) == ["cannot read logs from a int: give a path, an Arrow table or a data frame"]


def test_an_arrow_file_that_is_cut_off_while_it_is_read(tmp_path: Path) -> None:
    """A mapped file would kill the process, which is why another one tries."""
    path = arrow(pa.table({name: column * 5000 for name, column in SOUND.items()}), tmp_path)
    code = (
        "import os, sys; from poela import LogLayout; from poela.data.opening import open_source; "
        "source = open_source(sys.argv[1], LogLayout(), labels=()); os.truncate(sys.argv[1], 0); "
        "sys.exit(source.read('reward').to_pylist()[-1] != 5.0)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_a_csv_file_that_changes_while_it_is_read(kept: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read in two passes; one that grows or shrinks in between is read anew."""
    path = Path(csv(pa.table(SOUND), tmp_path))
    rows = path.read_text().splitlines()

    def order_meanwhile(*arguments: Any) -> Any:
        new = ["9,0,0.5,a,1.5", "9,1,0.25,b,2.5"] if kept == 1.0 else []
        path.write_text("\n".join([*rows[: int(6 * kept) + 1], *new]) + "\n")
        return order_of(*arguments)

    monkeypatch.setattr("poela.data.tables.order_of", order_meanwhile)
    logs = read_logs(path)
    assert logs.rewards.tolist() == ([0, 1, 2, 3, 4, 5, 1.5, 2.5] if kept == 1.0 else [0, 1, 2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("write", [parquet, arrow, csv])
def test_random_damage_ends_in_logs_or_in_a_sentence(write: Any, seed: int, tmp_path: Path) -> None:
    path = Path(write(pa.table({name: column * 20 for name, column in SOUND.items()}), tmp_path))
    content = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(20):
        damaged = content.copy()
        damaged[rng.integers(0, len(content), 5)] = rng.integers(0, 256, 5)
        path.write_bytes(damaged.tobytes())
        try:
            read_logs(path, context=["age"])
        except InputError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("read", [read_logs, lambda path: loose_contexts(path, TableSchema((Variable("age"),)))])
@pytest.mark.parametrize("call", ["open_csv", "CSVStreamingReader"])
def test_an_interruption_while_a_file_is_read_is_one(
    read: Any, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow says in its own way that Ctrl-C came, be it at once or after some batches."""
    path = csv(pa.table(SOUND), tmp_path)
    opened = pyarrow.csv.open_csv

    class Interrupted:
        def __init__(self, reader: Any) -> None:
            self.schema = reader.schema

        def __enter__(self) -> "Interrupted":
            return self

        def __exit__(self, *error: object) -> None: ...

        def __iter__(self) -> Any:
            raise pa.ArrowCancelled("Operation cancelled")

        read_all = __iter__

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if call == "open_csv":
            raise pa.ArrowCancelled("Operation cancelled")
        return Interrupted(opened(*arguments, **options))

    monkeypatch.setattr(pyarrow.csv, "open_csv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(path)
