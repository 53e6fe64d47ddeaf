"""Tables that are read, and hold what no log may hold."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from tests.data.log_files import arrow, csv, feather
from tests.robustness.secret_logs import PROPENSITIES, ROWS, SOUND, Case, changed, first, table

nan, inf = float("nan"), float("inf")
DAYS = pa.array([datetime.date(1999, 12, 31)] * ROWS)
TIMES = pa.array([datetime.datetime(1999, 12, 31, row) for row in range(ROWS)])
REFUSED = ("--missing", "refuse")
LISTS = pa.array([["SECRET"]] * ROWS)
STRUCTS = pa.array([{"SECRET": 8675309}] * ROWS)
MAPS = pa.array([[("SECRET", 1)]] * ROWS, pa.map_(pa.string(), pa.int8()))
BYTES = pa.array([b"SECRET"] * ROWS)
ZONED = TIMES.cast(pa.timestamp("us", "America/SECRET"))
EMPTY = pa.nulls(ROWS)
NAMES = ["SECRET"] * ROWS
WORDS = pa.array(NAMES).dictionary_encode()
INTERVALS = pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval())
RUNS = pa.RunEndEncodedArray.from_arrays([6, ROWS], [8675309, 1])
TWINS = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 4), pa.array(["SECRET", "SECRET", "SECRET-2"]))
LARGE_IDS = [16_777_216 + row % 2 for row in range(ROWS)]
HALF = (0.5, 0.5)


def propensities(changes: dict[str, Any], *words: str) -> Case:
    return table({**PROPENSITIES, **changes}, *words)


def at_first(*values: float) -> dict[str, list[float]]:
    """Propensities of every action, the first row as given."""
    return {name: [value, *[0.5] * (ROWS - 1)] for name, value in zip(PROPENSITIES, values, strict=True)}


def twice(name: str) -> Any:
    def write(logs: pa.Table, folder: Any) -> Any:
        return arrow(pa.Table.from_arrays([*logs.columns, logs[name]], names=[*logs.column_names, name]), folder)

    return write


def declared(*actions: str) -> Any:
    """A CSV file beside a layout that declares the actions."""

    def write(logs: pa.Table, folder: Any) -> Any:
        (folder / "layout.toml").write_text(f"actions = {list(actions)}\n")
        return csv(logs, folder)

    return write


LAYOUT = ("--layout", "{folder}/layout.toml")
TABLES: dict[str, Case] = {
    # Episodes
    "no episodes": table({"episode": None}, "column 'episode' is missing"),
    "null episode": table({"episode": first(None, "episode")}, "'episode' is null or NaN in 1 row, first row 1"),
    "NaN episode": table({"episode": [nan, *range(1, ROWS)]}, "'episode' is null or NaN in 1 row"),
    "only null episodes": table({"episode": EMPTY}, "'episode' is null or NaN in 12 rows"),
    "lists as episodes": table({"episode": LISTS}, "'episode' is list", "give ids as text"),
    "structs as episodes": table({"episode": STRUCTS}, "'episode' is struct"),
    "maps as episodes": table({"episode": MAPS}, "'episode' is map"),
    "intervals as episodes": table({"episode": INTERVALS}, "'episode' is month_day_nano_interval", write=arrow),
    "runs as episodes": table({"episode": RUNS}, "'episode' is run_end_encoded", write=arrow),
    "a dictionary that holds an id twice": table(
        {"episode": TWINS, "step": [0] * ROWS}, "repeat an earlier pair in 10 rows", write=arrow
    ),
    "episodes twice": table({}, "'episode' occurs 2 times", write=twice("episode")),
    "one episode": table({"episode": NAMES, "step": list(range(ROWS))}, "there is one episode"),
    "missing episodes in CSV": table({"episode": first(None, "episode")}, "'episode' is null", write=csv),
    # Steps
    "no steps": table({"step": None}, "column 'step' is missing"),
    "null step": table({"step": first(None, "step")}, "'step' is null, NaN or infinite in 1 row, first row 1"),
    "infinite step": table({"step": first(inf, "step")}, "'step' is null, NaN or infinite in 1 row"),
    "only null steps": table({"step": EMPTY}, "'step' is null, NaN or infinite in 12 rows"),
    "text as steps": table({"step": NAMES}, "'step' is text, not a number or time, in 12 rows"),
    "one word among the steps of CSV": table(
        {"step": ["SECRET", *map(str, SOUND["step"][1:])]}, "'step' is text", "in 1 row, first row 1", write=csv
    ),
    "bytes as steps": table({"step": BYTES}, "'step' is binary"),
    "lists as steps": table({"step": LISTS}, "'step' is list"),
    "intervals as steps": table({"step": INTERVALS}, "of a type that cannot be used", write=arrow),
    "the same day throughout": table({"step": DAYS}, "repeat an earlier pair in 8 rows, first row 2"),
    "repeated steps": table({"step": [0] * ROWS}, "repeat an earlier pair in 8 rows, first row 2"),
    "repeated rows in CSV": table({"step": [0] * ROWS}, "repeat an earlier pair", write=csv),
    "steps twice": table({}, "'step' occurs 2 times", write=twice("step")),
    # Contexts
    "no context": table({"age": None}, "no context columns"),
    "null feature": table({"age": first(None, "age")}, "'age' is null, NaN or infinite in 1 row", flags=REFUSED),
    "NaN feature": table({"age": first(nan, "age")}, "'age' is null, NaN or infinite in 1 row", flags=REFUSED),
    "infinite feature": table({"age": first(-inf, "age")}, "'age' is infinite in 1 row"),
    "infinite feature in CSV": table({"age": first(-inf, "age")}, "'age' is infinite in 1 row", write=csv),
    "feature beyond single precision": table({"age": first(8675309e60, "age")}, "too large for single precision"),
    "only null features": table({"age": EMPTY}, "'age' is without a value in any row"),
    "no gaps wanted": table({"age": EMPTY}, "'age' is null, NaN or infinite in 12 rows", flags=REFUSED),
    "the same text as a feature": table({"age": NAMES}, "'age' is the same in every row: left out"),
    "one word in a feature of CSV": table({"age": ["SECRET", *["1"] * 11]}, "text", "in 1 row", write=csv),
    "one category as a feature": table({"age": WORDS}, "no context columns", write=feather),
    "free text as a feature": table({"age": [f"SECRET {'x' * 99} {row}" for row in range(ROWS)]}, "free text in 12"),
    "gaps in text": table({"age": [None, *"ababababab", "SECRET"]}, "'age' is missing in 1 row", flags=REFUSED),
    "an order of others": table({"age": NAMES}, "its order names", flags=("--ordinal", "age=low<high")),
    "an order of nothing": table({}, "--ordinal must name a column", flags=("--ordinal", "age")),
    "a formula of secrets": table({}, "no formula of columns", flags=("--reward", "__import__('os')")),
    "a formula of a column that is not there": table({}, "'cost' is missing", flags=("--reward", "reward - cost")),
    "a formula of the context": table(
        {}, "reward and as context", flags=("--reward", "reward-age", "--context", "age")
    ),
    "an unknown way with gaps": table({}, "--missing must be", flags=("--missing", "guess")),
    "an origin that is no date": table({}, "--origin must be a date", flags=("--origin", "SECRET")),
    "times of a day as a feature": table({"age": pa.array(range(ROWS), pa.time32("s"))}, "'age' is time32[ms], not a"),
    "the same day as a feature of CSV": table({"age": DAYS}, "'age' is the same in every row", "--origin", write=csv),
    "lists as a feature": table({"age": LISTS}, "'age' is list, not a number"),
    "structs as a feature": table({"age": STRUCTS}, "'age' is struct, not a number"),
    "bytes as a feature": table({"age": BYTES}, "'age' is binary, not a number"),
    "constant feature": table({"age": [8675309.5] * ROWS}, "'age' is the same in every row: left out"),
    "ids that single precision cannot tell": table({"age": LARGE_IDS}, "'age' has numbers", "2^24", "offset"),
    "such ids in CSV": table({"age": LARGE_IDS}, "'age' has numbers", "2^24", write=csv),
    "more such ids": table({"age": [8675309 * 10**10 + row for row in range(ROWS)]}, "'age' has numbers", "2^24"),
    "numbers too small for single precision": table({"age": [8675309e-80] * 11 + [0.0]}, "cannot tell apart"),
    "features twice": table({}, "'age' occurs 2 times", write=twice("age")),
    "a feature without a name": table({"": list(range(ROWS))}, "a column has no name"),
    "a feature that is not there": table({}, "'weight' is missing", flags=("--context", "age,weight")),
    "a feature named twice": table({}, "'age' is named as context and as context", flags=("--context", "age,age")),
    "the reward as a feature": table({}, "named as reward and as context", flags=("--context", "age,reward")),
    # Actions
    "no actions": table({"action": None}, "column 'action' is missing"),
    "null action": table({"action": first(None, "action")}, "'action' is null or NaN in 1 row"),
    "NaN action": table({"action": [nan, *[0.0, 1.0] * 5, 0.0]}, "'action' is null or NaN in 1 row"),
    "fractional actions": table({"action": [8675309.5, *[0.0, 1.0] * 5, 0.0]}, "not a whole number in 1 row"),
    "fractional decimals": table({"action": [Decimal("8675309.5")] * ROWS}, "the same in every row (12)"),
    "infinite actions": table({"action": [inf, *[0.0, 1.0] * 5, 0.0]}, "not a whole number in 1 row"),
    "actions beyond all tables": table({"action": [8675309e60, 1.0] * 6}, "beyond 2^63 in 6 rows"),
    "fractions of half precision": table({"action": np.array([0.5, 1] * 6, np.float16)}, "not a whole number in 6"),
    "times as actions": table({"action": TIMES}, "'action' is timestamp[us] in 12 rows"),
    "bytes as actions": table({"action": BYTES}, "'action' is binary"),
    "structs as actions": table({"action": STRUCTS}, "'action' is struct"),
    "one action": table({"action": NAMES}, "the action is the same in every row (12)"),
    "one action of CSV": table({"action": NAMES}, "the action is the same in every row", write=csv),
    "actions that were not declared": table(
        {}, "outside the declared actions in 12 rows, first row 1", "2 other values", write=declared("a"), flags=LAYOUT
    ),
    "an action that was not declared": table(
        {}, "in 6 rows, first row 2", "that other value", write=declared("SECRET-wait"), flags=LAYOUT
    ),
    "another column as the action": table(
        {},
        "outside the declared actions in 12 rows",
        "4 other values",
        write=lambda logs, folder: declared("a")(logs.rename_columns(["action", *"xy", "episode", "reward"]), folder),
        flags=LAYOUT,
    ),
    # Rewards
    "no rewards": table({"reward": None}, "column 'reward' is missing"),
    "nearly a name": table({"reward": None, "Reward": [0.5] * ROWS}, "did you mean 'Reward'", write=csv),
    "null reward": table({"reward": first(None, "reward")}, "'reward' is null, NaN or infinite in 1 row"),
    "infinite reward": table({"reward": first(inf, "reward")}, "'reward' is null, NaN or infinite in 1 row"),
    "text as a reward": table({"reward": NAMES}, "'reward' is text, not a number, in 12 rows"),
    "text as a reward of CSV": table({"reward": NAMES}, "'reward' is text, not a number", write=csv),
    "times as a reward": table({"reward": TIMES}, "'reward' is timestamp[us]"),
    "lists as a reward": table({"reward": LISTS}, "'reward' is list"),
    "rewards near the largest number": table({"reward": [8.675309e307] * ROWS}, "'reward' is beyond 1e+60 in 12 rows"),
    "one such reward": table({"reward": first(-8.675309e307, "reward")}, "'reward' is beyond 1e+60 in 1 row"),
    "such rewards in CSV": table({"reward": [1.7e308, -1.7e308] * 6}, "'reward' is beyond 1e+60", write=csv),
    # Propensities
    "propensity of 0": table({"propensity": [0.0, *[0.5] * 11]}, "'propensity' lies outside (0, 1] in 1 row"),
    "propensity above 1": table({"propensity": [8675309.0, *[0.5] * 11]}, "'propensity' lies outside (0, 1]"),
    "negative propensity": table({"propensity": [-0.5, *[0.5] * 11]}, "'propensity' lies outside (0, 1]"),
    "NaN propensity": table({"propensity": [nan, *[0.5] * 11]}, "'propensity' is null, NaN or infinite"),
    "propensity in per cent": table({"propensity": [50] * ROWS}, "'propensity' lies outside (0, 1] in 12 rows"),
    "text as propensity": table({"propensity": NAMES}, "'propensity' is text"),
    "lists as propensity": table({"propensity": LISTS}, "'propensity' is list"),
    "propensity that is not there": table({}, "column 'p' is missing", flags=("--propensity", "p")),
    "one propensity too many": table(
        {name: [0.5] * ROWS for name in "pqr"}, "3 propensity columns", flags=("--propensity", "p,q,r")
    ),
    "the reward as propensity": table({}, "named as reward and as propensity", flags=("--propensity", "reward")),
}

# Here the names of actions are names of columns too, which messages may quote.
NAMED_BY_ACTIONS: dict[str, Case] = {
    "propensities that do not sum to 1": propensities(at_first(0.5, 0.6), "do not sum to 1 in 1 row"),
    "propensities outside": propensities(at_first(-0.5, 1.5), "lies outside [0, 1] in 1 row"),
    "propensity 0 of what was done": propensities(at_first(1.0, 0.0), "the probability 0 in 1 row"),
    "NaN propensities": propensities(at_first(nan, 0.5), "is null, NaN or infinite in 1 row"),
    "propensities of two kinds": propensities({"propensity": [0.5] * ROWS}, "could be propensities too"),
    "an action without a propensity": propensities(
        {"action": first("nobody", "action")}, "outside the declared actions in 1 row", "that other value"
    ),
    "propensities of nobody": Case(
        lambda folder: csv(changed({**PROPENSITIES, "action": [0, 1] * 6}), folder), ("outside the declared actions",)
    ),
}
