"""Commands that must be refused: exit code 2 (or 1 where said), one line for each problem, nothing touched.

Every command runs inside a folder full of somebody else's things, whose every byte, link and date is compared before
and after. A case is a command line and a word that the message must have.
"""

import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poela.cli import main
from poela.core.errors import InputError
from poela.data.layout import LogLayout
from poela.data.trajectories import Trajectories
from poela.learners.policy_gradient import POCRM
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate
from poela.studies.selection import Selection

Snapshot = dict[str, tuple[int, bytes]]


def snapshot(folder: Path) -> Snapshot:
    """Everything there is, by its path: kind and rights, and content or goal."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        content = b""
        if path.is_symlink():
            content = os.readlink(path).encode()
        elif stat.S_ISREG(kind):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (kind, content)
    return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as people have them, with a good log in it."""
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("foreign")
    for name, content in {
        ".git/HEAD": "ref: main",
        ".env": "SECRET=1",
        ".ssh/id": "key",
        ".venv/bin/python": "#!",
        ".poela-tmp-not-really/mine": "mine",
        "policy/policy.txt": "our own policy on leave",
        "policy/arrays.safetensors": "mine",
        "mine/study.json.txt": "not a study",
        "other/study.json": '{"format": "something else"}',
        "other/.scratch/material.json": "mine",
        "other/.poela-tmp-x": "mine",
        "half/poela-policy.json": "not json",
        "notes.txt": "notes",
        "taken.csv": "a,b\n1,2\n",
        "bad.toml": "this is = = not toml",
        "list.toml": "grid = 5",
        "nameless.toml": "[[grid]]\nsteps = 5",
        "numbered.toml": "[[grid]]\nlearner = 7",
        "layout.toml": 'charm = "x"',
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("policy")
    (folder / "file-link").symlink_to("notes.txt")
    (folder / "dangling").symlink_to("gone")
    os.mkfifo(folder / "pipe")
    pq.write_table(simulate("tumor", episodes=20).to_table(), folder / "logs.parquet")
    POCRM(steps=1, warm_start_steps=1, hidden=(2,), device="cpu").fit(simulate("tumor", episodes=5)).save(folder / "p")
    return folder


LEARN = "learn logs.parquet --out new"
PLACES = {
    ".": "not empty",
    "''": "empty",
    "./": "not empty",
    ".git": "not empty",
    ".ssh": "not empty",
    "policy": "not empty",
    "link": "not empty",
    "mine": "not empty",
    "p": "not empty",
    "notes.txt": "no folder",
    "notes.txt/deeper": "no folder",
    "file-link": "no folder",
    "dangling": "no folder",
    "pipe": "no folder",
}
SETTINGS = {
    "--backend x": "backend",
    "--backend cloud --resume": "backend",
    "--discount 2": "discount",
    "--discount nan": "discount",
    "--discount 0": "discount",
    "--discount -0.5": "discount",
    "--discount inf": "discount",
    "--min-ess inf": "--min-ess is",
    "--min-ess nan": "--min-ess is",
    "--min-ess -1": "--min-ess is",
    "--level 1": "level",
    "--level 0": "level",
    "--level nan": "level",
    "--confidence 1": "confidence",
    "--confidence 0.4": "confidence",
    "--confidence nan": "confidence",
    "--proof 1": "proof",
    "--proof nan": "proof",
    "--choose-by luck": "by is 'luck'",
    "--checkpoints some": "checkpoints",
    "--restarts 0": "restarts",
    "--restarts -3": "restarts",
    "--restarts 10000000": "restarts",
    "--restarts many": "restarts",
    "--seed -1": "seed",
    "--seed 99999999999999999999999": "seed",
    "--jobs 0": "jobs",
    "--jobs -2": "jobs",
    "--time 0": "time",
    "--time -5m": "time",
    "--time soon": "time",
    "--time nan": "time",
    f"--time {'9' * 400}h": "time",
    "--budget 100": "--spend",
    "--shares 0.5,0.5": "shares",
    "--shares 0.5,0.6,0.7": "shares",
    "--shares 0.5,nan,0.2": "shares",
    "--shares a,b,c": "shares",
    "--shares ''": "shares",
    "--learners luck": "luck",
    "--learners ''": "no candidates",
    "--learners poela,luck": "luck",
    "--behavior magic": "behavior",
    "--track diary": "track",
    "--address 127.0.0.1:1": "address",
    "--candidates gone.toml": "does not exist",
    "--candidates bad.toml": "TOML",
    "--candidates list.toml": "[[grid]]",
    "--candidates nameless.toml": "learner",
    "--candidates numbered.toml": "learner",
    "--candidates policy": "is a directory",
    "--layout gone.toml": "does not exist",
    "--layout layout.toml": "charm",
    "--layout layout.toml --step x": "both",
    "--validation gone.parquet": "does not exist",
    "--test notes.txt": "unknown kind",
    "--test taken.csv": "none of the columns",
    "--nonsense": "No such option",
    "--context ''": "context",
    "--context gone": "'gone'",
    "--action size": "not a whole number",
}
LEARNER_SETTINGS = {
    "poela": {
        "variance_penalty": ["-1", "inf", "nan", '"much"', "true"],
        "radius": ["-0.1", "nan", '"q101"', '"q"', '"far"', "true"],
        "hidden": ["[[0]]", "[[-4]]", "[[3.5]]", '["wide"]', "[[1000000000]]"],
        "steps": ["0", "-1", "2.5", '"many"'],
        "checkpoints": ["0"],
        "discount": ["2.0", "0.0", "nan"],
        "learning_rate": ["0.0", "-1.0", "inf"],
        "truncation": ["0.0", "nan"],
        "network": ['"transformer"'],
        "metric": ['"cosine"'],
        "fallback": ['"luck"'],
        "device": ['"tpu"', '"cuda:77"', "7"],
        "warm_start_episodes": ["0"],
        "charm": ["1"],
    },
    "bcq": {"threshold": ["-1.0", "1.5"], "batch_size": ["0"], "target_rate": ["0.0"]},
    "pql": {"percentile": ["101.0"], "density": ['"kernel"'], "density_steps": ["0"]},
    "cql": {"conservatism": ["-1.0"]},
    "fittedq": {"temperature": ["-1.0"], "history": ["-1"], "backup": ['"hard"'], "regressor": ['"spline"']},
    "spibb": {"least_count": ["[[1, 2]]", "[[]]", "[[-1]]", "5"], "reach": ['"q101"', "-1.0"], "scale": ['"ranks"']},
    "softspibb": {"epsilon": ["[[2.0, 1.0]]", "[[-0.5]]"], "delta": ["0.0", "2.0"]},
    "dprl": {"least_count": ["[[0]]", '"many"']},
    "clone": {"held_out": ["1.0"], "patience": ["0"], "network": ['"lstm"']},
}
OTHER = {
    "nonsense": "nonsense",
    "learn": "Missing",
    "learn gone.parquet --out new": "does not exist",
    "learn policy --out new": "is a directory",
    "learn notes.txt --out new": "unknown kind",
    "learn pipe --out new": "a pipe",
    "learn logs.parquet --out other": "no poela-study",
    "learn logs.parquet --out other --resume": "no poela-study",
    "evaluate gone --logs logs.parquet": "no directory",
    "evaluate policy --logs logs.parquet": "poela-policy.json",
    "evaluate half --logs logs.parquet": "cannot be read",
    "evaluate other --logs logs.parquet": "no poela-study",
    "evaluate p --logs gone.parquet": "does not exist",
    "evaluate p --logs taken.csv": "none of the columns",
    "evaluate p --logs logs.parquet --estimator luck": "estimator",
    "evaluate p --logs logs.parquet --level 2": "level",
    "evaluate p --logs logs.parquet --level nan": "level",
    "evaluate p --logs logs.parquet --discount 0": "discount",
    "evaluate p --logs logs.parquet --discount nan": "discount",
    "studies show gone": "no study",
    "studies show policy": "no study",
    "studies show other": "no poela-study",
    "studies compare policy other": "no study",
    "simulate luck --out new.csv": "luck",
    "simulate tumor --out taken.csv": "exists already",
    "simulate tumor --out policy": "neither",
    "simulate tumor --out new.docx": "neither",
    "simulate tumor --out notes.txt/new.csv": "no folder",
    "simulate tumor --episodes 0 --out new.csv": "--episodes",
    "simulate tumor --episodes -5 --out new.csv": "--episodes",
    "simulate tumor --seed -1 --out new.csv": "--seed",
    "simulate tumor --option drug --out new.csv": "no value",
    "simulate tumor --option drug=tea --out new.csv": "tea",
    "simulate tumor --option color=blue --out new.csv": "color",
    "simulate cartpole --option epsilon=often --out new.csv": "epsilon",
    "simulate cartpole --option epsilon=2 --out new.csv": "epsilon",
    "simulate hidden-branch --option horizon=5.5 --out new.csv": "horizon",
    "simulate hidden-branch --option horizon=99 --out new.csv": "horizon",
    "simulate bandit --option n_actions=1 --out new.csv": "n_actions",
    "simulate sepsis --option extra_death=-1 --out new.csv": "extra_death",
    "simulate sepsis --option variant=kind --out new.csv": "variant",
    "reproduce nonsense": "nonsense",
    "reproduce demo --out .": "not empty",
    "reproduce demo --out ''": "empty",
    "reproduce demo --out policy": "not empty",
    "reproduce demo --out notes.txt": "no folder",
    "reproduce counterexamples --out new --backend x": "backend",
    "reproduce counterexamples --out new --jobs 0": "jobs",
    "reproduce counterexamples --out new --seed -1": "--seed",
}
CASES = {
    **{f"learn logs.parquet --out {place}": word for place, word in PLACES.items()},
    **{f"{LEARN} {setting}": word for setting, word in SETTINGS.items()},
    **OTHER,
}


def refused(command: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(shlex.split(command))
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines), captured.err
    assert word in captured.err
    assert len(captured.err) < 2000


@pytest.mark.parametrize("command", CASES)
def test_refused_before_anything_is_touched(
    command: str, foreign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(foreign)
    before = snapshot(foreign)
    refused(command, CASES[command], capsys)
    assert snapshot(foreign) == before


@pytest.mark.parametrize(
    ("learner", "setting", "value"),
    [
        (learner, setting, value)
        for learner, settings in LEARNER_SETTINGS.items()
        for setting, values in settings.items()
        for value in values
    ],
)
def test_learner_settings_that_cannot_be(
    learner: str,
    setting: str,
    value: str,
    foreign: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(foreign)
    before = snapshot(foreign)
    (tmp_path / "grid.toml").write_text(f'[[grid]]\nlearner = "{learner}"\n{setting} = {value}\n')
    refused(f"{LEARN} --candidates {tmp_path / 'grid.toml'}", setting, capsys)
    assert snapshot(foreign) == before


def saved_onto(place: str) -> Callable[[Path, Trajectories], Any]:
    return lambda folder, logs: TINY.fit(logs).save(folder / place if place else "")


TINY = POCRM(steps=1, warm_start_steps=1, hidden=(2,), device="cpu")
PYTHON: dict[str, tuple[Callable[[Path, Trajectories], Any], str]] = {
    **{
        f"save onto {place or 'nothing'}": (saved_onto(place), word)
        for place, word in PLACES.items()
        if place[0] != "'"
    },
    "save onto an empty path": (lambda folder, logs: TINY.fit(logs).save(""), "empty"),
    "save over a policy": (lambda folder, logs: TINY.fit(logs).save(folder / "p"), "overwrite=True"),
    "save over what is none": (
        lambda folder, logs: TINY.fit(logs).save(folder / "half", overwrite=True),
        "no poela-policy",
    ),
    "an unknown cover": (lambda folder, logs: TINY.fit(logs).save(folder / "new", "some"), "include_contexts"),
    "learn into nothing": (lambda folder, logs: learn(logs, out=""), "empty"),
    "learn from one action": (lambda folder, logs: learn(logs.take([0])), "learning needs"),
    "learn with other validation logs": (
        lambda folder, logs: learn(logs, validation=simulate("tumor", episodes=5, markov=True)),
        "validation logs have other features",
    ),
    "learn with a wrong seed": (lambda folder, logs: learn(logs, seed=1.5), "seed"),
    "learn with words for numbers": (lambda folder, logs: learn(logs, discount="one"), "discount"),
    "learn with a wrong share": (lambda folder, logs: learn(logs, shares=(0.5, 0.5)), "shares"),
}
# Settings of quite another kind than what is asked for, and the word that the one sentence about each has.
KINDS: dict[str, tuple[list[Any], str]] = {
    "shares": ([5, {0.5: 1, 0.3: 2, 0.2: 3}, "0.5", {0.5, 0.3, 0.2}], "it must be a list"),
    "learners": ([5, "fittedq", {"fittedq": 1}], "it must be a list"),
    "candidates": ([5, "poela", Candidate("poela"), POCRM()], "it must be a list"),
    "selection": (["guarded", 5, Selection, {}, "", 0], "it must be a Selection"),
    "layout": (["x", 5, LogLayout, {}, ""], "it must be a LogLayout"),
    "out": ([5, [], True, b"bytes"], "it must be text or a Path"),
    "resume": (["yes", None, 5], "it must be True or False"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (values, _) in KINDS.items() for value in values])
def test_settings_of_another_kind(name: str, value: Any, foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import poela

    monkeypatch.chdir(foreign)
    before = snapshot(foreign)
    with pytest.raises(InputError) as caught:
        poela.learn(simulate("bandit", episodes=5), **{"out": "new", "backend": "inline", name: value})
    (problem,) = caught.value.problems
    assert name in problem or name == "out"
    assert KINDS[name][1] in problem
    assert snapshot(foreign) == before


@pytest.mark.parametrize("learners", [(["fittedq"],), (5,), [None]])
def test_learners_that_are_no_names(learners: Any) -> None:
    import poela

    with pytest.raises(InputError, match="is no learner: give a name"):
        poela.learn(simulate("bandit", episodes=5), learners=learners)


def learn(logs: Trajectories, **settings: Any) -> None:
    import poela

    poela.learn(logs, learners=["fittedq"], backend="inline", **settings)


@pytest.mark.parametrize("case", PYTHON)
def test_the_same_from_python(case: str, foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(foreign)
    work, word = PYTHON[case]
    if case == "save onto p":
        word = "overwrite=True"
    logs = simulate("tumor", episodes=5)
    before = snapshot(foreign)
    with pytest.raises(InputError) as caught:
        work(foreign, logs)
    assert word in str(caught.value)
    assert snapshot(foreign) == before


def test_a_foreign_folder_keeps_what_it_has_when_a_study_moves_in_beside_it(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A study in an empty folder, its resumption, and a policy that is overwritten touch nothing else."""
    monkeypatch.chdir(foreign)
    before = snapshot(foreign)
    (tmp_path / "grid.toml").write_text('[[grid]]\nlearner = "fittedq"\nhistory = 0\n')
    out = tmp_path / "study"
    command = f"learn logs.parquet --out {out} --candidates {tmp_path / 'grid.toml'} --backend inline"
    assert main(shlex.split(command)) == 0
    (out / "mine.txt").write_text("keep")
    (out / ".hidden").write_text("keep")
    (out / ".scratch" / "0").mkdir(parents=True)
    (out / ".scratch" / "mine").write_text("keep")
    (out / ".scratch" / "0" / "train_contexts.npy").write_text("left by a killed process")
    assert main(shlex.split(f"{command} --resume")) == 0
    assert (out / "mine.txt").read_text() == (out / ".hidden").read_text() == "keep"
    assert [path.name for path in (out / ".scratch").iterdir()] == ["mine"]
    assert {
        stat.S_IMODE(path.stat().st_mode) & 0o077
        for path in out.rglob("*")
        if "mine" not in path.name and path.name not in (".hidden", ".scratch")
    } == {0}
    assert snapshot(foreign) == before
