"""The first screen, for those who decide: its parts, their order, and what each kind of study says there."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.test_page import Elements

from poela.cli import main
from poela.data.tables import read_logs
from poela.report.page import PageOptions, study_page, write_page
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::poela.core.errors.PoelaWarning")  # notes on the tables
PANELS = ["changes-first", "sure", "cases", "watch", "rests", "next"]
DOSES = {"hidden": (16,), "steps": 150, "radius": "q100", "least_ess": 60.0, "clone_steps": 300}
KINDS = ("rule", "trial", "keep", "doses")
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
LONG = "a very long name of an action or of a column that goes on and on"


def incentives(n: int = 900, *, gain: float = 0.25, names: tuple[str, ...] = ("none", "small", "large")) -> pa.Table:
    """A trial of three incentives in two sites, and whether people came back; large helps."""
    rng = np.random.default_rng(3)
    arm, site = rng.integers(3, size=n), np.where(rng.random(n) < 0.3, "coast", "north")
    back = rng.random(n) < 0.35 + gain * (arm == 2)
    columns: dict[str, Any] = {"site": site, "age": rng.integers(18, 90, n), "action": np.array(names)[arm]}
    chances = {f"propensity_{name}": np.full(n, 1 / 3) for name in names}
    return pa.table({**columns, **chances, "reward": back.astype(float)})


def clinic(n: int = 1500) -> pa.Table:
    """Treatment helps where lactate is high and harms elsewhere; nobody logged how likely it was."""
    rng = np.random.default_rng(4)
    lactate = rng.uniform(0, 4, n).round(2)
    treated = rng.random(n) < 0.35 + 0.3 * (lactate > 2)
    score = 5.0 * np.where(lactate > 2, treated, 1 - treated) + rng.normal(size=n)
    return pa.table({"lactate": lactate, "action": np.where(treated, "treat", "wait"), "reward": score})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("first")
    tables = {"rule": incentives(), "trial": clinic(), "keep": incentives(gain=0.0)}
    tables["doses"] = simulate("dosing", episodes=500, seed=1).to_table()
    for name, table in tables.items():
        pq.write_table(table, made / f"{name}.parquet")
    return made


@pytest.fixture(scope="module")
def studies(folder: Path) -> dict[str, Study]:
    def made(name: str, candidate: Candidate, **how: Any) -> Study:
        place = folder / "study" / name
        learn(folder / f"{name}.parquet", out=place, candidates=[candidate], folds=3, backend="inline", **how)
        return Study.open(place)

    rules = Candidate("rules")
    return {
        "rule": made("rule", rules, by=["site"], outcome="return visits, %"),
        "trial": made("trial", rules, outcome="recovery, points"),
        "keep": made("keep", rules),
        "doses": made("doses", Candidate("continuouspoela", DOSES)),
    }


@pytest.fixture(scope="module")
def pages(studies: dict[str, Study], folder: Path) -> dict[str, Path]:
    """Each page with its logs, and each in brief."""
    found = {}
    for name, study in studies.items():
        logs = folder / f"{name}.parquet"
        found[name] = write_page(study_page(study, logs), folder / f"{name}.html")
        short = study_page(study, logs, PageOptions(brief=True, per_year=4000))
        found[f"{name} in brief"] = write_page(short, folder / f"{name}-brief.html")
    return found


def first_text(page: Path) -> str:
    """What stands above the details."""
    content = page.read_text(encoding="utf-8").partition("<main>")[2]
    return " ".join(Elements(content.partition('<p class="below">')[0]).text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_screen_has_its_parts_in_order_and_the_rest_is_folded(kind: str, pages: dict[str, Path]) -> None:
    content = pages[kind].read_text(encoding="utf-8")
    assert re.findall(r'<section class="panel ([\w-]+)"', content) == PANELS
    lead = content.index('<p class="lead">')
    assert content.index("<h2") < lead < content.index('class="panel ')
    main_part = content.partition("<main>")[2].partition("</main>")[0]
    _, details = main_part.split('<p class="below">')
    open_ones = re.sub(r"<details.*</details>", "", details, flags=re.DOTALL)
    assert "<section" not in open_ones
    assert not re.search(r"<details[^>]* open", content)


def test_a_rule_is_said_and_the_gain_has_its_unit(pages: dict[str, Path], studies: dict[str, Study]) -> None:
    study, seen = studies["rule"], first_text(pages["rule"])
    assert study.gain is not None
    assert study.gain.low is not None
    least = f"{100 * study.gain.low:.1f}"
    assert study.rule == "Always large."
    assert seen.startswith(f"Change practice Changing would raise return visits by at least {least} percentage points.")
    assert "Always large." in seen
    assert "33% → 100%" in seen or "34% → 100%" in seen or "32% → 100%" in seen
    assert "Propensities were logged when decisions were made." in seen
    assert "Decisions that would differ" in seen
    assert "By site:" in seen
    assert "Not judged: other outcomes (--guard)." in seen
    assert "Not judged: groups of cases (--by) or other outcomes (--guard)." in first_text(pages["doses"])
    assert "Who made the logs" not in pages["rule"].read_text(encoding="utf-8")  # single decisions remember nothing
    assert "(Γ)" in seen


def test_five_questions_have_an_answer_without_the_details(pages: dict[str, Path]) -> None:
    """What changes, for whom, how sure, what could go wrong, what next: on every kind of page, above the details."""
    for kind in KINDS:
        seen = first_text(pages[kind])
        for question in ("What changes, and for whom", "For how many cases", "What to watch", "What it rests on"):
            assert question in seen, (kind, question)
        assert "At least" in seen
        assert "Best estimate" in seen
        assert "What next" in seen


def test_estimated_propensities_ask_for_a_trial(pages: dict[str, Path], studies: dict[str, Study]) -> None:
    assert studies["trial"].answer.kind == "worth a trial"
    seen = first_text(pages["trial"])
    assert seen.startswith("Worth a trial Changing would raise recovery by at least ")
    assert "points per case, if everything that mattered was recorded. Try it before you change." in seen
    assert "Propensities were not logged but estimated: everything that decisions rested on must be in the log." in seen
    assert "Those who decided may have known more than the log." in seen
    assert re.search(r"If lactate [≤>] \d", seen)


def test_keeping_is_said_with_what_could_not_be_seen(pages: dict[str, Path], studies: dict[str, Study]) -> None:
    assert studies["keep"].keeps_logging_policy
    seen = first_text(pages["keep"])
    assert seen.startswith("Keep what you do No policy is shown to do better than what is done now.")
    assert "Nothing changes: carry on as before." in seen
    assert "Keeping does not mean that nothing is better. With 900 cases, gains below about" in seen


def test_doses_have_a_picture_before_and_after(pages: dict[str, Path], studies: dict[str, Study], folder: Path) -> None:
    seen = first_text(pages["doses"])
    found = studies["doses"].by()
    assert f"dose: {found.everybody.after[0]:.2f} on average, now {found.everybody.before[0]:.2f}." in seen
    assert "dose moves most where " in seen
    content = pages["doses"].read_text(encoding="utf-8")
    assert 'aria-label="dose against ' in content
    given = read_logs(folder / "doses.parquet")
    curve_label = re.findall(r'aria-label="dose against severity[^"]*"', content)[0]
    lowest = given.contexts[:, list(given.feature_names).index("severity")]
    usual = given.actions[lowest <= np.quantile(lowest, 1 / 8), 0].mean()
    assert f": {usual:.2f} →" in curve_label  # where severity is lowest


def test_a_study_is_called_by_its_log(pages: dict[str, Path], studies: dict[str, Study]) -> None:
    assert studies["rule"].record.data.source == "rule.parquet"
    for kind in KINDS:
        assert f"<title>{kind}.parquet</title>" in pages[kind].read_text(encoding="utf-8")
    other = study_page(studies["rule"], None, PageOptions(title="Our trial")).html()
    assert "<title>Our trial</title>" in other


def test_the_name_of_a_file_is_no_part_of_what_a_study_is(studies: dict[str, Study]) -> None:
    """A log that was moved or renamed still continues its study."""
    from dataclasses import replace

    record = studies["rule"].record
    renamed = replace(record, data=replace(record.data, source="other.csv"))
    assert renamed.fingerprint == record.fingerprint


def test_without_logs_shares_are_there_and_the_rest_says_what_is_missing(studies: dict[str, Study]) -> None:
    page = Elements(study_page(studies["rule"]).html())
    labels = [attributes.get("aria-label") or "" for tag, attributes in page.found if tag == "svg"]
    assert any(re.search(r"under the new policy: .*large 3\d% → 100%", label) for label in labels)
    assert any(label.startswith("Gain over what is done now in each group: everybody") for label in labels)
    assert "needs the logs, which a study does not keep" in page.text


def test_gains_by_group_are_those_of_the_study(pages: dict[str, Path], studies: dict[str, Study]) -> None:
    found = studies["rule"].by("site")
    content = " ".join(Elements(pages["rule"].read_text(encoding="utf-8")).text.split())
    for group in found:
        assert group.gain is not None
        assert group.shown is not None
        cells = (
            f"{group.label} {group.cases:,} {100 * group.current:.1f} {100 * group.gain:+.1f} {100 * group.shown:+.1f}"
        )
        assert cells.replace("-", "−") in content


def test_how_many_decisions_a_year(pages: dict[str, Path], studies: dict[str, Study]) -> None:
    changed = studies["rule"].by().everybody.changed
    assert changed is not None
    assert f"At 4,000 cases a year: about {4000 * changed:,.0f} decisions." in first_text(pages["rule in brief"])


# In a real browser.


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_screen_fits_on_a_screen(kind: str, pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages[kind]).page
    bottoms = page.evaluate("[...document.querySelectorAll('.panel')].map(p => p.getBoundingClientRect().bottom)")
    assert len(bottoms) == len(PANELS)
    assert max(bottoms) <= 900  # the height of the window


@pytest.mark.parametrize("kind", [*KINDS, "rule in brief", "trial in brief"])
def test_nothing_is_clipped_and_nothing_overflows(kind: str, pages: dict[str, Path], opened: Any) -> None:
    for width in WIDTHS:
        tab = opened(pages[kind], width=width)
        page = tab.page
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        beyond = page.evaluate(
            """[...document.querySelectorAll('svg text')].filter(text => {
                 const box = text.getBBox(), whole = text.ownerSVGElement.viewBox.baseVal;
                 const turned = text.hasAttribute('transform');
                 return !turned && (box.x < -1 || box.x + box.width > whole.width + 1 ||
                                    box.y < -1 || box.y + box.height > whole.height + 1);
               }).map(text => text.textContent)"""
        )
        assert beyond == []
        cut = page.evaluate(
            """[...document.querySelectorAll('.panel, .panel *:not(svg *)')]
                 .filter(part => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).display !== 'inline')
                 .map(part => part.className || part.tagName)"""
        )
        assert cut == []
        assert tab.complaints == []
        assert tab.fetched() == []


@pytest.mark.parametrize(("width", "scheme"), list(zip(WIDTHS, SCHEMES, strict=True)))
def test_screenshots_show_the_answer(
    width: int, scheme: str, pages: dict[str, Path], opened: Any, tmp_path: Path
) -> None:
    """The tag of each kind has its colour, the paper that of the scheme, and the picture is no empty page."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for kind in KINDS:
        page = opened(pages[kind], width=width, scheme=scheme).page
        page.screenshot(path=tmp_path / "shot.png")
        picture = np.asarray(image.open(tmp_path / "shot.png").convert("RGB"), np.int64)
        paper = picture[2, 2]
        assert (paper.sum() > 600) == (scheme == "light")
        tag = page.locator(".first h2").bounding_box()
        inside = picture[round(tag["y"]) + 3, round(tag["x"] + tag["width"] / 2)]
        assert np.abs(inside - paper).sum() > 100
        assert (np.abs(picture - paper).sum(axis=2) > 60).mean() > 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_can_read_the_first_screen(kind: str, pages: dict[str, Path], opened: Any) -> None:
    source = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: axe-playwright-python")
    axe = (Path(source.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    for scheme in SCHEMES:
        page = opened(pages[kind], scheme=scheme).page
        page.evaluate(axe)
        found = page.evaluate("axe.run()")
        assert [(item["id"], item["nodes"][0]["html"][:200]) for item in found["violations"]] == []
        assert page.locator("svg:not([role=img][aria-label])").count() == 0
        names = page.evaluate("[...document.querySelectorAll('.panel')].map(p => p.getAttribute('aria-labelledby'))")
        assert all(page.locator(f"#{name}").count() == 1 for name in names)


def page_count(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page(?!s)", pdf))


@pytest.mark.parametrize("kind", KINDS)
def test_a_brief_page_is_one_sheet(kind: str, pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages[f"{kind} in brief"]).page
    assert page.locator("details").count() == 0
    assert page_count(page.pdf(format="A4")) == 1
    assert page_count(page.pdf(prefer_css_page_size=True)) == 1
    assert page_count(opened(pages[kind]).page.pdf(format="A4")) > 3  # so that the count can tell


def test_a_brief_page_with_much_to_say_is_one_sheet(folder: Path, opened: Any, capsys: Any) -> None:
    """Six long names of actions, many groups and a long name of the outcome."""
    rng = np.random.default_rng(0)
    n, names = 1200, [f"{LONG}{number}" for number in range(6)]
    arm, group = rng.integers(6, size=n), rng.integers(12, size=n)
    table = pa.table(
        {
            LONG: np.char.add("group ", group.astype(str)),
            "age": rng.integers(18, 90, n),
            "action": np.array(names)[arm],
            **{f"propensity_{name}": np.full(n, 1 / 6) for name in names},
            "reward": 3.0 * np.where(group < 6, arm == 5, arm == 2) + rng.normal(size=n),
        }
    )
    pq.write_table(table, folder / "much.parquet")
    learn(
        folder / "much.parquet",
        out=folder / "much",
        candidates=[Candidate("rules")],
        folds=3,
        backend="inline",
        by=[LONG, "age:5"],
        outcome=f"{LONG[:58]}, points",
    )
    out = str(folder / "much.html")
    given = ["report", str(folder / "much"), "--logs", str(folder / "much.parquet"), "--brief", "--out", out]
    assert main(given) == 0
    assert "The actions of lowest estimated value are barred. Most often: " in first_text(Path(out))
    page = opened(Path(out)).page
    assert page_count(page.pdf(format="A4")) == 1
    for width in WIDTHS:
        assert opened(Path(out), width=width).page.evaluate("document.documentElement.scrollWidth") <= width


def test_no_script_is_needed(pages: dict[str, Path], browser: Any) -> None:
    """Without scripts, details open by a click or by their address, and print whole."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["rule"].as_uri())
    table = page.locator("#ladder table").first
    assert not table.is_visible()
    page.locator("#ladder-title").click()
    assert table.is_visible()
    page.goto(pages["rule"].as_uri() + "#sensitivity")
    assert page.locator("#sensitivity p").first.is_visible()
    page.goto(pages["rule"].as_uri())
    assert page.locator("details.part", has=page.locator("#ladder")).bounding_box()["height"] < 100
    page.emulate_media(media="print")
    assert page.locator("details.part", has=page.locator("#ladder")).bounding_box()["height"] > 500
    assert page.locator("details.kept").first.bounding_box()["height"] < 60  # its title alone
    context.close()
