"""CSV files as they are written elsewhere: once the reader is told how, they give the same log."""

import gzip
from encodings.aliases import aliases
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela import InputError, LogLayout, read_logs
from poela.cli.columns import layout_of

TEXT = """episode,step,âge,action,reward
é1,0,0.5,ärger,1.25
é1,1,1.5,ruhe,-2.5
é2,0,2.5,ruhe,1e2
"""
CONTEXTS, REWARDS, ACTIONS = [[0.5], [1.5], [2.5]], [1.25, -2.5, 100.0], ("ruhe", "ärger")


def european(text: str, separator: str = ";") -> str:
    return text.replace(",", separator).replace(".", ",")


def quoted_commas(text: str) -> str:
    cells = [[f'"{cell.replace(".", ",")}"' for cell in line.split(",")] for line in text.splitlines()]
    return "\n".join(",".join(line) for line in cells) + "\n"


FORMATS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain": (TEXT.encode(), {}),
    "marked UTF-8": (TEXT.encode("utf-8-sig"), {}),
    "lines that end as on Windows": (TEXT.replace("\n", "\r\n").encode(), {}),
    "no end of the last line": (TEXT.rstrip().encode(), {}),
    "semicolons": (TEXT.replace(",", ";").encode(), {"separator": ";"}),
    "tabs": (TEXT.replace(",", "\t").encode(), {"separator": "\t"}),
    "bars": (TEXT.replace(",", "|").encode(), {"separator": "|"}),
    "decimal commas": (european(TEXT).encode(), {"separator": ";", "decimal": ","}),
    "decimal commas in quotes": (quoted_commas(TEXT).encode(), {"decimal": ","}),
    "Latin-1": (TEXT.encode("latin-1"), {"encoding": "latin-1"}),
    "Windows": (european(TEXT).encode("cp1252"), {"separator": ";", "decimal": ",", "encoding": "cp1252"}),
    "UTF-16": (TEXT.encode("utf-16"), {"encoding": "utf-16"}),
    "UTF-16 without a mark": (TEXT.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "UTF-16 with a mark that is known": (b"\xff\xfe" + TEXT.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "UTF-32": (TEXT.encode("utf-32"), {"encoding": "utf-32"}),
}


def check(path: Path, **how: Any) -> None:
    logs = read_logs(path, **how)
    assert logs.contexts.tolist() == CONTEXTS
    assert logs.rewards.tolist() == REWARDS
    assert logs.action_names == ACTIONS
    assert logs.actions.tolist() == [1, 0, 0]
    assert logs.feature_names == ("âge",)
    assert logs.offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize(("content", "how"), FORMATS.values(), ids=list(FORMATS))
def test_every_way_of_writing_gives_the_same_log(content: bytes, how: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_bytes(content)
    check(tmp_path / "logs.csv", **how)
    check(tmp_path / "logs.csv", layout=LogLayout(**how))
    (tmp_path / "logs.csv.gz").write_bytes(gzip.compress(content))
    check(tmp_path / "logs.csv.gz", **how)


def test_a_column_that_is_no_number_only_late(tmp_path: Path) -> None:
    """The first pass supposes numbers; the second, which looks at all, must know the format as well."""
    (tmp_path / "logs.csv").write_bytes(european(TEXT.replace("2.5,ruhe", "viel,ruhe")).encode("latin-1"))
    with pytest.raises(InputError, match="'âge' is text, not a number, in 1 row, first row 3"):
        read_logs(tmp_path / "logs.csv", separator=";", decimal=",", encoding="latin-1")


def test_a_header_of_numbers_is_one_where_the_parts_are_there(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("0,1,episode,step,action,reward\n0.5,0.25,1,0,a,1\n")
    assert read_logs(tmp_path / "logs.csv").feature_names == ("0", "1")


@pytest.mark.parametrize("typed", ["tab", "\\t", "\t"])
def test_a_tab_can_be_typed(typed: str) -> None:
    assert layout_of(None, separator=typed) == LogLayout(separator="\t")


def test_a_layout_file_says_how_a_csv_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "layout.toml").write_text('separator = "\\t"\ndecimal = ","\nencoding = "cp1252"\n')
    (tmp_path / "logs.csv").write_bytes(european(TEXT, "\t").encode("cp1252"))
    check(tmp_path / "logs.csv", layout=layout_of(tmp_path / "layout.toml"))


def test_many_rows_in_another_encoding(tmp_path: Path) -> None:
    """A letter of two bytes may lie across two blocks of the file."""
    n = 50_000
    rows = [f"é{row};{row % 7};{row / 4};ä{row % 2};{-row}" for row in range(n)]
    (tmp_path / "logs.csv").write_bytes(
        "\n".join(["episode;step;x;action;reward", *rows]).replace(".", ",").encode("utf-16")
    )
    logs = read_logs(tmp_path / "logs.csv", separator=";", decimal=",", encoding="utf-16")
    np.testing.assert_array_equal(np.sort(logs.contexts[:, 0]), np.arange(n, dtype=np.float32) / 4)
    assert logs.action_names == ("ä0", "ä1")


def test_every_encoding_that_python_knows_is_read_or_refused_at_once(tmp_path: Path) -> None:
    text = TEXT.translate(str.maketrans("âéä", "aea"))
    refused = set()
    for encoding in {*aliases.values(), "idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"}:
        try:
            layout = LogLayout(encoding=encoding)
        except InputError as error:
            assert "encoding= must name an encoding of text" in str(error)  # noqa: PT017
            refused.add(encoding)
            continue
        (tmp_path / "logs.csv").write_bytes(text.encode(encoding))
        logs = read_logs(tmp_path / "logs.csv", layout=layout)
        assert (logs.contexts.tolist(), logs.action_names) == (CONTEXTS, ("arger", "ruhe")), encoding
    assert {"idna", "punycode", "unicode_escape"} < refused
    assert len(refused) < 20
