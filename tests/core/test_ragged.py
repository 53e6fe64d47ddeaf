"""Ragged sums against plain Python, with the three traps: empty segments, −inf, and long sums."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from poela.core.ragged import episode_of_step, episode_sums, rows_of_episodes, running_sums, step_numbers

lengths_and_seed = st.tuples(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 1000))


def offsets_of(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)])


@given(lengths_and_seed)
def test_sums_equal_plain_python(case: tuple[list[int], int]) -> None:
    lengths, seed = case
    offsets = offsets_of(lengths)
    values = np.random.default_rng(seed).normal(size=offsets[-1])
    parts = [values[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]  # noqa: RUF007
    np.testing.assert_allclose(episode_sums(values, offsets), [sum(part) for part in parts], atol=1e-12)
    np.testing.assert_array_equal(running_sums(values, offsets), np.concatenate([np.cumsum(part) for part in parts]))
    assert step_numbers(offsets).tolist() == [step for part in parts for step in range(len(part))]
    assert episode_of_step(offsets).tolist() == [i for i, part in enumerate(parts) for _ in part]


def test_minus_infinity_stays_within_its_episode() -> None:
    values, offsets = np.array([1.0, -np.inf, 2.0, 5.0]), np.array([0, 3, 4])
    assert episode_sums(values, offsets).tolist() == [-np.inf, 5.0]
    assert running_sums(values, offsets).tolist() == [1.0, -np.inf, -np.inf, 5.0]


def test_many_steps_lose_no_precision() -> None:
    values = np.full(4_000_000, 0.1)
    offsets = np.arange(0, 4_000_001, 4)
    assert np.ptp(running_sums(values, offsets).reshape(-1, 4)[:, 3]) == 0


def test_rows_of_episodes_in_any_order_and_repeated() -> None:
    rows, offsets = rows_of_episodes(np.array([1, 1, 0]), np.array([0, 1, 3]))
    assert rows.tolist() == [1, 2, 1, 2, 0]
    assert offsets.tolist() == [0, 2, 4, 5]
