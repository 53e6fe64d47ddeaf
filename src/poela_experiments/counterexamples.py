"""The paper's counter-examples: how many episodes it takes not to be fooled.

Policies are optimised exactly (see `plans`), so what fails here is the objective, not the optimiser.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.simulators.tabular import Bandit, HiddenBranch
from poela_experiments.frame.figures import line_figure, paper_and_ours
from poela_experiments.frame.published import Number, published
from poela_experiments.frame.results import Cell, Report, ResultTable, place_of, with_error
from poela_experiments.frame.run import Run
from poela_experiments.plans import Plans, drawn_counts

PENALTY = 1.0  # λ; the paper does not say which it used here
SIZES = tuple(2**power for power in range(2, 17))
BANDIT_SIZES, BANDIT_REPEATS = (8, 50, 200, 1000, 5000), 1000
RELIABLE = 0.95  # the share of repeats that must be solved
VALUES_REPEATS = 100  # plenty for a share that is near 0 or 1
IS, SNIS, ELIGIBLE = METHODS = ("IS + CRM", "SNIS + CRM", "eligible actions")
SAMPLES = "episodes needed"
NEEDED = published("counterexamples")["needed"]
NO_PENALTY, VALUES = "eligible actions, no penalty", "Markov values"


@dataclass(frozen=True)
class Sequential:
    """Example 2 or 3 for one H: the share of repeats that each method solves, for each number of episodes."""

    h: int
    shares: Mapping[str, Sequence[float]]
    sizes: Sequence[int] = SIZES

    def by_size(self, method: str) -> dict[int, float]:
        """Number of episodes -> share solved."""
        return dict(zip(self.sizes, self.shares[method], strict=True))

    def needed(self, method: str) -> int | None:
        """The least number of episodes with which the method is reliable; None where none was enough."""
        return min((size for size, share in self.by_size(method).items() if share >= RELIABLE), default=None)


def counterexamples(run: Run) -> Report:
    """Episodes needed against H, both sequential examples and the bandit, solved exactly."""
    repeats, levels = run.size.repeats, range(2, run.size.greatest_h + 1)
    examples = {(decoy, h): f"example {3 if decoy else 2}, H = {h}" for decoy in (False, True) for h in levels}
    parts = {name: partial(solved_shares, h, decoy, repeats, run.seed) for (decoy, h), name in examples.items()}
    made = run.made({**parts, "bandit": partial(bandit_rows, min(repeats, BANDIT_REPEATS), run.seed)})
    plain, decoyed = (
        [Sequential(h, made[name]) for (decoy, h), name in examples.items() if decoy is which]
        for which in (False, True)
    )
    tables = (_needed_table(run, plain), decoy_table(run, decoyed), _shares_table(run, plain[-1]))
    return run.report([*tables, _bandit_table(run, made["bandit"])], pictures=pictures)


def solved_shares(
    h: int, decoy: bool, repeats: int, seed: int, sizes: Sequence[int] = SIZES, penalty: float = PENALTY
) -> dict[str, list[float]]:
    """Draw logs of every size, and see who is fooled: by method the share solved, for each size.

    >>> solved_shares(h=2, decoy=False, repeats=10, seed=0, sizes=(4096,))["eligible actions"]
    [1.0]
    """
    example = HiddenBranch(horizon=h, decoy=decoy)
    plans = Plans.of(example)
    shares: dict[str, list[float]] = {}
    for size in sizes:
        counts = drawn_counts(plans.chances, size, repeats, seed=(seed, h, int(decoy), size))
        for method, solved in _solved(plans, counts, example.horizon, penalty).items():
            shares.setdefault(method, []).append(float(solved.mean()))
    return shares


def _solved(plans: Plans, counts: IntArray, horizon: int, penalty: float) -> dict[str, BoolArray]:
    eligible = plans.eligible(counts)

    def among_eligible(objective: FloatArray) -> BoolArray:
        return plans.solved(np.where(eligible, objective, -np.inf))

    return {
        IS: plans.solved(plans.importance_sampling(counts, penalty)),
        SNIS: plans.solved(plans.self_normalised(counts, penalty)),
        ELIGIBLE: among_eligible(plans.self_normalised(counts, penalty)),
        NO_PENALTY: among_eligible(plans.self_normalised(counts, 0.0)),
        VALUES: plans.solved_by_values(counts[:VALUES_REPEATS], horizon),
    }


def _needed_table(run: Run, results: Sequence[Sequential]) -> ResultTable:
    counts = [
        Number(method, f"H = {result.h}", SAMPLES, float(needed), error=0.0)
        for result in results
        for method in METHODS
        if (needed := result.needed(method)) is not None
    ]
    notes = (
        f"needed: the best deterministic policy starts with the right action in {RELIABLE:.0%} of {run.size.repeats} "
        f"repeats with this number of episodes (a power of 2, up to {SIZES[-1]})",
        f"objectives: the estimate less {PENALTY:g} standard error; eligible actions with SNIS + CRM",
        "counts are taken as exact (an error of 0): they agree where they are equal",
    )
    return run.table("needed", "Example 2: episodes needed, by H", run.comparison(NEEDED, counts), notes)


def decoy_table(run: Run, results: Sequence[Sequential]) -> ResultTable:
    """Example 3: the episodes that each method needs, by H."""
    rows: list[dict[str, Cell]] = [
        {"H": result.h, **{method: result.needed(method) or "never" for method in (*METHODS, VALUES)}}
        for result in results
    ]
    notes = (
        f"the same criterion, {_repeats(run)}; never: not with {SIZES[-1]} episodes. "
        "Markov values: backward induction on the observed frequencies, contexts taken for states",
    )
    return run.table("decoy", "Example 3: episodes needed, by H", rows, notes)


def _repeats(run: Run) -> str:
    return f"{run.size.repeats} repeats ({min(run.size.repeats, VALUES_REPEATS)} for {VALUES})"


def _shares_table(run: Run, result: Sequential) -> ResultTable:
    rows: list[dict[str, Cell]] = [
        {"episodes": size, **{method: result.shares[method][place] for method in (*METHODS, NO_PENALTY, VALUES)}}
        for place, size in enumerate(result.sizes)
    ]
    note = (
        f"share of {_repeats(run)} that are solved. Without the penalty even eligible actions can be fooled: once "
        "every path has been logged, one that was logged too seldom looks better than it is"
    )
    return run.table("solved", f"Example 2, H = {result.h}: share solved, by number of episodes", rows, (note,))


def bandit_rows(repeats: int, seed: int) -> list[dict[str, Cell]]:
    """What the policy with the highest estimate is worth, by number of episodes."""
    bandit = Bandit()
    rows = []
    for size in BANDIT_SIZES:
        # Contexts and actions are uniform: [repeats, contexts, actions].
        chances = np.full(bandit.rewards.size, 1 / bandit.rewards.size)
        drawn = drawn_counts(chances, size, repeats, seed=(seed, size)).reshape(repeats, *bandit.rewards.shape)
        row: dict[str, Cell] = {"episodes": size}
        for name, eligible in (("any action", False), ("eligible actions", True)):
            outcomes = [overfitted(bandit, counts, eligible) for counts in drawn]
            row[f"SNIS, {name}"] = with_error([estimate for estimate, _ in outcomes])
            row[f"true value, {name}"] = with_error([truth for _, truth in outcomes])
        rows.append(row)
    return rows


def _bandit_table(run: Run, rows: Sequence[Mapping[str, Cell]]) -> ResultTable:
    bandit = Bandit()
    n_contexts, n_actions = bandit.rewards.shape
    notes = (
        f"{n_contexts} contexts, {n_actions} actions, {min(run.size.repeats, BANDIT_REPEATS)} repeats; the best value "
        f"is {bandit.best_value:g}, that of the logging policy {bandit.value(bandit.behavior):g}",
        "among actions that were not logged in a context the policy takes any; so it does in contexts never logged",
    )
    return run.table("bandit", "Example 1 (bandit): the policy with the highest SNIS estimate", rows, notes)


def overfitted(bandit: Bandit, counts: IntArray, eligible: bool) -> tuple[float, float]:
    """The highest SNIS estimate that a deterministic policy reaches on these counts [contexts, actions]; its truth.

    SNIS is a ratio of two sums over contexts, so its maximum comes from Dinkelbach's iteration: for a given ratio the
    best action of each context is known, and gives a better ratio until there is none.
    """
    # For each context every logged action, and then (last column) any that was not logged.
    seen = counts > 0
    n_unseen = (~seen).sum(axis=1)
    open_to_unseen = n_unseen > 0
    if eligible:
        open_to_unseen &= ~seen.any(axis=1)
    allowed = np.column_stack([seen, open_to_unseen])
    often = np.column_stack([counts, np.zeros(len(counts))])
    rewards = np.column_stack([bandit.rewards, np.zeros(len(counts))])
    unseen_value = np.where(seen, 0.0, bandit.rewards).sum(axis=1) / np.maximum(n_unseen, 1)
    truths = np.column_stack([bandit.rewards, unseen_value])
    rows = np.arange(len(counts))
    # Logged actions first: that policy has weight, whatever the counts.
    choice = np.where(seen.any(axis=1), np.where(seen, bandit.rewards, -np.inf).argmax(axis=1), counts.shape[1])
    estimate, best = -np.inf, choice
    while True:
        weight = often[rows, choice].sum()
        value = float((often * rewards)[rows, choice].sum() / weight) if weight else -np.inf
        if value <= estimate:
            return estimate, float(truths[rows, best].mean())
        estimate, best = value, choice
        choice = np.where(allowed, often * (rewards - estimate), -np.inf).argmax(axis=1)


def pictures(directory: Path, tables: Mapping[str, ResultTable]) -> None:
    """Episodes needed against H, of the paper and ours."""
    rows = [{**row, "H": str(row["contexts"]).removeprefix("H = ")} for row in tables["needed"].rows]
    drawn = paper_and_ours(rows, METHODS, of="learner", x="H")
    title = "Example 2: episodes needed not to be fooled"
    place = place_of(directory, "counterexamples", "needed")
    line_figure(place, title, drawn, x="H", y="episodes needed", log_y=True, apart=0.1)
