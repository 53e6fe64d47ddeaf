"""Pages in a real browser: nothing breaks, nothing is fetched, everything can be read, and hostile names stay names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.conftest import HOSTILE_ACTIONS
from tests.report.test_page import TITLES

from poela.report.compare import comparison_page
from poela.report.page import PageOptions, study_page, write_page
from poela.studies.study import Study

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="session")
def pages(study: Study, hostile: Study, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A usual page, one of hostile names with everything asked for, and a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    by = hostile.record.data.layout.context or ()
    made = {
        "usual": study_page(study, None, PageOptions(("age",))),
        "hostile": study_page(hostile, None, PageOptions(by, show_values=True)),
        "without logs": study_page(Study.open(study.directory)),
        "compare": comparison_page([study, hostile]),
    }
    return {name: write_page(page, folder / f"{name}.html") for name, page in made.items()}


def unfolded(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")


@pytest.mark.parametrize("name", ["usual", "hostile", "without logs", "compare"])
def test_nothing_breaks_and_nothing_is_fetched(name: str, pages: dict[str, Path], opened: Any) -> None:
    for width in WIDTHS:
        tab = opened(pages[name], width=width)
        unfolded(tab.page)
        tab.page.mouse.move(200, 500)
        assert tab.complaints == []
        assert tab.fetched() == []
        assert len(tab.requests) <= 2  # the page itself, and its empty icon
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_all_sections_are_there(pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages["usual"]).page
    assert page.locator("h2").all_inner_texts() == TITLES
    assert page.locator("svg").count() >= 10
    assert page.locator("svg:not([role=img][aria-label])").count() == 0


def test_hostile_names_are_seen_and_not_run(pages: dict[str, Path], opened: Any, hostile: Study) -> None:
    tab = opened(pages["hostile"])
    page = tab.page
    unfolded(page)
    seen = page.locator("main").inner_text()
    assert HOSTILE_ACTIONS[0] in seen
    assert HOSTILE_ACTIONS[1] in seen
    assert page.title() == f"Study {hostile.directory.name}"
    assert page.locator("main script, main img, main b").count() == 0
    assert tab.complaints == []


def test_a_script_from_elsewhere_would_not_run(pages: dict[str, Path], opened: Any, tmp_path: Path) -> None:
    """Were a name ever not escaped, the page's own rules still let no script run but ours."""
    broken = tmp_path / "broken.html"
    content = pages["usual"].read_text(encoding="utf-8")
    broken.write_text(content.replace("</main>", "<script>document.title='owned'</script></main>"), encoding="utf-8")
    tab = opened(broken)
    assert tab.page.title() == "Study study"
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)


def test_tables_are_sorted_by_their_headings(pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages["usual"]).page
    unfolded(page)
    table = page.locator("#ladder table").first
    heading = table.locator("th", has_text="effective cases")
    place = table.locator("th").all_inner_texts().index(heading.inner_text())

    def column() -> list[float]:
        cells = table.locator(f"tbody td:nth-child({place + 1})").all()
        return [float(cell.get_attribute("data-sort")) for cell in cells]

    before = column()
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column() == sorted(before)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert column() == sorted(before, reverse=True)
    names = table.locator("th", has_text="policy")
    names.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") is None
    first = table.locator("tbody tr td:first-child").all_inner_texts()
    assert len(first) == len(before)


def test_unknown_numbers_come_last_whichever_way(pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages["usual"]).page
    unfolded(page)
    table = page.locator("#ladder table").first
    button = table.locator("th", has_text="at least").locator("button")
    for _ in range(2):
        button.click()
        known = [text != "–" for text in table.locator("tbody td:nth-child(3)").all_inner_texts()]
        assert any(known)
        assert not all(known)
        assert known == sorted(known, reverse=True)


def test_what_is_pointed_at_tells_what_it_is(pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages["usual"]).page
    unfolded(page)
    assert page.locator("#tip").is_hidden()
    mark = page.locator("circle[data-tip]").first
    mark.scroll_into_view_if_needed()
    for _ in range(200):  # the page may still be scrolling when the mouse arrives
        mark.hover(force=True)
        if page.locator("#tip").is_visible():
            break
        page.mouse.move(0, 0)
        page.wait_for_timeout(300)
    assert page.locator("#tip").is_visible()
    assert page.locator("#tip").inner_text() == mark.get_attribute("data-tip")
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


@pytest.mark.parametrize(("width", "scheme"), list(zip(WIDTHS, SCHEMES, strict=True)))
def test_everybody_can_read_it(width: int, scheme: str, pages: dict[str, Path], opened: Any) -> None:
    """axe-core: contrast, names of things, order of headings, and what else can be checked by a machine."""
    source = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: axe-playwright-python")
    axe = (Path(source.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    for name in ("usual", "compare"):
        page = opened(pages[name], width=width, scheme=scheme).page
        unfolded(page)
        # Rows after the first ones are like them, and there are many.
        page.evaluate("document.querySelectorAll('tr:nth-child(n+6)').forEach(one => one.remove())")
        page.evaluate(axe)
        found = page.evaluate("axe.run()")
        assert [(item["id"], item["nodes"][0]["html"][:200]) for item in found["violations"]] == []
        assert "color-contrast" in {item["id"] for item in found["passes"]}


def test_text_in_pictures_stands_out(pages: dict[str, Path], opened: Any) -> None:
    """axe-core does not look into SVG: the colours of letters there, against the page, by WCAG's formula."""
    for scheme in SCHEMES:
        page = opened(pages["usual"], scheme=scheme).page
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        inks = page.evaluate(
            "[...new Set([...document.querySelectorAll('svg text')].map(t => getComputedStyle(t).fill))]"
        )
        assert inks
        assert min(contrast(ink, paper) for ink in inks) >= 4.5
        heat, ink = (
            page.evaluate(f"getComputedStyle(document.querySelector('svg {css}')).fill") for css in (".heat", ".cell")
        )
        assert contrast(mixed(heat, paper, 0.75), ink) >= 4.5  # the strongest cell of a heat map


def mixed(one: str, other: str, share: float) -> str:
    parts = share * np.array(channels_of(one)) + (1 - share) * np.array(channels_of(other))
    return f"rgb({', '.join(str(round(part)) for part in parts.tolist())})"


def channels_of(colour: str) -> list[int]:
    return [int(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3]]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    channels = np.array(channels_of(colour)) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_it_prints(pages: dict[str, Path], opened: Any) -> None:
    page = opened(pages["usual"], scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".below").is_hidden()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_it_opens_quickly(pages: dict[str, Path], opened: Any) -> None:
    """In processor time of the page, which does not count what else the machine does."""
    page = opened("about:blank").page
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(pages["usual"].as_uri())
    page.wait_for_load_state("load")
    metrics = {one["name"]: one["value"] for one in browser.send("Performance.getMetrics")["metrics"]}
    assert 0 < metrics["TaskDuration"] < 3
