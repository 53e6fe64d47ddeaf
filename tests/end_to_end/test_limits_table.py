"""The table of docs/guides/limits.md: where each limit is honoured. Rows of allowed actions are made here."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import poela
from poela import InputError
from poela.cli import main
from poela.serving.decisions import Answering
from poela.serving.export import onnx_model
from poela.serving.pyfunc import PolicyModel
from poela.serving.source import open_policy
from poela.studies.study import Study

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "limits.md"
ALLERGIC = {"age": [40.0, 50.0], "allergy": ["yes", "no"], "open": ["wait;drug", "wait;drug"]}
FLAGS = {"--forbid": ["--forbid", "drug if allergy == 'yes'"], "--allowed": ["--allowed", "open"]}
LEARN = ["--learners", "fittedq", "--no-rule", "--backend", "inline", "--folds", "2", "--context", "age"]


def table(n: int = 400, seed: int = 0) -> pa.Table:
    """Nobody with an allergy gets the drug, which is best for all; a column says the same."""
    rng = np.random.default_rng(seed)
    allergic = rng.random(n) < 0.3
    drug = ~allergic & (rng.random(n) < 0.5)
    chance = np.where(allergic, 0.0, 0.5)
    return pa.table(
        {
            "age": rng.uniform(20, 80, n),
            "allergy": np.where(allergic, "yes", "no"),
            "open": np.where(allergic, "wait", "wait;drug"),
            "action": np.where(drug, "drug", "wait"),
            "reward": drug + 0.1 * rng.normal(size=n),
            "propensity_wait": 1 - chance,
            "propensity_drug": chance,
        }
    )


def broken() -> pa.Table:
    """The same, but for one allergic case who got the drug."""
    whole = table(seed=1)
    row = whole["allergy"].to_pylist().index("yes")
    columns = {name: whole[name].to_pylist() for name in whole.column_names}
    for name, value in {"action": "drug", "propensity_wait": 0.5, "propensity_drug": 0.5}.items():
        columns[name][row] = value
    return pa.table(columns)


@dataclass(frozen=True)
class Learned:
    """A study that was learned on the command line under one limit."""

    flag: list[str]
    folder: Path

    @property
    def study(self) -> Path:
        return self.folder / "study"

    def run(self, *arguments: object) -> int:
        return main([str(one) for one in arguments])


@pytest.fixture(scope="module", params=FLAGS)
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    folder = tmp_path_factory.mktemp("limits")
    for name, one in {"logs": table(), "later": table(seed=1), "broken": broken()}.items():
        pq.write_table(one, folder / f"{name}.parquet")
    made = Learned(FLAGS[request.param], folder)
    assert made.run("learn", folder / "logs.parquet", "--out", made.study, *made.flag, *LEARN) == 0
    assert not Study.open(made.study).keeps_logging_policy
    return made


def new_cases(learned: Learned, **changed: Any) -> pa.Table:
    """A case in which the drug is forbidden, by either limit, and one in which it is not."""
    columns = {"age": [40.0, 50.0], "allergy": ["yes", "no"], "open": ["wait", "wait;drug"], "case": ["a", "b"]}
    return pa.table(columns | changed)


def in_learning(learned: Learned) -> str:
    again = [learned.folder / "broken.parquet", "--out", learned.folder / "none", *learned.flag, *LEARN]
    assert learned.run("learn", *again) == 2
    logs = poela.read_logs(learned.folder / "logs.parquet", **python(learned))
    forbidden = logs.contexts[:, logs.feature_names.index("drug forbidden")] > 0
    drug = Study.open(learned.study).policy.along(logs)[:, logs.action_names.index("drug")]
    assert (drug[forbidden] == 0).all()
    assert drug[~forbidden].mean() > 0.5
    return "yes, checks the log"


def python(learned: Learned) -> dict[str, Any]:
    name, value = learned.flag
    own = {"forbid": [value]} if name == "--forbid" else {"allowed": value}
    return {"context": ["age"]} | own


def in_evaluation(learned: Learned) -> str:
    assert learned.run("evaluate", learned.study, "--logs", learned.folder / "later.parquet") == 0
    assert learned.run("evaluate", learned.study, "--logs", learned.folder / "broken.parquet") == 2
    other = ["--forbid", "wait if age > 99"]
    assert learned.run("evaluate", learned.study, "--logs", learned.folder / "later.parquet", *other) == 2
    return "yes, checks the log"


def in_decisions(learned: Learned) -> str:
    rows = learned.folder / "new.parquet"
    pq.write_table(new_cases(learned), rows)
    assert learned.run("decide", learned.study, "--rows", rows, "--out", learned.folder / "new.csv", "--overwrite") == 0
    lists = new_cases(learned, open=[["wait"], ["wait", "drug"]])
    first, second = Study.open(learned.study).decide(lists).to_pylist()
    if learned.flag[0] == "--allowed":
        assert (first["open"], second["open"]) == ("wait", "wait;drug")
    assert (first["action"], first["propensity_drug"], first["barred"]) == ("wait", 0.0, "drug")
    assert second["propensity_drug"] > 0.5
    closed = Study.open(learned.study).decide(new_cases(learned, open=[[], ["wait"]])).to_pylist()[0]
    if learned.flag[0] == "--allowed":
        assert closed["action"] is None
        assert closed["defer"]
        assert closed["note"].startswith("no action is allowed")
    return "yes"


def in_serving(learned: Learned) -> str:
    answering = Answering(open_policy(learned.study))
    (asked,) = {"forbid": ["allergy"], "allowed": ["open"]}[learned.flag[0][2:]]
    rows = new_cases(learned).to_pylist()
    cases = [{"id": row["case"], "features": {name: row[name] for name in ("age", asked)}} for row in rows]
    (answers,) = answering.decided([answering.form.parsed(json.dumps({"cases": cases}).encode())])
    assert answers[0]["action"] == "wait"
    assert [answer["propensities"]["drug"] > 0 for answer in answers] == [False, True]
    cases[0]["features"][asked] = None  # not known
    (answers,) = answering.decided([answering.form.parsed(json.dumps({"cases": cases}).encode())])
    assert not answers[0]["propensities"]["drug"]
    return "yes: send the columns"


def in_exports(learned: Learned) -> str:
    import onnxruntime

    policy = Study.open(learned.study).policy
    model, metadata = onnx_model(policy, "all", {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    features = json.loads(metadata["feature_names"])
    assert "drug forbidden" in features
    contexts = np.zeros((2, len(features)), np.float32)
    contexts[:, features.index("age")] = 45.0
    contexts[0, features.index("drug forbidden")] = 1.0
    chances = session.run(["probabilities"], {"contexts": contexts})[0]
    drug = json.loads(metadata["action_names"]).index("drug")
    assert (chances[0, drug], chances[0, 1 - drug]) == (0.0, 1.0)
    assert chances[1, drug] > 0.5
    decided = PolicyModel(policy).predict(new_cases(learned).to_pandas())
    assert decided["propensity_drug"][0] == 0
    return "as features"


def in_reports(learned: Learned) -> str:
    page = learned.folder / "page.html"
    logs = learned.folder / "logs.parquet"
    assert learned.run("report", learned.study, "--logs", logs, "--out", page, "--overwrite") == 0
    assert "Never what is not allowed" in page.read_text(encoding="utf-8")
    return "yes"


def in_resuming(learned: Learned) -> str:
    again = ["learn", learned.folder / "logs.parquet", "--out", learned.study, *LEARN, "--resume"]
    assert learned.run(*again, *learned.flag) == 0
    assert learned.run(*again) == 2
    return "say again"


def in_files(learned: Learned) -> str:
    before = Study.open(learned.study)
    limits = before.policy.table_schema.limits
    assert limits is not None
    assert limits.said == before.record.data.layout.schema.limits.said  # type: ignore[union-attr]
    before.policy.save(learned.folder / "policy", overwrite=True)
    kept = poela.load_policy(learned.folder / "policy")
    assert kept.table_schema.limits == limits
    forbidden = np.ones((1, len(kept.feature_names)), np.float32)
    if learned.flag[0] == "--allowed":  # nothing is open there
        with pytest.raises(InputError, match="no action is allowed in 1 row"):
            kept.probabilities(forbidden)
    else:
        assert kept.probabilities(forbidden)[0, kept.action_names.index("drug")] == 0
    return "yes"


DOORS: dict[str, Callable[[Learned], str]] = {
    "learn": in_learning,
    "evaluate": in_evaluation,
    "decide": in_decisions,
    "serve": in_serving,
    "export": in_exports,
    "report": in_reports,
    "resume": in_resuming,
    "stored": in_files,
}


def rows_of_page() -> list[list[str]]:
    found = re.search(r"## Where each is honoured\n\n((?:\|.*\n?)+)", PAGE.read_text(encoding="utf-8"))
    assert found
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in found[1].splitlines()]


def test_the_page_says_where_allowed_actions_are_honoured(learned: Learned) -> None:
    (row,) = [row for row in rows_of_page() if row[0] == f"`{learned.flag[0]}`"]
    made = [probe(learned) for probe in DOORS.values()]
    assert row[1:] == made, f"write | {' | '.join([row[0], *made])} |"


def test_every_row_has_a_cell_for_every_door() -> None:
    header, line, *rows = rows_of_page()
    assert header == ["", *DOORS]
    assert all(len(row) == len(header) and all(row) for row in (line, *rows))
