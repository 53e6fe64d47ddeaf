"""Hypothesis looks for new examples at home, and repeats the same ones where a failure would hold everybody up.

And a browser, for the tests that open pages.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.browsing import CHROMIUM, FLAGS, Opened

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "searching")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real headless Chromium; where there is none, tests are skipped."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed here: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    tabs: list[Opened] = []

    def open_page(place: Path | str, **how: Any) -> Opened:
        tabs.append(Opened(browser, place, **how))
        return tabs[-1]

    yield open_page
    for tab in tabs:
        tab.context.close()
