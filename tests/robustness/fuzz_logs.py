"""Mutated log files: reading them ends in logs or in a short sentence, and tells no secret.

    python tests/robustness/fuzz_logs.py --seconds 60 --seed 0

The last file that was tried is kept where the seconds end early, since a reader in C++ may die without a word.
"""

import argparse
import faulthandler
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))  # for a script, the root of the repository is not on the path

from tests.data.log_files import Write, arrow, arrow_stream, compressed_csv, csv, feather, parquet
from tests.robustness.secret_logs import ROWS, SECRETS, SOUND, changed

from poela import LogLayout, PoelaError, Trajectories, read_logs
from poela.data.opening import open_source
from poela.data.words import quoted

Mutation = Callable[[bytearray, np.random.Generator], bytearray]
WRITERS: tuple[Write, ...] = (parquet, csv, compressed_csv, arrow, arrow_stream, feather)
LONGEST_MESSAGE = 4096
PARTS = {"episode", "step", "action", "reward"}
# Names of columns may be told, so that here the actions are no secret.
WITH_PROPENSITIES = {"action": ["a", "b"] * 6, "propensity_a": [0.5] * ROWS, "propensity_b": [0.5] * ROWS}
ODD_VALUES = (None, float("nan"), float("inf"), -1e308, 0, -1, 2**53 + 1, "SECRET", "", True, 0.5, "1999-12-31")
ODD_TYPES = (
    pa.float16(),
    pa.int8(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
)


def flipped(content: bytearray, rng: np.random.Generator) -> bytearray:
    for position in rng.integers(0, len(content), rng.integers(1, 9)):
        content[position] ^= 1 << int(rng.integers(8))
    return content


def overwritten(content: bytearray, rng: np.random.Generator) -> bytearray:
    start = rng.integers(len(content))
    length = min(int(rng.integers(1, 65)), len(content) - int(start))
    content[start : start + length] = rng.bytes(length)
    return content


def truncated(content: bytearray, rng: np.random.Generator) -> bytearray:
    return content[: rng.integers(len(content))]


def spliced(content: bytearray, rng: np.random.Generator) -> bytearray:
    start, end, target = rng.integers(0, len(content) + 1, 3)
    piece = content[min(start, end) : max(start, end)]
    return content[:target] + piece + content[target + (len(piece) if rng.random() < 0.5 else 0) :]


def cut_out(content: bytearray, rng: np.random.Generator) -> bytearray:
    start = rng.integers(len(content))
    return content[:start] + content[start + rng.integers(1, 65) :]


MUTATIONS: tuple[Mutation, ...] = (flipped, overwritten, truncated, spliced, cut_out)


def mutated_table(rng: np.random.Generator) -> pa.Table:
    """The sound log with columns swapped, dropped, cast or full of odd values."""
    columns: dict[str, Any] = dict(SOUND) | (WITH_PROPENSITIES if rng.random() < 0.3 else {})
    for _ in range(rng.integers(0, 4)):
        name, other = rng.choice(list(columns), 2)
        kind = rng.integers(4)
        if kind == 0:
            columns[name], columns[other] = columns[other], columns[name]
        elif kind == 1 and len(columns) > 1:
            del columns[name]
        elif kind == 2:
            value = ODD_VALUES[rng.integers(len(ODD_VALUES))]
            rows = list(columns[name])
            columns[name] = _column([value if rng.random() < 0.5 else cell for cell in rows])
        else:
            columns[name] = _cast(_column(columns[name]), ODD_TYPES[rng.integers(len(ODD_TYPES))])
    return changed(dict.fromkeys(SOUND) | columns)


def _column(cells: Any) -> pa.Array:
    """Cells of several types become text."""
    try:
        return pa.array([cell.as_py() if isinstance(cell, pa.Scalar) else cell for cell in cells])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if cell is None else str(cell) for cell in cells])


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind, safe=False)
    except pa.ArrowException:
        return column.dictionary_encode()


def _header(path: Path) -> list[str]:
    """The names of columns, which messages may quote; a mutation may have put a cell among them."""
    names = open_source(path, LogLayout(), labels=()).names
    return names if len(PARTS & set(names)) >= len(PARTS) - 1 else []


def verdict(path: Path, **settings: Any) -> str:
    """What reading the file ended in; anything but logs or a short sentence without secrets is a failure."""
    try:
        assert isinstance(read_logs(path, **settings), Trajectories)
    except PoelaError as error:
        message = str(error).replace(str(path), "")
        shown = error.__cause__
    else:
        return "read"
    assert 0 < len(message) < LONGEST_MESSAGE, f"{len(message)} characters"
    for name in _header(path) if any(secret in message for secret in SECRETS) else ():
        message = message.replace(quoted(name), "")
    assert not any(secret in message for secret in SECRETS), message
    assert shown is None, "the error of a reader is shown too"
    return "refused"


def fuzz(seconds: float, seed: int, folder: Path | None = None, most: float = float("inf")) -> Counter[str]:
    """Read mutated files for some seconds, or so many, and count what came of it; the folder keeps the last one."""
    rng = np.random.default_rng(seed)
    place = folder or Path(tempfile.mkdtemp())
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end and counts["files"] < most:
        write = WRITERS[rng.integers(len(WRITERS))]
        table = mutated_table(rng) if rng.random() < 0.5 else changed({})
        path = Path(write(table, place))
        for _ in range(8):
            content = bytearray(path.read_bytes())
            for _ in range(rng.integers(0, 3)):
                content = MUTATIONS[rng.integers(len(MUTATIONS))](content or bytearray(b"\0"), rng)
            case = path.with_name(f"mutated{''.join(path.suffixes)}")
            case.write_bytes(content)
            settings = {} if rng.random() < 0.7 else {"actions": ["SECRET-wait"], "context": ["age"]}
            try:
                counts[verdict(case, for_learning=bool(rng.random() < 0.5), **settings)] += 1
            except BaseException as error:
                error.add_note(f"this was file {counts['files']} of seed {seed}")
                raise
            counts["files"] += 1
    return counts


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(description="Read mutated log files.")
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fuzzed-logs")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    faulthandler.enable()
    print(dict(fuzz(given.seconds, given.seed, given.folder)))


if __name__ == "__main__":
    main()
