"""Trajectories: what they refuse, and what taking, splitting and copying keep."""

from typing import Any

import numpy as np
import pytest

from poela import InputError, Trajectories

SOUND: dict[str, Any] = {
    "contexts": [[0.0], [1.0], [2.0]],
    "actions": [0, 1, 1],
    "rewards": [1, 2, 4],
    "offsets": [0, 2, 3],
}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no steps": ({"contexts": np.zeros((0, 1)), "actions": [], "rewards": [], "offsets": [0]}, "the logs are empty"),
    "flat contexts": ({"contexts": [0.0, 1.0, 2.0]}, "contexts must be a matrix"),
    "short rewards": ({"rewards": [1, 2]}, "rewards must have shape (3,) like the contexts, not (2,)"),
    "open offsets": ({"offsets": [0, 2]}, "offsets must start at 0 and end at the number of steps, 3"),
    "empty episode": ({"offsets": [0, 2, 2, 3]}, "1 episodes are empty, first episode 1"),
    "NaN context": ({"contexts": [[0.0], [np.nan], [np.inf]]}, "2 contexts hold NaN or infinity, first at step 1"),
    "NaN reward": ({"rewards": [1, np.nan, 3]}, "1 rewards are NaN or infinite, first at step 1"),
    "context beyond single precision": ({"contexts": [[0.0], [1e39], [0]]}, "1 contexts hold NaN or infinity"),
    "rewards beyond the largest number": ({"rewards": [1.7e308, 1.7e308, 0]}, "1 episode are too large to be summed"),
    "rewards that cancel": ({"rewards": [1.7e308, -1.7e308, 0]}, "the rewards of 1 episode are too large to be summed"),
    "unknown action": ({"actions": [0, 1, 2], "n_actions": 2}, "1 actions lie outside 0 … 1, first at step 2"),
    "negative action": ({"actions": [0, -1, 1]}, "1 actions lie outside 0 … 1, first at step 1"),
    "fractional action": ({"actions": [0, 0.5, 1]}, "whole numbers"),
    "endless action": ({"actions": [0, 1e300, np.inf]}, "whole numbers"),
    "NaN action": ({"actions": [0, np.nan, 1]}, "whole numbers"),
    "logged propensity 0": ({"propensities": [1, 0, 0.5]}, "1 logged propensities lie outside (0, 1], first at step 1"),
    "NaN propensity": ({"propensities": [1, np.nan, 0.5]}, "1 logged propensities lie outside (0, 1]"),
    "shape of propensities": ({"propensities": [[0.5], [0.5], [0.5]], "n_actions": 2}, "propensities must have shape"),
    "uneven rows": ({"propensities": [[0.5, 0.5], [0.4, 0.5], [0.5, 0.5]]}, "rows do not sum to 1, first at step 1"),
    "negative row": ({"propensities": [[0.5, 0.5], [-0.5, 1.5], [0.5, 0.5]]}, "rows hold values outside [0, 1]"),
    "feature names": ({"feature_names": ["a", "b"]}, "feature_names must be 1 different names, not 2"),
    "action names": ({"action_names": ["a", "a"]}, "action_names must be 2 different names, not 2"),
    "mixed action names": ({"action_names": ["a", 1]}, "all text, all whole numbers or all booleans"),
    "episode ids": ({"episode_ids": ["a"]}, "episode_ids must be 2 names, not 1"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "sentence"), BAD.values(), ids=list(BAD))
def test_what_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        Trajectories(**{**SOUND, **changes})
    assert any(sentence in problem for problem in error.value.problems)


def test_bad_rows_are_found_beyond_the_first_chunk() -> None:
    contexts = np.zeros((200_000, 2), np.float32)
    contexts[150_000, 1] = np.nan
    contexts[199_999, 0] = np.inf
    with pytest.raises(InputError, match="2 contexts hold NaN or infinity, first at step 150000 "):
        Trajectories(contexts, np.zeros(200_000), np.zeros(200_000), [0, 200_000])


def test_several_problems_are_told_at_once() -> None:
    with pytest.raises(InputError) as error:
        Trajectories(**{**SOUND, "rewards": [np.inf, 0, 0], "contexts": [[np.nan], [0], [0]]})
    assert len(error.value.problems) == 2


def test_the_callers_arrays_stay_their_own() -> None:
    contexts = np.zeros((3, 1), np.float32)
    logs = Trajectories(**{**SOUND, "contexts": contexts})
    contexts[0] = 7
    assert logs.contexts[0] == 0
    with pytest.raises(ValueError):
        logs.contexts[0] = 1


def test_taking_by_position_and_by_mask() -> None:
    logs = Trajectories(**SOUND, episode_ids=["p", "q"], propensities=[0.5, 0.25, 1.0])
    swapped = logs.take([1, 0])
    assert swapped.rewards.tolist() == [4, 1, 2]
    assert swapped.offsets.tolist() == [0, 1, 3]
    assert swapped.logged_propensities.tolist() == [1.0, 0.5, 0.25]
    assert swapped.episode_ids is not None
    assert swapped.episode_ids.tolist() == ["q", "p"]
    assert logs.take([False, True]).rewards.tolist() == [4]
    assert logs.take([False, True]).n_actions == 2
    assert not swapped.contexts.flags.writeable


def test_what_cannot_be_taken_or_split() -> None:
    logs = Trajectories(**SOUND)
    for episodes in ([True], [0.5], np.zeros(2, bool)):
        with pytest.raises(InputError):
            logs.take(episodes)
    for shares in ((), (0.5, 0.6), (1.0, 0.0), (0.9, 0.1), (-0.5, 1.0)):
        with pytest.raises(InputError):
            logs.split(shares, seed=0)


def test_logged_propensities_from_full_rows() -> None:
    logs = Trajectories(**SOUND, propensities=[[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    assert logs.logged_propensities.tolist() == [0.9, 0.7, 0.5]
    with pytest.raises(InputError, match="no propensities"):
        _ = logs.with_propensities(None).logged_propensities
