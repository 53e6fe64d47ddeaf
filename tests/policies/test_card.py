"""The model card beside a saved policy: what it says, what it must not say, and that files of others stay."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.core.storage import remove_stored
from poela.data.trajectories import Trajectories
from poela.learners.policy_gradient import POCRM, POELA
from poela.policies.saving import CARD, FILE_FORMAT, plain, save_policy
from poela.policies.storage import load_policy

QUICK: dict[str, Any] = {"steps": 3, "warm_start_steps": 3, "hidden": (4,), "device": "cpu"}
HOSTILE = ("<script>alert(1)</script>", "[a](javascript:b)", "x" * 300, "two\nlines\n# Heading", "\u202eright to left")


def logs(actions: tuple[str, ...] = ("none", "low", "high")) -> Trajectories:
    rng = np.random.default_rng(0)
    return Trajectories(
        rng.normal(size=(60, 2)),
        rng.integers(len(actions), size=60),
        rng.normal(size=60),
        np.arange(0, 61, 3),
        np.full((60, len(actions)), 1 / len(actions)),
        feature_names=("age", "dose so far"),
        action_names=actions,
        episode_ids=[f"patient-{i}" for i in range(20)],
    )


def test_a_card_says_what_the_policy_is(tmp_path: Path) -> None:
    POELA(radius=0.25, **QUICK).fit(logs(), seed=0).save(tmp_path / "policy")
    text = (tmp_path / "policy" / CARD).read_text()
    for words in (
        "within 0.25 (mean squared difference of features)",
        "falls back to the action that was logged nearest",
        "age, dose so far",
        "none, low, high",
        "Contexts of the training log",
        "evaluate it on logs that were not used",
    ):
        assert words in text
    assert "patient-" not in text
    POCRM(**QUICK).fit(logs(), seed=0).save(tmp_path / "free")
    free = (tmp_path / "free" / CARD).read_text()
    assert "Every action is eligible." in free
    assert "No rows of the training log." in free


def test_a_card_says_what_was_found(tmp_path: Path) -> None:
    policy = POCRM(**QUICK).fit(logs(), seed=0)
    save_policy(policy, tmp_path, findings={"verdict on the estimate": "caution <b>"})
    assert "- verdict on the estimate: caution &lt;b&gt;" in (tmp_path / CARD).read_text()


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    policy = POCRM(**QUICK).fit(logs(HOSTILE), seed=0)
    policy = replace(policy, feature_names=("a|b", "`c`"))
    text = save_and_read(policy, tmp_path)
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "\n# Heading" not in text
    assert "\u202e" not in text
    assert "x" * 100 not in text


def save_and_read(policy: Any, folder: Path) -> str:
    from poela.policies.saving import model_card

    text = model_card(policy, {}, holds_logged_contexts=False)
    (folder / CARD).write_text(text)
    return text


def test_a_new_policy_gets_a_new_card_and_none_stays_without_a_policy(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    POELA(radius=0.25, **QUICK).fit(logs(), seed=0).save(folder)
    POCRM(**QUICK).fit(logs(), seed=0).save(folder, overwrite=True)
    assert "Every action is eligible." in (folder / CARD).read_text()
    assert len(os.listdir(folder)) == 3
    load_policy(folder)
    remove_stored(folder, FILE_FORMAT)
    assert not folder.exists()


def test_a_card_that_somebody_wrote_stays(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    POCRM(**QUICK).fit(logs(), seed=0).save(folder)
    (folder / CARD).write_text("# Ours, with what our board said")
    POCRM(**QUICK).fit(logs(), seed=1).save(folder, overwrite=True)
    assert (folder / CARD).read_text() == "# Ours, with what our board said"
    remove_stored(folder, FILE_FORMAT)
    assert os.listdir(folder) == [CARD]


@pytest.mark.parametrize("text", [*HOSTILE, "plain name", "5 > 3 & 2 < 4"])
def test_text_in_markdown_is_one_line_of_plain_text(text: str) -> None:
    shown = plain(text)
    assert "\n" not in shown
    assert "<" not in shown
