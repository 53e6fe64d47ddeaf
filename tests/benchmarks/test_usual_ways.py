"""The usual ways beside studies: the exact tree against all trees, scores against the truth, and a tiny run."""

import itertools
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from benchmarks.aipw_rules import bound, gains, linear, scores_of, tree
from benchmarks.coverage_of_intervals import gains as gain_rows
from tests.warm import warm

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_the_best_of_all_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, scores = rng.integers(0, 3, (20, 2)).astype(float), rng.normal(size=(20, 3))
    rows, places = np.arange(20), [(feature, cut) for feature in range(2) for cut in range(3)]
    best = max(
        sum(
            max(scores[part & side].sum(axis=0).max() + scores[part & ~side].sum(axis=0).max() for side in sides)
            for part in (root, ~root)
        )
        for (root, sides) in (
            (x[:, feature] <= cut, [x[:, other] <= value for other, value in places]) for feature, cut in places
        )
    )
    assert scores[rows, tree(x, scores)(x)].sum() == pytest.approx(best)


def test_scores_tell_the_gain_of_a_rule_whatever_values_are() -> None:
    """The second action adds x₁ and depends on it: a rule that takes it where x₁ > 0 gains E[x₁⁺] − E[x₁ p]."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 2))
    chance = 1 / (1 + np.exp(-x[:, 0]))
    propensities = np.stack([1 - chance, chance], axis=1)
    actions = (rng.random(len(x)) < chance).astype(np.int64)
    rewards = actions * x[:, 0] + 2 * x[:, 1] + rng.normal(size=len(x))
    scores = scores_of(x, actions, rewards, propensities, seed=0)
    added = gains(lambda rows: (rows[:, 0] > 0).astype(np.int64), x, scores, propensities)
    truth = np.mean(np.maximum(x[:, 0], 0) - x[:, 0] * chance)
    mean, low = bound(added)
    assert mean == pytest.approx(truth, abs=5 * (mean - low) / 1.645)
    assert mean - low < 0.03
    assert (linear(x, scores)(x) == (x[:, 0] > 0)).mean() > 0.95


def test_what_was_never_done_is_never_advised() -> None:
    rng = np.random.default_rng(1)
    x, actions = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    propensities = np.tile([0.5, 0.5, 0.0], (100, 1))
    scores = scores_of(x, actions, rng.normal(size=100) - 5, propensities, seed=0)
    for learned in (tree(x, scores), linear(x, scores)):
        assert learned(x).max() <= 1
        assert np.isfinite(gains(learned, x, scores, propensities)).all()


def script(name: str, *arguments: str) -> str:
    command = [str(warm().python), f"benchmarks/{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_scripts_keep_their_rows(tmp_path: Path) -> None:
    flags = ("effect-strong", "--ways", "linear", "tree-split", "--logs", "2", "--out", str(tmp_path))
    printed = script("usual_ways.py", *flags)
    assert "| effect-strong | linear | 2 | 2 | 0 |" in printed
    rows = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert {(row["way"], row["seed"]) for row in rows} == set(
        itertools.product(("linear", "tree-split"), (20_000, 20_001))
    )
    assert script("usual_ways.py", *flags, "--minutes", "0") == printed
    assert script("usual_ways.py", "--table", str(tmp_path)) == printed


def test_policies_worth_a_trial_are_counted(tmp_path: Path) -> None:
    rows = [
        {"kind": "effect-weak", "learners": "a", "seed": seed, **({} if gain is None else {"trial": gain})}
        for seed, gain in enumerate((0.1, 0.3, -0.1, None))
    ] + [{"kind": "arms-2", "learners": "a", "seed": 0, "trial": 0.0}, {"kind": "arms-5", "learners": "a", "seed": 0}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    printed = script("claims.py", "--trials", str(tmp_path))
    assert "| effect-weak | 4 | 3 | 2 | 66.7 (9.4 to 99.2) | 0.1000 | -0.1000 |" in printed  # R: binom.test(2, 3)
    assert "Where nothing is to be gained: 1 of 2 logs." in printed


def test_gains_are_counted_beside_values_by_tilt_and_word() -> None:
    """Of 10 logs 8 are trusted; values miss once on each side, gains twice below the interval."""
    row = {"set": "first", "log": "made up", "tilt": "mild", "logs": 10, "truth below": 10.0, "truth above": 10.0}
    row |= {"gain below": 20.0, "gain above": 0.0}
    counts = {"value below": 1, "value above": 0, "gain below": 2, "gain above": 0}
    for word, said in (("trust", 8), ("caution", 2), ("do not trust", 0)):
        row |= {word: said, **{f"{word}: {name}": count if word == "trust" else 0 for name, count in counts.items()}}
    lines = gain_rows.table([row, row | {"log": "estimated made up"}]).splitlines()[2:]
    assert lines == [
        "| first | mild | any | 10 | 10.0 | 10.0 | 20.0 | 0.0 |  |",
        "| first | mild | trust | 8 | 12.5 | 0.0 | 25.0 | 0.0 |  |",
        "| first | mild | caution | 2 | 0.0 | 0.0 | 0.0 | 0.0 |  |",
    ]


def test_a_piece_of_gains_counts_each_log_once() -> None:
    row = gain_rows.measured("heavy-tailed", "first", "mild", 4, 0)
    assert row["ESS"] == pytest.approx(480, rel=0.1)
    assert sum(row[word] for word in ("trust", "caution", "do not trust")) == row["logs"] == 4
    below = sum(row[f"{word}: gain below"] for word in ("trust", "caution", "do not trust"))
    assert below == pytest.approx(row["gain below"] * 4 / 100)
