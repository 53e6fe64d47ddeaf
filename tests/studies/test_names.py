"""Names of policies: short, without settings, never the same twice; and studies of before keep theirs as details."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poela.core.files import sha256
from poela.core.stored import canonical
from poela.data.trajectories import Trajectories
from poela.learners.registry import LEARNERS
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.names import FAMILIES, Origin, letters, named
from poela.studies.selection import Selection
from poela.studies.study import Study


def test_every_learner_has_a_family_of_its_own() -> None:
    ours = set(LEARNERS) - {"rules"}
    assert ours <= set(FAMILIES)
    assert len(set(FAMILIES.values())) == len(FAMILIES)


@given(
    st.dictionaries(
        st.sampled_from(["fittedq", "rules", "theirs"]),
        st.lists(st.integers(1, 12), min_size=1, max_size=5),
        min_size=1,
    ),
    st.booleans(),
)
def test_no_two_policies_have_one_name(paths: dict[str, list[int]], walks: bool) -> None:
    variants = {learner: [f"{learner}-{place}" for place in range(len(own))] for learner, own in paths.items()}
    origins = [
        Origin(f"{learner}-{place}", number, learner, f"rule {number // 2}", learner == "rules")
        for learner, own in paths.items()
        for place, length in enumerate(own)
        for number in range(length)
    ]
    names = named(origins, variants, walks=walks)
    assert len(names) == len(origins) == len(set(names.values()))


def test_bolder_policies_have_bolder_names() -> None:
    path = [Origin("a", number, "fittedq", "temperature 3", False) for number in range(9)]
    names = list(named(path, {"fittedq": ["a"]}, walks=True).values())
    assert names[0] == "mild tilt 1"
    assert names[4] == "medium tilt 5"
    assert names[8] == "bold tilt 9"
    assert not any("temperature" in name for name in names)


def test_letters_go_on_after_z() -> None:
    assert len({letters(place) for place in range(1000)}) == 1000


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    rng = np.random.default_rng(0)
    x, actions = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    rewards = np.where(x[:, 0] > 0, actions, -actions) + rng.normal(size=400)
    logs = Trajectories(
        x, actions, rewards, np.arange(401), np.full((400, 2), 0.5), action_names=["wait", "treat"],
        feature_names=["lactate"],
    )  # fmt: skip
    candidates = [Candidate("fittedq", {"history": 0, "backup": way}) for way in ("max", "soft")] + [Candidate("rules")]
    how: Any = {"candidates": candidates, "backend": "inline", "out": tmp_path_factory.mktemp("study") / "study"}
    return learn(logs, **how)


def test_the_policies_of_a_study_have_names_without_settings(study: Study) -> None:
    rows = study.table().to_pylist()
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names)) == len(study.points)
    assert {"always treat", "always wait", "rule 1", "mild tilt A1", "mild tilt B1"} <= set(names)
    assert not any("=" in name or "temperature" in name for name in names)
    assert study.chosen_name in names
    details = study.details_of(study.choice.chosen)
    assert "restart 0" in details
    (chosen,) = (row for row in rows if row["chosen"])
    assert chosen["name"] == study.chosen_name == study.result.policy  # type: ignore[union-attr]
    assert details == f"{chosen['candidate']}, restart {chosen['restart']}, {chosen['note']}"
    assert any(row["chosen"] for row in study.ladder().to_pylist())


def test_what_is_printed_has_names_and_details_when_asked(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    from poela.cli import main

    assert main(["studies", "show", str(study.directory)]) == 0
    plain = capsys.readouterr().out
    assert f"Recommended: {study.chosen_name}" in plain
    assert "backup=" not in plain
    assert "temperature" not in plain
    assert main(["studies", "show", str(study.directory), "--details"]) == 0
    assert "fittedq history=0 backup=max, restart 0, temperature" in " ".join(capsys.readouterr().out.split())
    assert main(["studies", "show", str(study.directory), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["chosen"] == study.chosen_name
    assert document["details"] == study.details_of(study.choice.chosen)
    assert {row["name"] for row in document["table"]} == set(study.names.values())


def test_checkpoints_of_training_are_called_so(tiny_logs: Trajectories, tiny_candidates: list[Candidate]) -> None:
    study = learn(
        tiny_logs,
        candidates=tiny_candidates,
        shares=(0.5, 0.3, 0.2),
        selection=Selection("sntis", "best"),
        backend="inline",
    )
    assert {"POELA A checkpoint 1", "POELA B checkpoint 3", "PO-CRM checkpoint 2"} <= set(study.names.values())
    assert study.test_evaluation is not None
    assert study.test_evaluation.policy == study.details_of(study.choice.chosen)
    assert study.answer.headline == f"Chosen: {study.chosen_name}."


def test_results_without_groups_or_outcome_are_read(study: Study, tmp_path: Path) -> None:
    """As of a version before names: the record of the choice has the settings, and neither groups nor an outcome."""
    older = tmp_path / "older"
    shutil.copytree(study.directory, older)
    for name, gone in (("choice.json", ("groups",)), ("study.json", ("outcome",))):
        document = json.loads((older / name).read_text(encoding="utf-8"))
        for field in (*gone, "checksum"):
            del document[field]
        if name == "choice.json":
            document["policy"] = study.details_of(study.choice.chosen)
        document["checksum"] = sha256(canonical(document))
        (older / name).write_text(json.dumps(document), encoding="utf-8")
    opened = Study.open(older)
    assert opened.result is not None
    assert opened.result.groups is None
    assert opened.gain == study.gain
    assert opened.chosen_name == study.chosen_name
    assert str(opened.answer) == str(study.answer)
