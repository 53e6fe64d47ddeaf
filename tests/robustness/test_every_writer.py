"""One table of names that nobody should write to, against every writer there is; a new command cannot be forgotten."""

import ast
import inspect
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from tests.robustness.fuzz_studies import make_study
from tests.robustness.test_hostile_commands import snapshot

import poela
from poela.behavior.gaussian import GaussianBehavior
from poela.cli import main
from poela.cli.application import app
from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import OWNED
from poela.data.receipts import Receipts
from poela.data.trajectories import Trajectories
from poela.learners.consensus import Consensus
from poela.policies.gaussian import GaussianPolicy
from poela.policies.saving import FILE_FORMAT
from poela.report.blocks import Section, Text
from poela.report.page import Page, page_place, write_page
from poela.serving.export import export_onnx
from poela.serving.pyfunc import save_mlflow
from poela.simulators.registry import simulate

SOURCES = Path(poela.__file__).parent
READERS = {"evaluate", "plan", "studies list", "studies show", "studies compare"}
# How each writer is asked for one place; those of folders take no --overwrite.
FILES = {
    "simulate": "simulate tumor --episodes 5 --overwrite --out",
    "decide": "decide policy --rows rows.parquet --overwrite --out",
    "export": "export policy --overwrite --onnx",
    "report": "report good --overwrite --out",
    "watch": "watch good --logs rows.parquet --page",
}
# Places that a command writes to beside its first one, or alone.
SECOND = {
    "decide": "decide policy --rows rows.parquet --out fresh.csv --receipts",
    "serve": "serve policy --port 0 --receipts",
}
PLACES = {"out", "page", "receipts", "onnx", "mlflow"}  # what parameters for places to write to are called
READ = {("watch", "--receipts")}
FOLDERS = {"learn": "learn rows.parquet --learners fittedq --out", "reproduce": "reproduce demo --out"}
ENDINGS = {"simulate": ".csv", "decide": ".csv", "export": ".onnx", "report": ".html", "watch": ".html"}
NODES = ("link", "dangling", "folder", "pipe", "socket", "into-a-study")
INSIDE = ("good/new", "good/runs/new", "policy/new", "through/new")
SYSTEM = (
    "/dev/null",
    "/dev/new",
    "/dev/stdout",
    "/dev/fd/1",
    "/proc/self/new",
    "/sys/new",
    "/dev/shm/../null",
    "dev/new",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a study, a policy, and a node of every kind under every ending."""
    folder = tmp_path_factory.mktemp("place")
    logs = simulate("tumor", episodes=20)
    pq.write_table(logs.to_table(), folder / "rows.parquet")
    Consensus().fit(logs).save(folder / "policy")
    make_study(folder / "good")
    (folder / "mine").write_text("mine")
    (folder / "through").symlink_to("good")
    (folder / "dev").symlink_to("/dev")
    with socket.socket(socket.AF_UNIX) as server, chdir(folder):
        for number, ending in enumerate(("", *sorted(set(ENDINGS.values())))):
            Path(f"link{ending}").symlink_to("mine")
            Path(f"dangling{ending}").symlink_to("gone")
            Path(f"into-a-study{ending}").symlink_to("good/table.parquet")
            Path(f"folder{ending}").mkdir()
            Path(f"folder{ending}/mine").write_text("mine")
            os.mkfifo(f"pipe{ending}")
            with socket.socket(socket.AF_UNIX) if number else server as one:
                one.bind(f"socket{ending}")
        yield folder


def commands() -> Iterator[str]:
    """The name of every command there is."""
    tree: Any = typer.main.get_command(app)
    for name, command in tree.commands.items():
        below = getattr(command, "commands", None)
        yield from (name,) if below is None else (f"{name} {one}" for one in below)


def hostile(ending: str) -> Iterator[str]:
    yield from (f"{name}{ending}" for name in NODES)
    yield from (f"{name}{ending}" for name in (*INSIDE, *SYSTEM))
    yield ""


def test_every_command_is_known_to_read_or_to_write() -> None:
    assert set(commands()) == READERS | set(FILES) | set(FOLDERS) | set(SECOND)


def test_every_place_that_a_command_writes_to_is_tried() -> None:
    """By the names of parameters: one that is new is in none of the tables."""
    tree: Any = typer.main.get_command(app)
    there = {
        (name, f"--{parameter.name}")
        for name in commands()
        for parameter in _command(tree, name.split()).params
        if parameter.name in PLACES
    }
    tried = {(line.split()[0], line.split()[-1]) for line in (*FILES.values(), *SECOND.values(), *FOLDERS.values())}
    assert there - READ == tried


def _command(tree: Any, words: list[str]) -> Any:
    return tree if not words else _command(tree.commands[words[0]], words[1:])


@pytest.mark.parametrize("line", [*FILES.values(), *FOLDERS.values(), *SECOND.values()])
def test_no_command_writes_where_it_must_not(
    line: str, place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = snapshot(place)
    words = line.split()
    ending = "" if line in SECOND.values() else ENDINGS.get(words[0], "")
    for name in hostile(ending):
        assert main([*words, name]) == 2, (name, capfd.readouterr())
        said = capfd.readouterr().err
        assert said.count("error:") == 1, (name, said)
        assert snapshot(place) == before, name


def real_valued() -> GaussianPolicy:
    """A policy whose actions are numbers."""
    rng = np.random.default_rng(0)
    logs = Trajectories(
        rng.normal(size=(40, 2)), rng.normal(size=(40, 1)), np.zeros(40), np.arange(41), log_densities=np.zeros(40)
    )
    model = GaussianBehavior(hidden=(), max_steps=5).fit(logs)
    return GaussianPolicy(model=model)


def writers() -> dict[str, tuple[Callable[[str], object], str]]:
    """Every public function of Python that takes a place to write to."""
    policy = Consensus().fit(simulate("tumor", episodes=5))
    page = Page("title", "subtitle", (Section("answer", "title", (Text("text"),)),))
    return {
        "save, real-valued": (real_valued().save, ""),
        "write_page": (partial(write_page, page, overwrite=True), ".html"),
        "to_append": (Receipts.to_append, ""),
        "save": (policy.save, ""),
        "save_mlflow": (partial(save_mlflow, policy), ""),
        "export_onnx": (partial(export_onnx, policy, overwrite=True), ".onnx"),
        "page_place": (partial(page_place, overwrite=True), ".html"),
        "learn": (lambda out: poela.learn(simulate("tumor", episodes=20), out=out, learners=["fittedq"]), ""),
    }


NAMES = ("save", "save, real-valued", "save_mlflow", "export_onnx", "page_place", "write_page", "to_append", "learn")


@pytest.mark.parametrize("name", NAMES)
def test_no_function_writes_where_it_must_not(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    write, ending = writers()[name]
    before = snapshot(place)
    for path in hostile(ending):
        with pytest.raises(InputError):
            write(path)
        assert snapshot(place) == before, path


@pytest.mark.parametrize("node", NODES)
def test_the_last_step_of_all_writing_refuses_what_is_no_file(node: str, place: Path) -> None:
    before = snapshot(place)
    with pytest.raises(InputError, match="where a file of ours should be"), atomic_file(place / node):
        pytest.fail("it has begun to write")
    assert snapshot(place) == before


def test_what_comes_while_a_file_is_written_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    def write() -> None:
        with atomic_file(tmp_path / "new") as temporary:
            temporary.write_text("ours")
            (tmp_path / "new").symlink_to("mine")

    with pytest.raises(InputError, match="a symbolic link"):
        write()
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "new").is_symlink()


def test_the_gate_knows_the_folders_of_policies() -> None:
    assert f"{FILE_FORMAT}.json" in OWNED


WRITING = {"write_text", "write_bytes", "write_csv", "write_table", "savez", "to_csv", "to_parquet", "symlink_to"}
# Scratch folders of workers, and the gate's own last step.
ALLOWED = {"core/files.py", "studies/ray_backend.py"}


def test_all_writing_goes_through_the_gate() -> None:
    """Each call that writes names a `temporary` of `atomic_file`, or is in a file that is known."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call):
                continue
            text = ast.unparse(call)
            name = text.partition("(")[0].rpartition(".")[2]
            opened = name == "open" and any(f", '{mode}'" in text or f"('{mode}'" in text for mode in ("w", "wb", "a"))
            known = (
                "temporary" in text
                or "os.devnull" in text
                or text.startswith(("writer.", "write_bytes(", "write_json("))
            )
            if (name in WRITING or opened) and not known and str(path.relative_to(SOURCES)) not in ALLOWED:
                found.append(f"{path.relative_to(SOURCES)}: {text}")
    assert not found, "\n".join(found)
    assert inspect.getsource(atomic_file).count("refuse_irregular(path)") == 2
