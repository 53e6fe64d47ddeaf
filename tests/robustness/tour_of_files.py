"""Hostile cases of files and folders, for the tour: studies, policies, bombs, real-valued logs, arrays, pages."""

import html
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.robustness import fuzz_policies, fuzz_studies
from tests.robustness.secret_logs import SECRETS

from poela import InputError, PoelaError, Trajectories, read_logs
from poela.data import unpacking
from poela.learners.consensus import Consensus
from poela.report.blocks import Section, Text, named
from poela.report.numbers.judged import histogram, told
from poela.report.page import Page, page_place, write_page
from poela.report.pictures.drawing import clean
from poela.serving.export import export_onnx


def policies(rng: np.random.Generator, count: int) -> None:
    """Policies with odd values in them, and the right checksums."""
    assert fuzz_policies.fuzz(inf, int(rng.integers(2**31)), most=count).total() == count


def studies(rng: np.random.Generator, count: int) -> None:
    """Studies with odd values in them, and the right checksums."""
    assert fuzz_studies.fuzz(inf, int(rng.integers(2**31)), most=count) >= count


def bombs(rng: np.random.Generator, count: int) -> None:
    """Small Parquet and Arrow files that unpack to much more than they are."""
    usual = unpacking.SMALL, unpacking.MOST_TIMES
    unpacking.SMALL, unpacking.MOST_TIMES = 1 << 18, 5
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(count):
                _refused_bomb(rng, Path(folder))
    finally:
        unpacking.SMALL, unpacking.MOST_TIMES = usual


def _refused_bomb(rng: np.random.Generator, folder: Path) -> None:
    rows, letters = int(rng.integers(500, 5000)), int(rng.integers(600, 3000))
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * letters]))
    text = column if rng.random() < 0.5 else column.cast(pa.string())
    table = pa.table({"episode": np.arange(rows), "action": text, "reward": np.zeros(rows)})
    if rng.random() < 0.5:
        path = folder / "bomb.parquet"
        pq.write_table(table, path, store_schema=False, compression=str(rng.choice(["zstd", "gzip"])))
    else:
        path = folder / "bomb.arrow"
        how = pa.ipc.IpcWriteOptions(compression=str(rng.choice(["zstd", "lz4"])))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=how) as writer:
            writer.write_table(table)
    said = refusal(lambda: read_logs(path, context=[]))
    assert "times its size" in said, (path.name, path.stat().st_size, said)


def refusal(work: Callable[[], object]) -> str:
    """What is said where something is refused; empty where it is not."""
    try:
        work()
    except PoelaError as error:
        return str(error)
    return ""


ODD = (None, float("nan"), float("inf"), -1e308, 1e-320, 0.0, -1.0, 2.0**60, 0.5)


def doses(rng: np.random.Generator, count: int) -> None:
    """Logs of real-valued actions with odd cells: read, or refused without a value."""
    for _ in range(count):
        n = int(rng.integers(2, 30))
        columns: dict[str, Any] = {
            name: rng.normal(size=n).tolist() for name in ("age", "dose", "log_density", "reward")
        }
        for _ in range(rng.integers(0, 3)):
            name = str(rng.choice(list(columns)))
            columns[name][rng.integers(n)] = ODD[rng.integers(len(ODD))]
        if rng.random() < 0.2:
            columns[str(rng.choice(list(columns)))] = [SECRETS[0]] * n
        table = pa.table({"episode": np.sort(rng.integers(0, n, n)), "step": np.arange(n), **columns})
        said = refusal(partial(read_logs, table, action="dose", log_density="log_density", context=["age"]))
        assert not any(secret in said for secret in SECRETS), said


def arrays(rng: np.random.Generator, count: int) -> None:
    """Arrays as d3rlpy has them, of odd types, lengths and values."""
    for _ in range(count):
        n = int(rng.integers(1, 20))
        given: dict[str, Any] = {
            "observations": rng.normal(size=(n, 2)),
            "actions": rng.integers(0, 3, n),
            "rewards": rng.normal(size=n),
            "terminals": rng.random(n) < 0.3,
        }
        for _ in range(rng.integers(0, 3)):
            name = str(rng.choice(list(given)))
            value = np.array(given[name], dtype=object)
            if rng.random() < 0.7 and not isinstance(value.ravel()[0], str):
                value = value.astype(np.float64)
            kind = rng.integers(4)
            if kind == 0:
                value = value[: rng.integers(n)]
            elif kind == 1:
                value.ravel()[rng.integers(value.size) :] = ODD[1:][rng.integers(len(ODD) - 1)]
            elif kind == 2:
                value = value[None]
            else:
                value = value.astype(str)
            given[name] = value if value.size else given[name]
        with suppress(PoelaError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert isinstance(Trajectories.from_mdp_arrays(**given), Trajectories)


def few(rng: np.random.Generator, count: int) -> None:
    """Bars and counts of any data: none tells of fewer than ten, nor the least or the largest value."""
    for _ in range(count):
        n = int(rng.integers(1, 300))
        values = np.round(rng.standard_cauchy(n) * 10.0 ** rng.integers(-3, 4), int(rng.integers(0, 3)))
        units = rng.integers(0, n, n) if rng.random() < 0.5 else np.arange(n)
        for bar in histogram(values, units):
            assert bar.cases.words.startswith("under") or bar.cases.number >= 10 or len(np.unique(units)) < 20
        counts = rng.integers(0, 40, rng.integers(1, 6)).tolist()
        for one, true in zip(told(counts), counts, strict=True):
            assert not 0 < one.number < 10
            assert abs(one.number - true) < 10


def names(rng: np.random.Generator, count: int) -> None:
    """Titles and texts of pages, which must not run."""
    pieces = [
        "<script>",
        "</title>",
        '"',
        "'",
        "{{ 7*7 }}",
        "{% raw %}",
        "\u202e",
        "\x00",
        "\ud800",
        "&#60;",
        "onload=",
        ">",
    ]
    for _ in range(count):
        text = "".join(pieces[one] for one in rng.integers(len(pieces), size=rng.integers(1, 6)))
        page = Page(text, clean(text), (Section("answer", "Answer", (Text(named(text)),), "about"),)).html()
        assert page.count("<script") == 1, ascii(text)
        assert "49" not in page or "7*7" in html.unescape(page)
        assert "\u202e" not in page, ascii(text)
        assert "\x00" not in page, ascii(text)


def writers(rng: np.random.Generator, count: int) -> None:
    """Everything in Python that writes a file, on a name that is a link, a pipe, a folder or the system's own."""
    from poela.simulators.registry import simulate

    policy = Consensus().fit(simulate("tumor", episodes=5))
    page = Page("t", "s", (Section("answer", "t", (Text("x"),), "a"),))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "mine").write_text("mine")
        (root / "link").symlink_to("mine")
        (root / "dangling").symlink_to("gone")
        os.mkfifo(root / "pipe")
        (root / "folder").mkdir()
        (root / "folder" / "mine").write_text("mine")
        before = sorted(map(str, root.rglob("*")))
        targets = [*(root / name for name in ("link", "dangling", "pipe", "folder")), "/dev/null", "/proc/self/x", ""]
        writes: list[Callable[[str], object]] = [
            lambda place: export_onnx(policy, place, overwrite=True),
            lambda place: write_page(page, place, overwrite=True),
            lambda place: page_place(place, overwrite=True),
            lambda place: policy.save(place),
        ]
        for _ in range(count):
            target = targets[rng.integers(len(targets))]
            try:
                writes[rng.integers(len(writes))](str(target))
            except InputError:
                continue
            raise AssertionError(f"{target} was written to")
        assert sorted(map(str, root.rglob("*"))) == before
        assert (root / "mine").read_text() == "mine"
