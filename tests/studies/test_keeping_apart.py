"""Episodes that took part in learning or choosing are told of, unless chance alone would bring as many."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from poela.core.errors import InputError, PoelaWarning
from poela.data.trajectories import Trajectories
from poela.studies.keeping_apart import refuse_same, seen_before, write_episodes
from poela.studies.store import Store
from poela.studies.study import Study


def numbered(*numbers: int) -> Trajectories:
    """One episode of one step for each number, alike where the numbers are."""
    n = len(numbers)
    return Trajectories(np.array(numbers)[:, None], np.zeros(n, int), np.zeros(n), np.arange(n + 1))


@pytest.mark.parametrize(
    ("alike_in_validation", "most"),
    [
        (0, 5),  # of 100 new episodes may look like earlier ones by chance
        (10, 25),  # and twice as many more as a tenth of the validation episodes would suggest
    ],
)
def test_the_margin_of_chance(alike_in_validation: int, most: int, tmp_path: Path) -> None:
    train, own = range(100), range(100, 200 - alike_in_validation)
    write_episodes(Store(tmp_path), numbered(*train), numbered(*own, *range(alike_in_validation)))
    fresh = range(1000, 1100)

    def seen(known: int) -> int:
        return seen_before(Store(tmp_path), numbered(*range(known), *fresh[known:]))

    assert (seen(0), seen(most), seen(most + 1), seen(100)) == (0, 0, most + 1, 100)


@pytest.mark.parametrize("role", ["validation", "test"])
def test_logs_to_judge_by_are_not_those_that_teach(
    tiny_study: Callable[..., Study], tiny_logs: Trajectories, role: str
) -> None:
    with pytest.raises(InputError, match=f"the {role} logs are the training logs: .* leave out {role}="):
        tiny_study(**{role: tiny_logs})


def test_episodes_that_teach_and_judge_are_counted(tiny_logs: Trajectories) -> None:
    train, fresh = tiny_logs.take(range(40)), tiny_logs.take(range(40, 60))
    refuse_same(train, {"validation": None, "test": fresh})  # without a word
    with pytest.warns(PoelaWarning, match="^10 of the 30 episodes of the test logs are also in the training logs"):
        refuse_same(train, {"validation": None, "test": tiny_logs.take(range(30, 60))})
    with pytest.raises(InputError, match="the test logs are the validation logs"):
        refuse_same(train, {"validation": fresh, "test": fresh})
