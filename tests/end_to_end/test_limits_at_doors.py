"""The table of docs/guides/limits.md: rows of guardrails, spend, capacity, loss and ends, made by every door."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.end_to_end.test_limits_table import DOORS, rows_of_page

from poela.cli import main
from poela.serving.decisions import Answering
from poela.serving.export import onnx_model
from poela.serving.source import open_policy
from poela.studies.study import Study

LEARN = ["--learners", "fittedq", "--no-rule", "--backend", "inline", "--folds", "2", "--context", "age"]


def table(n: int = 400, seed: int = 0, lost: float = 0.0) -> pa.Table:
    """The drug is best for all and harms nobody."""
    rng = np.random.default_rng(seed)
    drug = rng.random(n) < 0.5
    reward = np.where(rng.random(n) < lost, np.nan, drug + 0.1 * rng.normal(size=n))
    columns = {
        "age": rng.uniform(20, 80, n),
        "action": np.where(drug, "drug", "wait"),
        "reward": pa.array(reward, from_pandas=True),
        "harm": (rng.random(n) < 0.1).astype(float),
        "propensity_wait": np.full(n, 0.5),
        "propensity_drug": np.full(n, 0.5),
    }
    return pa.table(columns)


def ending(n: int = 600, seed: int = 0) -> pa.Table:
    """Cases of four visits; half of them end at the second, and rows go on."""
    whole = table(4 * n, seed)
    visit, case = np.tile(np.arange(4), n), np.repeat(np.arange(n), 4)
    died = ((visit == 1) & (case % 2 == 0)).astype(int)
    return whole.append_column("episode", [case]).append_column("step", [visit]).append_column("died", [died])


@dataclass(frozen=True)
class Row:
    """A row of the page: what is said, and the same but impossible to keep."""

    flags: tuple[str, ...]
    beyond: tuple[str, ...] = ()
    log: Callable[..., pa.Table] = table
    keeps: str = ""  # what a page and an evaluation say of it


ROWS = {
    "`--guard`": Row(("--guard", "harm <= +0.2"), ("--guard", "harm <= -0.5"), keeps="harm"),
    "`--cost`, `--spend`": Row(
        ("--cost", "drug=2", "--spend", "2.5"), ("--cost", "drug=2", "--spend", "0.01"), keeps="spend per case"
    ),
    "`--capacity`": Row(("--capacity", "drug=400/400"), ("--capacity", "drug=1/400"), keeps="drug per case"),
    "`--missing censored`, `--censored`": Row(
        ("--missing", "censored"), log=lambda seed=0: table(seed=seed, lost=0.2), keeps="not seen"
    ),
    "`--end`, `--horizon`": Row(("--end", "died", "--horizon", "2"), log=ending),
}


@dataclass(frozen=True)
class Made:
    """A study that was learned under a limit, and what was printed of it."""

    name: str
    folder: Path
    capsys: Any

    @property
    def row(self) -> Row:
        return ROWS[self.name]

    @property
    def study(self) -> Study:
        return Study.open(self.folder / "study")

    def run(self, *arguments: object) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main([str(one) for one in arguments])
        printed = self.capsys.readouterr()
        return code, " ".join(printed.out.split())

    def learn(self, out: str, *more: str) -> int:
        return self.run("learn", self.folder / "logs.parquet", "--out", self.folder / out, *LEARN, *more)[0]


@pytest.fixture(params=ROWS)
def made(request: pytest.FixtureRequest, tmp_path: Path, capsys: Any) -> Made:
    one = Made(request.param, tmp_path, capsys)
    pq.write_table(one.row.log(), tmp_path / "logs.parquet")
    pq.write_table(one.row.log(seed=1), tmp_path / "later.parquet")
    pq.write_table(pa.table({"age": [30.0, 50.0, 70.0], "case": ["a", "b", "c"]}), tmp_path / "new.parquet")
    assert one.learn("study", *one.row.flags) == 0
    assert not one.study.keeps_logging_policy
    return one


def in_learning(made: Made) -> str:
    study = made.study
    if made.row.beyond:
        assert [one.guard.limit is not None for one in study.result.guards] == [True]  # type: ignore[union-attr]
        assert made.learn("beyond", *made.row.beyond) == 0
        assert Study.open(made.folder / "beyond").keeps_logging_policy
    elif "--end" in made.row.flags:
        assert study.record.logging_policy.value == pytest.approx(1.25, abs=0.1)  # 2 decisions of some, 3 of others
    else:
        assert study.record.data.lost == pytest.approx(0.2, abs=0.06)
        assert study.answer.kind == "worth a trial"
    return "yes"


def in_evaluation(made: Made) -> str:
    code, told = made.run("evaluate", made.folder / "study", "--logs", made.folder / "later.parquet")
    assert code == 0
    assert made.row.keeps in told
    if made.row.beyond:
        assert "Guardrails on these logs" in told
        return "yes, each by itself"
    if "--end" in made.row.flags:
        code, told = made.run("evaluate", made.folder / "study", "--logs", made.folder / "later.parquet", "--json")
        assert json.loads(told)["estimate"]["diagnostics"]["n_steps"] == 300 * 2 + 300 * 3
    return "yes, by itself"


def in_decisions(made: Made) -> str:
    rows, out = made.folder / "new.parquet", made.folder / "new.csv"
    decide = ["decide", made.folder / "study", "--rows", rows, "--out", out, "--overwrite"]
    if "step" not in made.study.policy.table_schema.context and "--end" not in made.row.flags:
        assert made.run(*decide)[0] == 0
    if made.name == "`--capacity`" or made.name == "`--cost`, `--spend`":
        limit = ["--capacity", "drug=1"] if made.name == "`--capacity`" else ["--spend", "0.7"]
        code, _ = made.run(*decide, *limit, "--unproven")
        assert code == 0
        assert out.read_text().count('"drug"') == 1
        return "and batches"
    return "passed" if made.row.beyond else "-"


def the_same(made: Made, drug: Any, ages: Any) -> str:
    """Whether these are the chances of the policy that was judged."""
    wanted = list(made.study.policy.action_names).index("drug")
    known = made.study.policy.probabilities(np.asarray(ages, np.float32)[:, None])[:, wanted]
    np.testing.assert_allclose(drug, known, atol=1e-5)
    return "passed" if made.row.beyond else "-"


def in_serving(made: Made) -> str:
    if "--end" in made.row.flags:
        return "-"
    answering = Answering(open_policy(made.folder / "study"))
    cases = [{"id": str(age), "features": {"age": age}} for age in (30.0, 70.0)]
    (answers,) = answering.decided([answering.form.parsed(json.dumps({"cases": cases}).encode())])
    return the_same(made, [one["propensities"]["drug"] for one in answers], [30.0, 70.0])


def in_exports(made: Made) -> str:
    import onnxruntime

    if "--end" in made.row.flags:
        return "-"
    model, metadata = onnx_model(made.study.policy, "all", {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = np.array([[30.0], [70.0]], np.float32)
    drug = json.loads(metadata["action_names"]).index("drug")
    return the_same(made, session.run(["probabilities"], {"contexts": given})[0][:, drug], given[:, 0])


def in_reports(made: Made) -> str:
    page = made.folder / "page.html"
    assert made.run("report", made.folder / "study", "--logs", made.folder / "logs.parquet", "--out", page)[0] == 0
    assert made.row.keeps in page.read_text(encoding="utf-8")
    return "yes"


def in_resuming(made: Made) -> str:
    before = made.study.settings.selection
    code = made.learn("study", "--resume")
    if made.row.beyond:
        assert code == 0
        assert made.study.settings.selection == before
        return "kept"
    assert code == 2
    assert made.learn("study", "--resume", *made.row.flags) == 0
    return "say again"


def in_files(made: Made) -> str:
    study = made.study
    selection, layout = study.settings.selection, study.record.data.layout
    said = (*selection.rails, layout.censored, layout.loses_missing, layout.end, layout.horizon)
    assert sum(bool(one) for one in said) == (2 if "--end" in made.row.flags else 1)
    return "yes"


PROBES = (in_learning, in_evaluation, in_decisions, in_serving, in_exports, in_reports, in_resuming, in_files)


def test_the_page_says_where_limits_are_honoured(made: Made) -> None:
    """If this fails: the message is the row that the page should have."""
    (row,) = [row for row in rows_of_page() if row[0] == made.name]
    assert len(PROBES) == len(DOORS)
    cells = [probe(made) for probe in PROBES]
    assert row[1:] == cells, f"write | {' | '.join([row[0], *cells])} |"
