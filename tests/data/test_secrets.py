"""What a log holds is nobody's business: no message quotes a cell, or a header that may be a row of cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.data.log_files import SOURCES, csv
from tests.robustness.secret_logs import PROPENSITIES, ROWS, SECRETS, changed

from poela import InputError, LogLayout, Trajectories, read_logs

KINDS = ["parquet", "csv", "arrow", "pandas", "polars", "table"]


def message_of(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def told(message: str) -> list[str]:
    return [secret for secret in SECRETS if secret in message]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ["episode", "age", "reward"])
def test_a_wrong_column_named_as_the_action(kind: str, column: str, tmp_path: Path) -> None:
    columns = {"episode": "patient", "action": "drug"} | {column: "action"}
    logs = changed({})
    source = SOURCES[kind](logs.rename_columns([columns.get(name, name) for name in logs.column_names]), tmp_path)
    message = message_of(lambda: read_logs(source, actions=["treat", "wait"], episode="drug", reward="step"))
    assert "in 12 rows, first row 1" in message
    assert not told(message)


def test_undeclared_actions_are_counted() -> None:
    message = message_of(lambda: read_logs(changed({}), actions=["SECRET-wait", "other"]))
    assert message == (
        "column 'action' lies outside the declared actions in 6 rows, first row 2: "
        "declare that other value too, by actions= or a propensity column, or drop those episodes"
    )


def headless(tmp_path: Path) -> Path:
    """A CSV file whose first row is one of cells."""
    path = Path(csv(changed({}), tmp_path))
    path.write_text(path.read_text().split("\n", 1)[1])
    return path


@pytest.mark.parametrize("names", [{}, {"context": ["age", "weight"]}, {"propensity": "p"}, {"actions": ["a"]}])
def test_the_first_row_of_a_file_without_a_header(names: dict[str, Any], tmp_path: Path) -> None:
    path = headless(tmp_path)
    message = message_of(lambda: read_logs(path, **names))
    assert message.startswith("none of the columns 'episode', 'step', 'action', 'reward' is there: ")
    assert "add a header row" in message
    assert not told(message)
    assert message_of(lambda: read_logs(pd.read_csv(path), **names)) == message


def test_a_frame_without_a_header_and_with_mixed_columns(tmp_path: Path) -> None:
    frame = pd.read_csv(headless(tmp_path)).astype(object)
    frame.iloc[0, 0] = 7
    assert not told(message_of(lambda: read_logs(frame)))


def test_a_number_among_the_names_makes_them_doubtful() -> None:
    logs = changed(
        {"Rewards": [0.0] * ROWS, "8675309": [0.0] * ROWS, "reward": None, "propensity_SECRET": [1.0] * ROWS}
    )
    assert message_of(lambda: read_logs(logs)) == "column 'reward' is missing: add it, or name another with reward="


def test_propensities_are_not_called_by_the_actions_of_another_log() -> None:
    layout = LogLayout().fixed(read_logs(changed({})))
    logs = changed({"action": ["a"] * ROWS, "propensity_a": [1.0] * ROWS})
    message = message_of(lambda: read_logs(logs, layout=layout))
    assert "columns propensity_<action> are missing for 2 of 2 actions" in message
    assert not told(message)


def test_propensities_of_the_header_may_be_quoted() -> None:
    logs = changed({**PROPENSITIES, "propensity": [0.5] * ROWS})
    assert "beside 'propensity_SECRET-treat', 'propensity_SECRET-wait'" in message_of(lambda: read_logs(logs))


def test_a_log_named_as_the_layout(tmp_path: Path) -> None:
    for content in ("SECRET,8675309\n", 'SECRET = "a"\nSECRET = "b"\n', "[SECRET]\n[SECRET]\n", b"\xff\xfeS\0E\0"):
        (tmp_path / "layout.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        message = message_of(lambda: LogLayout.from_toml(tmp_path / "layout.toml"))
        assert "cannot be read as TOML" in message
        assert not told(message)


class Stream:
    """A stranger's table that breaks while it is read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise self.error


@pytest.mark.parametrize(
    "error", [KeyError("SECRET"), RuntimeError("SECRET"), OverflowError("SECRET"), OSError("SECRET")]
)
def test_what_a_strangers_table_throws(error: Exception) -> None:
    assert message_of(lambda: read_logs(Stream(error))).startswith("cannot read logs from a Stream")


CELLS = {"text": "SECRET", "nothing": None, "object": object(), "row": [1.0, 2.0], "endless": 10**400}


@pytest.mark.parametrize("field", ["contexts", "actions", "rewards", "offsets", "propensities"])
@pytest.mark.parametrize("cell", CELLS.values(), ids=list(CELLS))
def test_arrays_of_something_else(field: str, cell: Any) -> None:
    arrays: dict[str, Any] = {
        "contexts": [[0.0], [1.0]],
        "actions": [0, 1],
        "rewards": [0.0, 1.0],
        "offsets": [0, 1, 2],
        "propensities": [0.5, 0.5],
    }
    arrays[field] = [[cell], [1.0]] if field == "contexts" else [cell, *arrays[field][1:]]
    assert not told(message_of(lambda: Trajectories(**arrays)))
