"""The server's page in a real browser: it asks this server alone, shows hostile names, and answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serving.policies import GRADIENT
from tests.serving.running import running

from poela.data.trajectories import Trajectories
from poela.learners.policy_gradient import POELA

HOSTILE = ("<script>document.title='taken'</script>", '"><img src=x onerror=alert(1)>', "\u202eright to left")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def hostile_logs() -> Trajectories:
    rng = np.random.default_rng(0)
    logs = Trajectories(
        rng.normal(size=(200, 2)),
        rng.integers(3, size=200),
        np.zeros(200),
        np.arange(201),
        np.full((200, 3), 1 / 3),
        action_names=HOSTILE,
    )
    return replace(logs, feature_names=("<b>age</b>", "__proto__"))


def test_a_person_asks_about_a_case(tmp_path: Path, opened: Any) -> None:
    POELA(radius=0.2, **GRADIENT).fit(hostile_logs(), seed=0).save(tmp_path / "policy")
    with running(tmp_path / "policy") as server:
        tab = opened(server.address)
        page = tab.page
        page.wait_for_selector("#fields input")
        _ask(page, "0", "0")
        assert page.locator("#actions tr").count() == 3
        assert page.locator("#actions tr td:first-child").all_text_contents() == list(HOSTILE)
        assert any(name in page.inner_text("#answer") for name in HOSTILE)
        assert "<b>age</b>" in page.inner_text("#fields")
        _ask(page, "1000", "0")
        assert "nothing like this case was logged" in page.inner_text("#answer")
        assert page.title() == "Decisions by a learned policy"
        assert tab.complaints == []
        assert all(url.startswith((server.address, "data:")) for url in tab.requests)
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        tab.context.close()
    assert (tmp_path / "page.png").stat().st_size > 0


def _ask(page: Any, *values: str) -> None:
    for place, value in enumerate(values):
        page.locator("#fields input").nth(place).fill(value)
    page.evaluate("document.getElementById('result').hidden = true")  # so that its coming back is that of this case
    page.click("button")
    page.wait_for_selector("#result:not([hidden])")
