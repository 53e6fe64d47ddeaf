"""The command line as scripts see it: exit codes, JSON, one line for each problem, nothing half-written."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.cli import main

Columns = dict[str, list[Any]]


def columns(episodes: int = 12, steps: int = 3, seed: int = 0) -> Columns:
    rng = np.random.default_rng(seed)
    n = episodes * steps
    treat = rng.random(n) < 0.5
    return {
        "episode": np.repeat(np.arange(episodes), steps).tolist(),
        "step": np.tile(np.arange(steps), episodes).tolist(),
        "age": rng.normal(size=n).round(3).tolist(),
        "sofa": rng.normal(size=n).round(3).tolist(),
        "action": np.where(treat, "treat", "wait").tolist(),
        "reward": (treat + rng.normal(size=n)).round(3).tolist(),
        "propensity": [0.5] * n,
    }


def write(path: Path, table: Columns) -> Path:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write(tmp_path / "logs.csv", columns())


Poela = Callable[..., tuple[int, str, str]]


@pytest.fixture
def poela(capsys: pytest.CaptureFixture[str]) -> Poela:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


COMMANDS = [
    (),
    ("simulate",),
    ("learn",),
    ("evaluate",),
    ("report",),
    ("plan",),
    ("reproduce",),
    *(("studies", c) for c in ("list", "show", "compare")),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(poela: Poela, command: tuple[str, ...]) -> None:
    code, out, _ = poela(*command, "--help")
    assert code == 0
    assert "Example: poela" in " ".join(out.split())


def test_help_is_light() -> None:
    code = (
        "import sys, poela.cli; poela.cli.main(['--help']); "
        "sys.exit(bool({'torch', 'sklearn', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn"],
        ["nonsense"],
        ["learn", "logs.csv", "--out", "s", "--nonsense"],
        ["simulate", "tumor", "--episodes", "0", "--out", "x.parquet"],
        ["simulate", "tumor", "--episodes", "many", "--out", "x.parquet"],
        ["simulate", "luck", "--out", "x.parquet"],
        ["simulate", "tumor", "--out", "x.docx"],
        ["simulate", "tumor", "--option", "drug", "--out", "x.parquet"],
        ["reproduce", "nonsense"],
        ["reproduce", "counterexamples", "--backend", "nonsense"],
        ["evaluate", "nowhere", "--logs", "logs.csv"],
        ["studies", "show", "nowhere"],
        ["plan", "nowhere.csv"],
        ["plan", "nowhere.csv", "--gain", "2"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    poela: Poela, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = poela(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_version() -> None:
    from poela import __version__

    done = subprocess.run([sys.executable, "-m", "poela", "--version"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"poela {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--propensity", "p"], "name another with --propensity"),
        (["--decimal", "x"], "--decimal must be"),
        (["--level", "95"], "--level is 95"),
        (["--min-ess", "-1"], "--min-ess is -1"),
        (["--choose-by", "luck"], "--choose-by is 'luck'"),
        (["--test", "3"], "--test is 3"),
        (["--returns", "nan,1"], "--returns nan,1 must be two numbers, the lowest and then the highest"),
        (["--returns", "1,0"], "--returns 1,0 must be two numbers, the lowest and then the highest"),
        (["--shares", "0.5"], "--shares 0.5 must be three numbers above 0"),
        (["--shares", "0.5,0.5,0.5"], "--shares 0.5,0.5,0.5 must be three numbers above 0 that sum to at most 1"),
        (["--layout", "columns.toml"], "name another with propensity in the --layout file"),
    ],
)
def test_problems_are_told_in_flags(poela: Poela, logs: Path, arguments: list[str], words: str) -> None:
    layout = logs.parent / "columns.toml"
    layout.write_text('propensity = "p"\n')
    given = [str(layout) if word == "columns.toml" else word for word in arguments]
    code, _, err = poela("learn", logs, "--out", logs.parent / "study", *given)
    assert code == 2
    assert words in err
    assert not re.search(r"\b[a-z_]+=( |,|:|$)", err)


def test_a_range_that_does_not_hold_the_returns_is_refused_before_any_work(poela: Poela, logs: Path) -> None:
    code, _, err = poela("learn", logs, "--out", logs.parent / "study", "--returns", "0,1")
    assert code == 2
    assert re.match(r"error: \d+ of 12 episodes have returns outside of 0 to 1: give a wider range", err)
    assert not (logs.parent / "study").exists()


def test_what_only_python_can_is_said_so(poela: Poela, better: Path) -> None:
    code, _, err = poela("evaluate", better / "study", "--logs", better / "logs.csv", "--interval", "refit")
    assert code == 2
    assert "(in Python: behavior=...)" in err
    code, _, err = poela("evaluate", better / "study", "--logs", better / "logs.csv", "--estimator", "direct")
    assert code == 2
    assert "choose another" in err


def test_estimator_and_interval_by_flag(poela: Poela, better: Path) -> None:
    flags = ("--estimator", "wdr", "--interval", "normal", "--level", "0.9", "--json")
    code, out, _ = poela("evaluate", better / "study", "--logs", better / "logs.csv", *flags)
    estimate = json.loads(out)["estimate"]
    assert (code, estimate["estimator"], estimate["interval"], estimate["level"]) == (0, "wdr", "normal", 0.9)


def changed(**new: Any) -> Callable[[Columns], Columns]:
    """The table with the first rows of some columns replaced."""

    def change(table: Columns) -> Columns:
        return {name: [*new.get(name, []), *values[len(new.get(name, [])) :]] for name, values in table.items()}

    return change


def without(name: str) -> Callable[[Columns], Columns]:
    return lambda table: {key: values for key, values in table.items() if key != name}


def constant(name: str, value: Any) -> Callable[[Columns], Columns]:
    return lambda table: {**table, name: [value] * len(table[name])}


def rows(count: int) -> Callable[[Columns], Columns]:
    return lambda table: {name: values[:count] for name, values in table.items()}


def full_propensities(wait: float, treat: float) -> Callable[[Columns], Columns]:
    def change(table: Columns) -> Columns:
        n = len(table["action"])
        rest = {name: values for name, values in table.items() if name != "propensity"}
        return {**rest, "propensity_wait": [wait, *[0.5] * (n - 1)], "propensity_treat": [treat, *[0.5] * (n - 1)]}

    return change


BAD_LOGS: dict[str, tuple[Callable[[Columns], Columns], list[str]]] = {
    "missing column": (without("reward"), ["'reward'", "missing"]),
    "wrong type": (changed(age=["old", "young"]), ["'age'"]),
    "infinite feature": (changed(age=[0.1, float("inf")]), ["'age'", "1 ", "row 2"]),
    "NaN reward": (changed(reward=[float("nan")]), ["'reward'", "row 1"]),
    "NaN propensity": (changed(propensity=[float("nan")]), ["'propensity'", "row 1"]),
    "zero propensity": (changed(propensity=[0.5, 0.0, 0.0]), ["'propensity'", "2 ", "row 2"]),
    "propensity above 1": (changed(propensity=[1.5]), ["'propensity'", "row 1"]),
    "rows of propensities that do not sum to 1": (full_propensities(0.5, 0.7), ["sum", "row 1"]),
    "duplicate step": (changed(step=[0, 0]), ["'step'", "row 2"]),
    "empty file": (rows(0), ["no rows"]),
    "one episode": (rows(3), ["one episode"]),
    "one action": (constant("action", "wait"), ["the same", "two actions"]),
}


@pytest.mark.parametrize("case", BAD_LOGS)
def test_bad_logs_are_told_in_a_sentence_and_nothing_is_written(poela: Poela, tmp_path: Path, case: str) -> None:
    change, words = BAD_LOGS[case]
    path = write(tmp_path / "logs.csv", change(columns()))
    code, out, err = poela("learn", path, "--out", tmp_path / "study")
    assert code == 2, err
    assert out == ""
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert any(all(word in line for word in words) for line in err.splitlines()), err
    assert not (tmp_path / "study").exists()


def test_all_problems_of_a_file_are_listed_at_once(poela: Poela, tmp_path: Path) -> None:
    table = changed(age=[float("inf")], reward=[0.0, float("inf")], propensity=[0.5, 0.5, 7.0])(columns())
    code, _, err = poela("learn", write(tmp_path / "logs.csv", table), "--out", tmp_path / "study")
    assert code == 2
    assert len(err.splitlines()) == 3


def test_an_action_outside_the_declared_ones(poela: Poela, tmp_path: Path) -> None:
    (tmp_path / "layout.toml").write_text('actions = ["wait", "treat"]\n')
    path = write(tmp_path / "logs.csv", changed(action=["pray"])(columns()))
    code, _, err = poela("learn", path, "--layout", tmp_path / "layout.toml", "--out", tmp_path / "study")
    assert code == 2
    assert "'action'" in err
    assert "in 1 row, first row 1" in err
    assert "pray" not in err


def test_columns_by_flags_or_by_file_but_not_both(poela: Poela, logs: Path, tmp_path: Path) -> None:
    (tmp_path / "layout.toml").write_text('episode = "stay"\n')
    code, _, err = poela("learn", logs, "--layout", tmp_path / "layout.toml", "--step", "hour", "--out", tmp_path / "s")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = poela("learn", logs, "--layout", tmp_path / "layout.toml", "--out", tmp_path / "s")
    assert code == 2
    assert "'stay'" in err
    code, _, err = poela("learn", logs, "--context", "age,weight", "--out", tmp_path / "s")
    assert code == 2
    assert "'weight'" in err


def test_clusters_by_flag_or_by_file(poela: Poela, tmp_path: Path) -> None:
    """Patients with several stays; in the second table a stay changes hands."""
    from poela.data.layout import LogLayout

    table = {**columns(), "patient": [f"p{episode // 2}" for episode in columns()["episode"]]}
    path = write(tmp_path / "logs.csv", table)
    mixed = write(tmp_path / "mixed.csv", changed(patient=["p5"])(table))
    (tmp_path / "layout.toml").write_text('cluster = "patient"\n')
    for described in (["--cluster", "patient"], ["--layout", tmp_path / "layout.toml"]):
        code, _, err = poela("learn", mixed, "--out", tmp_path / "study", *described)
        assert (code, err.count("\n")) == (2, 1)
        assert "column 'patient' changes within 1 episode, first row 2" in err
        assert "p5" not in err
    learned = ("learn", path, "--out", tmp_path / "study", "--cluster", "patient", "--learners", "clone")
    assert poela(*learned, "--restarts", 1, "--jobs", 1)[0] == 0
    assert LogLayout.from_json(json.loads((tmp_path / "study" / "study.json").read_text())["data"]["layout"]).cluster
    code, _, err = poela("evaluate", tmp_path / "study", "--logs", mixed)
    assert code == 2
    assert "column 'patient' changes within 1 episode" in err
    code, _, err = poela("evaluate", tmp_path / "study", "--logs", path, "--cluster", "doctor")
    assert code == 2
    assert "column 'doctor' is missing" in err
    assert poela("evaluate", tmp_path / "study", "--logs", path)[0] == 0


def test_simulate_writes_logs_that_need_no_description(poela: Poela, tmp_path: Path) -> None:
    from poela.data.tables import read_logs

    code, out, err = poela(
        "simulate", "tumor", "--episodes", 5, "--markov", "--out", tmp_path / "logs.parquet", "--json"
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["episodes"] == 5
    logs = read_logs(tmp_path / "logs.parquet")
    assert (logs.n_episodes, logs.n_features) == (5, 5)
    assert logs.propensities is not None
    assert poela("simulate", "tumor", "--episodes", 5, "--markov", "--out", tmp_path / "logs.csv")[0] == 0
    np.testing.assert_array_equal(read_logs(tmp_path / "logs.csv").actions, logs.actions)


def test_the_flags_of_learn_have_the_library_s_defaults() -> None:
    import inspect

    from poela.cli.learn import learn
    from poela.evaluation.scoring import Scoring
    from poela.studies.defaults import DEFAULT_LEARNERS
    from poela.studies.learning import learn as in_library
    from poela.studies.selection import DEFAULT_SELECTION, Selection

    flags = {name: parameter.default for name, parameter in inspect.signature(learn).parameters.items()}
    said = (flags["choose_by"], flags["checkpoints"], 0.95, flags["min_ess"])
    assert Selection(*said, sensitivity=flags["sensitivity"]) == DEFAULT_SELECTION
    assert flags["confidence"] is None  # which stands for 0.95 where policies are chosen by gain
    in_python = {name: parameter.default for name, parameter in inspect.signature(in_library).parameters.items()}
    for name in ("folds", "test", "shares", "restarts", "seed", "behavior", "backend", "jobs", "time"):
        assert flags[name] == in_python[name], name
    assert (flags["level"], flags["discount"]) == (Scoring().level, Scoring().discount)
    annotation = inspect.signature(learn).parameters["learners"].annotation
    assert ",".join(DEFAULT_LEARNERS) in annotation.__metadata__[0].help


def test_no_studies(poela: Poela, tmp_path: Path) -> None:
    code, out, _ = poela("studies", "list", tmp_path)
    assert code == 0
    assert "no studies under" in out
    assert json.loads(poela("studies", "list", tmp_path, "--json")[1]) == []


@pytest.fixture(scope="module")
def better(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs in which one action is better by about 1300, with the study that says so."""
    home = tmp_path_factory.mktemp("better")
    table = columns(episodes=150, steps=1)
    rewards = [1000.0 * (a == "treat") + 300 * r for a, r in zip(table["action"], table["reward"], strict=True)]
    del table["propensity"]
    chances = {f"propensity_{action}": [0.5] * 150 for action in ("treat", "wait")}
    logs = write(home / "logs.csv", {**table, "reward": rewards, **chances})
    assert main(["learn", str(logs), "--out", str(home / "study"), "--learners", "fittedq", *QUICK]) == 0
    return home


QUICK = ("--folds", "2", "--backend", "inline")


def test_the_answer_comes_first_and_no_number_is_a_power_of_ten(poela: Poela, better: Path) -> None:
    shown, every = (poela("studies", "show", better / "study", *more)[1] for more in ((), ("--all",)))
    assert shown.startswith("Change: at least +")
    assert len(shown.splitlines()) < 45 < len(every.splitlines())
    document = json.loads(poela("studies", "show", better / "study", "--json")[1])
    assert len(document["table"]) > len(document["ladder"])
    assert document["answer"]["change"] is True
    listed, compared = poela("studies", "list", better)[1], poela("studies", "compare", *[better / "study"] * 2)[1]
    evaluated = poela("evaluate", better / "study", "--logs", better / "logs.csv")[1]
    for text in (shown, every, listed, compared, evaluated):
        assert "trust" in text
        assert "e+0" not in text
    (row,) = json.loads(poela("studies", "list", better, "--json")[1])
    assert (row["answer"], row["verdict"], row["gain"] > row["shown"] > 0) == ("change", "trust", True)


def test_a_study_fits_on_a_screen(poela: Poela, better: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = poela("studies", "show", better / "study")[1].splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("Every action was taken in all kinds of cases") for line in lines[:6])


def test_a_notebook_shows_the_answer(better: Path) -> None:
    from poela.studies.study import Study

    study = Study.open(better / "study")
    html = study._repr_html_()
    assert study.answer.headline in html
    assert "new − current" in html
    assert "trust" in html


def test_a_plan_as_sentence_and_as_json(poela: Poela, better: Path) -> None:
    code, out, _ = poela("plan", better / "logs.csv", "--gain", 300, "--backend", "inline")
    assert code == 0
    document = json.loads(poela("plan", better / "logs.csv", "--gain", 300, "--backend", "inline", "--json")[1])
    assert " ".join(out.split()).startswith(document["sentence"])
    assert (document["at_hand"], document["reached"], document["estimated"]) == (150, True, False)
    assert [need["gain"] for need in document["needs"]] == [150.0, 300.0, 600.0]


@pytest.mark.parametrize("gain", ["0", "-1", "nan"])
def test_a_plan_needs_a_gain(poela: Poela, logs: Path, gain: str) -> None:
    code, out, err = poela("plan", logs, "--gain", gain)
    assert (code, out) == (2, "")
    assert "gain" in err
