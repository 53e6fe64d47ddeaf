"""Hypothesis looks for new examples at home, and repeats the same ones where a failure would hold everybody up.

And a browser, for the tests that open pages.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.browsing import CHROMIUM, FLAGS, Opened
from tests.warm import warm

from poela.studies.execution import Workers

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "searching")


STARTED, PYTHON, STARTING = Workers.new, sys.executable, threading.Lock()


def _started_warm(self: Workers) -> "subprocess.Popen[bytes]":
    if sys.executable != PYTHON:  # a test has its own
        return STARTED(self)
    with STARTING, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm().python))
        return STARTED(self)


@pytest.fixture(scope="session", autouse=True)
def _warm_workers() -> Iterator[None]:
    """Workers of studies fork from a process that has imported everything, save where `cold_workers` is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "new", _started_warm)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """No test cuts the power; those who count what is written to the disk put their own in this one's place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def cold_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers as they are started for users."""
    monkeypatch.setattr(Workers, "new", STARTED)


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
