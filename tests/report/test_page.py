"""What stands on a page: all sections in order, nothing of the log that was not asked for, nothing from elsewhere."""

import json
import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report.conftest import HOSTILE_ACTIONS, HOSTILE_FEATURES, SCRIPT

from poela.cli import main
from poela.core.errors import InputError
from poela.data.layout import LogLayout
from poela.data.schema import TableSchema, Variable
from poela.data.trajectories import Trajectories
from poela.report.blocks import Code, Entry
from poela.report.compare import comparison_page
from poela.report.page import PageOptions, study_page, write_page
from poela.report.sections.checklist import candidates_toml, command_of, reproduce_section, toml_of
from poela.studies.candidates import Candidate, grids_in
from poela.studies.learning import learn
from poela.studies.selection import Selection
from poela.studies.settings import StudySettings
from poela.studies.study import Study

TITLES = [
    "Change practice",
    "The answer in full",
    "What changes, in detail",
    "Who gains, by group",
    "All policies, from cautious to bold",
    "Which actions are allowed",
    "Does it only look good?",
    "The data",
    "If something was not recorded",
    "Reporting checklist",
    "How to reproduce",
]
MOST_BYTES = 3_000_000


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_all_sections_stand_in_their_order(study: Study, tmp_path: Path) -> None:
    path = study.report(tmp_path / "report.html")
    page = Elements(path.read_text(encoding="utf-8"))
    assert page.headings == TITLES
    assert path.stat().st_size < MOST_BYTES
    assert study.answer.headline in page.text
    assert "needs the logs" not in page.text


def test_without_logs_the_page_says_what_needs_them(study: Study) -> None:
    page = Elements(study_page(Study.open(study.directory)).html())
    assert page.text.count("needs the logs, which a study does not keep") == 5
    assert all(title in page.text for title in TITLES)


def test_nothing_comes_from_elsewhere(study: Study, hostile: Study) -> None:
    for one in (study, hostile):
        page = one_page(one)
        for tag, attributes in page.found:
            for name in ("src", "href", "action", "data", "srcset", "xlink:href"):
                assert (attributes.get(name) or "#").startswith(("#", "data:,")), (tag, attributes)
            assert not any(name.startswith("on") for name in attributes)
        assert [tag for tag, _ in page.found].count("script") == 1
        assert "img" not in {tag for tag, _ in page.found}


def one_page(study: Study) -> Elements:
    return Elements(
        study_page(study, None, PageOptions(study.record.data.layout.context or (), show_values=True)).html()
    )


def test_hostile_names_are_shown_as_they_are(hostile: Study) -> None:
    page = one_page(hostile)
    assert SCRIPT in page.text
    assert HOSTILE_ACTIONS[1] in page.text
    assert HOSTILE_FEATURES[1] in page.text
    assert HOSTILE_FEATURES[2] in page.text
    assert "العمر \\u202e<b>x</b>" in page.text  # what would turn the rest of the line around is told by its number
    assert "\u202e" not in page.text
    assert not any("\u202e" in (value or "") for _, attributes in page.found for value in attributes.values())
    assert hostile.directory.name in page.text


def test_values_of_features_stand_there_only_if_asked_for(study: Study, logs: Trajectories) -> None:
    """One feature has values from 98,000 to 98,900, which nothing else on the page has."""
    usual = re.sub("[0-9a-f]{64}", "", study_page(study).html())
    assert not re.search(r"98[,.]?[0-8]\d\d\b|9\.8\d*e\+0?4", usual)
    asked = study_page(study, None, PageOptions(show_values=True)).html()
    assert re.search(r"9\.8\d*e\+04", asked)
    assert "protect this page as you protect the log" in asked


def test_what_is_said_to_reproduce_a_study_does(study: Study) -> None:
    settings = study.settings
    [candidate] = grids_in(tomllib.loads(candidates_toml(settings.candidates)), "here")
    assert candidate == settings.candidates[0]
    layout = study.record.data.layout
    assert LogLayout.from_json(tomllib.loads(toml_of(layout.to_json()))) == layout
    assert command_of(settings).endswith("--candidates candidates.toml")


def test_the_layout_on_a_page_tells_no_value_of_a_feature(study: Study) -> None:
    learned = TableSchema((Variable("age", indicated=True, fill=61.25), Variable("ward", "category", ("SECRET",))))
    plain = LogLayout(ordinal=(("how bad 𝒳\u202e", ("a", "b")),))
    data = replace(study.record.data, layout=replace(plain, schema=learned))
    told = Study(study.store)
    told.record = replace(study.record, data=data)
    section = reproduce_section(told, None)
    [layout] = [block.lines for block in section.blocks if isinstance(block, Code) and block.title == "layout.toml"]
    assert LogLayout.from_json(tomllib.loads(layout)) == plain
    assert not any(secret in str(section) for secret in ("SECRET", "61.25", "\u202e"))
    assert Entry("x", "a\u202e\x1b").sort == r"a\u202e\x1b"


def test_candidates_survive_their_file() -> None:
    given = (
        Candidate("poela", {"radius": "q50", "hidden": (32, 32), "variance_penalty": 0.1}),
        Candidate("fittedq", {"rule": {"radius": "q100", "scale": "standard"}, "history": 2}),
        Candidate("pocrm"),
    )
    assert tuple(grids_in(tomllib.loads(candidates_toml(given)), "here")) == given


def test_the_command_names_what_differs_from_the_usual() -> None:
    from poela.studies.defaults import default_candidates
    from poela.studies.selection import DEFAULT_SELECTION

    usual = StudySettings(tuple(default_candidates()), restarts=1, selection=DEFAULT_SELECTION)
    assert command_of(usual) == "poela learn LOGS --out study/ --layout layout.toml"
    some = StudySettings(
        tuple(default_candidates(["fittedq", "consensus"], ruled=False)),
        restarts=3,
        seed=7,
        folds=None,
        shares=(0.5, 0.3, 0.2),
        selection=DEFAULT_SELECTION,
    )
    said = command_of(some)
    assert "--seed 7 --shares 0.5,0.3,0.2 --restarts 3 --learners fittedq,consensus --no-rule" in said


def test_a_page_while_a_study_runs(unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(unfinished), "--out", str(tmp_path / "page.html")]) == 0
    page = Elements((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "There is no answer yet: 4 of 5 runs have finished." in page.text
    assert "reload it" in page.text
    assert "4/5" in page.text
    assert 'http-equiv="refresh"' not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_can_be_made_while_another_process_holds_the_study(study: Study, tmp_path: Path) -> None:
    with study.store.locked():
        assert main(["report", str(study.directory), "--out", str(tmp_path / "page.html")]) == 0


def test_an_interval_says_what_it_holds_for(study: Study, logs: Trajectories, tmp_path: Path) -> None:
    """A gain that is shown holds for all policies; that of a policy chosen by its estimate is no such promise."""
    promised = "holds for all policies together (95%)"
    assert promised in Elements(study_page(study).html()).text
    by_estimate = learn(
        logs,
        candidates=[Candidate("fittedq", {"regressor": "ridge"})],
        backend="inline",
        shares=(0.5, 0.3, 0.2),
        selection=Selection(),
    )
    page = Elements(study_page(by_estimate).html())
    assert "for all policies together" not in page.text
    assert "as if no other policy had been tried" in page.text
    assert "A study of 100 cases" in page.text  # a folder that nobody has chosen names nothing


def test_a_watched_page_ends_with_the_study(study: Study, tmp_path: Path) -> None:
    assert main(["report", str(study.directory), "--out", str(tmp_path / "page.html"), "--watch", "1"]) == 0
    assert "The answer in full" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_compare_sets_studies_side_by_side(
    study: Study, hostile: Study, unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "compare.html"
    both = [str(study.directory), str(hostile.directory), str(unfinished)]
    assert main(["report", "--compare", *both, "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == out.stat().st_size
    page = Elements(out.read_text(encoding="utf-8"))
    assert "They were not made from the same episodes" in page.text
    assert "not finished (4 of 5 runs)" in page.text
    assert hostile.directory.name in page.text
    with pytest.raises(InputError, match="name two or more"):
        comparison_page([study])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["STUDY", "STUDY"], "add --compare"),
        (["--compare", "STUDY", "STUDY", "--by", "age"], "--by do not go with --compare"),
        (
            ["--compare", "STUDY", "STUDY", "--brief", "--per-year", "9"],
            "--brief and --per-year do not go with --compare",
        ),
        (["STUDY", "--watch", "0"], "--watch 0 must be 1 second or more"),
        (["STUDY", "--per-year", "0"], "--per-year 0 must be 1 case or more"),
        (["nowhere"], "holds no study"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], words: str, study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(study.directory) if word == "STUDY" else word for word in arguments]
    assert main(["report", *given, "--out", str(tmp_path / "page.html")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_somebody_elses_file_stays(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "notes.html"
    path.write_text("mine")
    page = comparison_page([study, study])
    with pytest.raises(InputError, match="is no page of ours"):
        write_page(page, path)
    assert path.read_text() == "mine"
    write_page(page, path, overwrite=True)
    write_page(page, path)  # a page of ours is replaced without asking
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_logs_are_read_as_the_study_read_them(study: Study, logs: Trajectories, tmp_path: Path) -> None:
    from pyarrow.parquet import write_table

    write_table(logs.to_table(), tmp_path / "logs.parquet")
    arguments = ["report", str(study.directory), "--logs", str(tmp_path / "logs.parquet"), "--by", "age"]
    assert main([*arguments, "--out", str(tmp_path / "page.html")]) == 0
    page = Elements((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Gains in numbers" in page.text
    assert "age: above" in page.text
    assert page.text.count("needs the logs") == 0
