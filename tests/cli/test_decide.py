"""`poela decide`: from a table with text and gaps to a study, and from there to a file of decisions."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from poela import InputError, LogLayout, Study, read_logs
from poela.cli import main
from poela.core.readable import readable
from poela.studies.outcome_unit import Outcome
from poela.studies.records import LikeliestRecord
from poela.studies.store import Store


def visits(n: int, seed: int) -> pa.Table:
    """Single decisions: 'treat' helps in the ward 'hot' and harms elsewhere; it is given by a coin."""
    rng = np.random.default_rng(seed)
    hot, treated = rng.random(n) < 0.5, rng.random(n) < 0.5
    lactate = rng.normal(size=n).round(3)
    columns = {
        "ward": np.where(hot, "hot", "cold"),
        "lactate": pa.array(lactate, mask=rng.random(n) < 0.1),
        "drug": np.where(treated, "treat", "wait"),
        "good": (hot == treated) * 1.0,
        "cost": treated * 0.5,
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("visits")
    content = pa.BufferOutputStream()
    pyarrow.csv.write_csv(visits(400, 0), content, pyarrow.csv.WriteOptions(delimiter=";", quoting_style="none"))
    text = content.getvalue().to_pybytes().decode().replace(".", ",")
    (folder / "visits.csv").write_text(text)
    flags = ["--action", "drug", "--reward", "good - 0.1*cost", "--learners", "fittedq", "--folds", "2"]
    assert (
        main(["learn", str(folder / "visits.csv"), "--out", str(folder / "study"), *flags, "--backend", "inline"]) == 0
    )
    return folder / "study"


def test_a_table_is_decided_as_the_policy_does(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = visits(300, 1).drop_columns(["drug", "good", "cost"])
    pyarrow.csv.write_csv(rows.select(["lactate", "ward"]), tmp_path / "rows.csv")
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert main(["decide", str(study), "--rows", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    assert "300 rows: treat 1" in capsys.readouterr().out
    flags = [
        "--rows",
        str(tmp_path / "rows.parquet"),
        "--out",
        str(tmp_path / "out.parquet"),
        "--keep",
        "ward",
        "--json",
    ]
    assert main(["decide", str(study), *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second = pyarrow.csv.read_csv(tmp_path / "out.csv"), pq.read_table(tmp_path / "out.parquet")
    assert (document["rows"], document["deferred"]) == (300, sum(second["defer"].to_pylist()))
    assert document["deferred"] < 6  # others like those of the log
    assert first["action"].to_pylist() == [one or "" for one in second["action"].to_pylist()]  # empty where deferred
    hot = np.array(second["ward"].to_pylist()) == "hot"
    assert (np.array(second["action"].to_pylist()) == np.where(hot, "treat", "wait")).mean() > 0.95
    opened = Study.open(study)
    table = opened.decide(tmp_path / "rows.parquet")
    np.testing.assert_array_equal(table["propensity_treat"], second["propensity_treat"])
    assert opened.policy.decide(rows).column_names == [name for name in table.column_names if name != "outcome"]
    # What came of the similar cases: treated hot ones had 1 - 0.05.
    known = [one for one, warm in zip(table["outcome"].to_pylist(), hot, strict=True) if warm and one is not None]
    assert np.mean(known) == pytest.approx(0.95, abs=0.02)


def test_the_same_file_gives_the_same_bytes_and_is_the_next_log(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pyarrow.csv.write_csv(visits(500, 4).select(["ward", "lactate"]), tmp_path / "rows.csv")
    for name in ("one.csv", "two.csv"):
        assert main(["decide", str(study), "--rows", str(tmp_path / "rows.csv"), "--out", str(tmp_path / name)]) == 0
    assert "with case ids, name it with" in capsys.readouterr().out
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    decided = pyarrow.csv.read_csv(
        tmp_path / "one.csv", convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    )
    head = ["row", "ward", "lactate", "action", "propensity_treat", "propensity_wait", "defer", "policy"]
    assert decided.column_names[: len(head)] == head
    done = decided.filter(pc.invert(decided["defer"]))
    assert done.num_rows > 490
    pyarrow.csv.write_csv(done.append_column("reward", pa.array(np.zeros(done.num_rows))), tmp_path / "next.csv")
    logs = read_logs(tmp_path / "next.csv")
    assert logs.schema is not None
    assert logs.all_propensities is not None
    assert logs.schema.columns == ("ward", "lactate")
    assert any("'barred'" in note and "belong to decisions" in note for note in logs.notes)
    policy = Study.open(study).policy
    np.testing.assert_allclose(logs.all_propensities, policy.probabilities(done), rtol=0, atol=1e-12)
    assert [logs.action_names[code] for code in logs.actions] == done["action"].to_pylist()


def test_likeliest_actions_are_judged_as_the_policy_that_they_are(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On these logs 'treat where it is hot' is right, which is what the likeliest action comes to: +0.5 in truth."""
    rows = visits(300, 5)
    pq.write_table(rows.select(["ward", "lactate"]), tmp_path / "rows.parquet")
    command = ["decide", str(study), "--rows", str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "out.parquet")]
    assert main([*command, "--likeliest"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    record = Study.open(study).result.likeliest  # type: ignore[union-attr]
    assert record is not None
    assert record.low is not None
    assert record.gain is not None
    assert 0.2 < record.low < 0.5 < record.gain + 0.1
    least = f"at least {readable(record.low, signed=True)} better than what is done now"
    assert f"{least} (95%, as if no other policy had been tried)" in out
    found = pq.read_table(tmp_path / "out.parquet")
    assert set(found["policy"].to_pylist()) == {f"{Study.open(study).policy.short_hash}-likeliest"}
    acts = ~found["defer"].to_numpy()
    assert found["propensity_treat"].to_numpy()[acts].tolist() == [
        float(name == "treat") for name in np.array(found["action"].to_pylist())[acts]
    ]
    right = np.where(np.array(rows["ward"].to_pylist()) == "hot", "treat", "wait")
    assert (np.array(found["action"].to_pylist()) == right).mean() > 0.97


def test_likeliest_actions_for_which_nothing_is_shown_are_refused_unless_said(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(visits(20, 5).select(["ward", "lactate"]), tmp_path / "rows.parquet")
    command = ["--rows", str(tmp_path / "rows.parquet"), "--likeliest", "--out"]
    result = Study.open(study).result
    assert result is not None
    assert result.likeliest is not None
    cases = {
        "its gain was not judged": None,  # as in studies of earlier versions
        "no gain is shown for it": replace(result.likeliest, low=None, verdict="do not trust"),
        "not shown to be better": replace(result.likeliest, low=-0.1),
    }
    for number, (words, found) in enumerate(cases.items()):
        other = tmp_path / f"study{number}"
        shutil.copytree(study, other)
        Store(other).write(replace(result, likeliest=found))
        out = str(tmp_path / f"out{number}.csv")
        assert main(["decide", str(other), *command, out]) == 2
        assert words in (said := capsys.readouterr().err)
        assert said.endswith("draw actions instead, or add --unproven\n")
        assert not Path(out).exists()
        assert main(["decide", str(other), *command, out, "--unproven"]) == 0
        capsys.readouterr()
        with pytest.raises(InputError, match=words):
            Study.open(other).decide(tmp_path / "rows.parquet", likeliest=True)
        assert Study.open(other).decide(tmp_path / "rows.parquet", likeliest=True, unproven=True).num_rows == 20
    assert main(["decide", str(study / "policy"), *command, str(tmp_path / "other.csv")]) == 2
    with pytest.raises(InputError, match="another policy than the drawn one"):
        Study.open(study).policy.decide(tmp_path / "rows.parquet", likeliest=True)


def test_later_logs_go_through_the_same_door(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(visits(200, 2), tmp_path / "later.parquet")
    assert main(["evaluate", str(study), "--logs", str(tmp_path / "later.parquet"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["estimate"]["value"] > 0.8
    assert "column 'lactate' is missing in" in err
    layout = Study.open(study).record.data.layout
    assert layout.schema is not None
    assert layout.schema.feature_names == Study.open(study).policy.feature_names
    assert read_logs(tmp_path / "later.parquet", layout=LogLayout.from_json(layout.to_json())).n_episodes == 200
    saved = ["evaluate", str(study / "policy"), "--logs", str(tmp_path / "later.parquet"), "--json"]
    assert main([*saved, "--reward", "good - 0.1*cost"]) in (0, 2)  # without propensities it may ask for them


BAD: dict[str, tuple[list[str], str]] = {
    "no study": (["nowhere", "--rows", "{rows}", "--out", "{out}"], "is no directory of a study or a policy"),
    "no rows": (["{study}", "--rows", "{folder}/none.csv", "--out", "{out}"], "does not exist"),
    "another ending": (["{study}", "--rows", "{rows}", "--out", "{folder}/out.txt"], "neither .parquet nor .csv"),
    "a file that is there": (["{study}", "--rows", "{rows}", "--out", "{rows}"], "exists already"),
    "a negative seed": (["{study}", "--rows", "{rows}", "--out", "{out}", "--seed", "-1"], "seed is -1"),
    "a column that is not there": (
        ["{study}", "--rows", "{rows}", "--out", "{out}", "--keep", "id"],
        "'id' is missing",
    ),
    "a renamed column": (["{study}", "--rows", "{folder}/renamed.csv", "--out", "{out}"], "did you mean 'Ward'"),
    "words for numbers": (
        ["{study}", "--rows", "{folder}/words.csv", "--out", "{out}"],
        "is text, not a number, in 1 row",
    ),
    "an empty table": (["{study}", "--rows", "{folder}/empty.csv", "--out", "{out}"], "there are no rows"),
    "an empty file": (["{study}", "--rows", "{folder}/nothing.csv", "--out", "{out}"], "is empty"),
    "damaged": (["{study}", "--rows", "{folder}/damaged.parquet", "--out", "{out}"], "cannot be read"),
    "ragged": (["{study}", "--rows", "{folder}/ragged.csv", "--out", "{out}"], "more or fewer cells"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_get_one_sentence_and_nothing_is_written(
    case: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "rows.csv": "ward,lactate\nhot,1.5\n",
        "renamed.csv": "Ward,lactate\nSECRET,1.5\n",
        "words.csv": "ward,lactate\nhot,1.5\nhot,2.5\nhot,SECRET\n",
        "empty.csv": "ward,lactate\n",
        "nothing.csv": "",
        "damaged.parquet": "PAR1 SECRET",
        "ragged.csv": "ward,lactate\nhot,1,SECRET\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    places = {"study": study, "folder": tmp_path, "rows": tmp_path / "rows.csv", "out": tmp_path / "out.csv"}
    arguments, sentence = BAD[case]
    before = sorted(tmp_path.iterdir())
    assert main(["decide", *(argument.format(**places) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert "SECRET" not in err
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", [("decide", "--rows", "rows.csv", "--out", "out.csv"), ("export", "--onnx", "o")])
def test_an_unfinished_study_and_a_folder_of_something_else_are_told_as_such(
    command: tuple[str, ...], study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = tmp_path / "study"
    shutil.copytree(study, unfinished)
    (unfinished / "choice.json").unlink()
    assert main([command[0], str(unfinished), *command[1:]]) == 1
    assert capsys.readouterr().err == f"error: {unfinished} has come to no result yet: continue it with --resume\n"
    assert main([command[0], str(tmp_path), *command[1:]]) == 2
    assert f"{tmp_path} holds neither a study nor a policy" in capsys.readouterr().err


def test_decisions_and_graphs_overwrite_neither_rows_nor_a_study(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    pyarrow.csv.write_csv(visits(20, 1), rows)
    (tmp_path / "link.csv").symlink_to(rows)
    (tmp_path / "way").symlink_to(study / "policy")
    before = rows.read_bytes()

    def refused(*command: object) -> str:
        assert main([command[0], str(study), *map(str, command[1:])]) == 2  # type: ignore[list-item]
        return capsys.readouterr().err

    for out, why in ((rows, "is the table of rows itself"), (tmp_path / "link.csv", "is a symbolic link")):
        assert why in refused("decide", "--rows", rows, "--out", out, "--overwrite")
    table = study / "table.parquet"
    assert "inside the folder of a study" in refused("decide", "--rows", rows, "--out", table, "--overwrite")
    own = tmp_path / "way" / "decisions.csv"
    assert "inside the folder of a policy" in refused("decide", "--rows", rows, "--out", own)
    document = study / "policy" / "poela-policy.json"
    assert "inside the folder of a policy" in refused("export", "--onnx", document, "--overwrite")
    assert rows.read_bytes() == before
    assert Study.open(study).policy is not None


def test_one_row_has_a_note(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"ward": ["hot", "cold"], "lactate": pa.array([None, 0.5])}), tmp_path / "rows.parquet")
    assert main(["decide", str(study), "--rows", str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "o.csv")]) == 0
    assert "1 row has a note: missing values" in capsys.readouterr().out


def test_receipts_become_the_next_log(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = visits(200, 7).append_column("case", pa.array([f"v{number}" for number in range(200)]))
    pq.write_table(rows.drop_columns(["drug", "good", "cost"]), tmp_path / "rows.parquet")
    folder = tmp_path / "receipts"
    flags = ["decide", str(study), "--rows", str(tmp_path / "rows.parquet"), "--receipts", str(folder), "--no-similar"]
    assert main([*flags, "--out", str(tmp_path / "out.parquet")]) == 0
    assert "Receipts are in" in capsys.readouterr().out
    known = rows.select(["case", "good", "cost"])
    logs = read_logs(folder, layout=Study.open(study).record.data.layout, outcomes=known)
    decided = pq.read_table(tmp_path / "out.parquet")
    assert logs.n_episodes == 200
    assert logs.feature_names == Study.open(study).policy.feature_names
    assert [logs.action_names[action] for action in logs.actions] == decided["action"].to_pylist()
    assert logs.logging_in_words == "full propensities"
    assert main([*flags, "--out", str(tmp_path / "again.parquet")]) == 0  # the same decisions, counted once
    assert read_logs(folder, layout=Study.open(study).record.data.layout, outcomes=known).n_episodes == 200
    pq.write_table(rows.drop_columns(["drug", "good", "cost", "case"]), tmp_path / "nameless.parquet")
    flags[3] = str(tmp_path / "nameless.parquet")
    assert main([*flags, "--out", str(tmp_path / "third.parquet")]) == 2
    assert "receipts need a name for each case" in capsys.readouterr().err
    assert not (tmp_path / "third.parquet").exists()


def test_the_worth_of_likeliest_actions_is_told_in_the_unit_of_the_outcome() -> None:
    found = LikeliestRecord(0.106, 0.0769, 0.95, "trust", 1049.6)
    said = found.in_words(Outcome("survival", "%", 100.0))
    assert said.startswith("at least +7.69 percentage points in survival compared with what is done now (95%")
    assert said.endswith("best estimate +10.6 percentage points in survival, 1,050 effective cases, verdict: trust")
