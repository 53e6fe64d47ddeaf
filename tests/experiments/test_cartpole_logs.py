"""Training the CartPole checkpoints: what can be said without Stable-Baselines3, and a short training with it."""

import sys
from importlib.util import find_spec

import pytest

from poela.core.errors import PoelaError
from poela.simulators.cartpole import QNetworks
from poela_experiments.cartpole_logs import MASTERY, mean_steps, train_checkpoints


def test_the_last_checkpoint_is_an_expert() -> None:
    assert mean_steps(QNetworks.published().take([-1])) >= MASTERY


def test_without_stable_baselines_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(PoelaError, match=r"pip install .*stable-baselines3"):
        train_checkpoints()


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="Stable-Baselines3 is not installed")
def test_a_short_training_is_no_expert() -> None:
    with pytest.raises(PoelaError, match="no expert after 2000 steps"):
        train_checkpoints(most_steps=2000)
