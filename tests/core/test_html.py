"""What notebooks show: small, and with every name escaped."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import poela
from poela.stats.gain import Gain

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags that a browser would see, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert attrs == []
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class Even:
    def probabilities(self, contexts: Any) -> Any:
        return np.full((len(contexts), 2), 0.5)


def logs(episodes: int = 40, reward: float = 1.0) -> poela.Trajectories:
    rng = np.random.default_rng(0)
    return poela.Trajectories(
        rng.normal(size=(episodes, 1)),
        np.arange(episodes) % 2,
        reward * rng.normal(size=episodes),
        np.arange(episodes + 1),
        propensities=np.full(episodes, 0.5),
        feature_names=[HOSTILE],
        action_names=[HOSTILE, "b"],
        episode_ids=[f"{HOSTILE}{episode}" for episode in range(episodes)],
    )


def shown() -> dict[str, Any]:
    estimate = poela.evaluate(Even(), logs())
    return {
        "logs": logs(),
        "estimate": estimate,
        "gain": estimate.gain,
        "explanation": poela.Eligibility(radius=0.5).fit(logs()).explain([0.0]),
    }


@pytest.mark.parametrize("name", list(shown()))
def test_names_are_text_and_never_tags(name: str) -> None:
    html = shown()[name]._repr_html_()
    tags = Tags(html)
    assert tags.open == []
    assert tags.seen <= {"table", "caption", "tr", "th", "td", "div", "p", "b"}
    assert len(html) < 5000


def test_logs_are_told_in_numbers() -> None:
    html = logs(1500)._repr_html_()
    assert "<td>1,500</td>" in html
    assert "&lt;script&gt;" in html
    assert len(logs(7)) == 7


def test_a_long_table_is_cut() -> None:
    names = [f"action {number}" for number in range(200)]
    wide = poela.Trajectories([[0.0], [1.0]], [0, 1], [0, 1], [0, 1, 2], action_names=names)
    html = poela.Eligibility(radius=0.5).fit(wide).explain([0.0])._repr_html_()
    assert "and 150 more" in html
    assert "action 60" not in html


@pytest.mark.parametrize("reward", [1e-7, 1.0, 1263.0, 1e9])
def test_no_number_is_a_power_of_ten(reward: float) -> None:
    estimate = poela.evaluate(Even(), logs(reward=reward))
    gain = Gain(1.26e3 * reward, 1e3 * reward, 2e3 * reward, sensitivity=1000.0)
    for text in (str(estimate), estimate._repr_html_(), str(gain), logs(reward=reward)._repr_html_()):
        assert "e+" not in text
        assert "e-" not in text
