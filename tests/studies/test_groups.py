"""Gains and actions by group, against enumerations, closed forms and the study's own bound."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from poela.core.arrays import FloatArray
from poela.core.errors import InputError, PoelaWarning
from poela.data.layout import LogLayout
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.evaluation.recombination import Recombined
from poela.evaluation.scoring import Evaluator, Scoring
from poela.simulators.registry import simulate
from poela.stats.gain import least_value
from poela.studies.acted import acted
from poela.studies.by_group import GroupRequest, evaluated_groups
from poela.studies.candidates import Candidate
from poela.studies.group_gains import GroupJudge
from poela.studies.groups import Groups
from poela.studies.held_out import Episodes
from poela.studies.learning import learn
from poela.studies.study import Study

SCORING = Scoring()


class TwoSteps:
    """Of two features, the group and what was done before: a policy that likes to do it again."""

    def probabilities(self, contexts: Any) -> FloatArray:
        rows = np.asarray(contexts)
        same = np.where(rows[:, 0] > 0, 0.3, 0.9)
        second = np.where(rows[:, 1] < 0, 0.6, np.where(rows[:, 1] > 0, same, 1 - same))
        return np.stack([1 - second, second], axis=1)


def worth(group: int, first: int, second: int) -> float:
    return 2.0 * (first == second) + group * first - 0.5 * second


def every_path(copies: dict[int, int]) -> Trajectories:
    """Every path of two fair coins, equally often: what the log says is exactly so."""
    paths = [
        (group, first, second)
        for group, count in copies.items()
        for _ in range(count)
        for first in (0, 1)
        for second in (0, 1)
    ]
    contexts = [row for group, first, _ in paths for row in ((group, -1), (group, first))]
    actions = [action for _, first, second in paths for action in (first, second)]
    rewards = [reward for path in paths for reward in (0.0, worth(*path))]
    n = len(paths)
    names: Any = {"feature_names": ["group", "before"]}
    return Trajectories(
        contexts, actions, rewards, np.arange(0, 2 * n + 1, 2), propensities=np.full((2 * n, 2), 0.5), **names
    )


def true_gain(group: int) -> float:
    policy, gain = TwoSteps(), 0.0
    for first in (0, 1):
        start = policy.probabilities([[group, -1]])[0, first]
        for second in (0, 1):
            go_on = policy.probabilities([[group, first]])[0, second]
            gain += (start * go_on - 0.25) * worth(group, first, second)
    return gain


def test_gains_of_groups_are_those_of_the_enumerated_process_and_add_up() -> None:
    copies = {0: 30, 1: 10}
    found = evaluated_groups(TwoSteps(), "again", every_path(copies), SCORING, GroupRequest(("group",)))
    everybody, first, second = found
    assert [group.label for group in found] == ["everybody", "group: 0", "group: 1"]
    assert first.gain == pytest.approx(true_gain(0))
    assert second.gain == pytest.approx(true_gain(1))
    assert everybody.gain == pytest.approx(0.75 * true_gain(0) + 0.25 * true_gain(1))
    assert (first.cases, second.cases, everybody.episodes) == (120, 40, 160)


def test_actions_after_are_those_along_the_policys_own_episodes() -> None:
    """At step two the policy is more often where it did the second action before; contexts of the log are not."""
    policy = TwoSteps()
    found = evaluated_groups(policy, "again", every_path({0: 30, 1: 10}), SCORING, GroupRequest(("group",)))
    for number, group in enumerate(found.groups[1:]):
        assert group.before == pytest.approx((0.5, 0.5))
        start = policy.probabilities([[number, -1]])[0]
        later = [policy.probabilities([[number, action]])[0] for action in (0, 1)]
        second = start[1] + start[0] * later[0][1] + start[1] * later[1][1]
        assert group.after[1] == pytest.approx(second / 2)
        changed = [abs(rows[1] - 0.5) for rows in (start, start, *later)]
        assert group.changed == pytest.approx(np.mean(changed))


def test_one_propensity_tells_how_many_decisions_change_as_well_as_all_do() -> None:
    """(1 − π/μ)₊ of the logged action, averaged over the logging policy, is half of Σ|π − μ|."""
    rng = np.random.default_rng(0)
    logging, doing = rng.dirichlet(np.ones(3), 50), rng.dirichlet(np.ones(3), 50)
    contexts = np.repeat(np.arange(50.0), 3)[:, None]
    actions = np.tile([0, 1, 2], 50)

    class Doing:
        def probabilities(self, contexts: Any) -> FloatArray:
            return np.asarray(doing[np.asarray(contexts)[:, 0].astype(int)])

    full = np.repeat(logging, 3, axis=0)
    logs = Trajectories(contexts, actions, np.zeros(150), np.arange(151), propensities=full)
    alone = replace(logs, propensities=logs.logged_propensities)
    known, estimated = acted(Doing(), logs, 1000.0), acted(Doing(), alone, 1000.0)
    assert known.changed is not None
    assert estimated.changed is not None
    weights = logs.logged_propensities  # as often as the log would have them
    assert weights @ estimated.changed == pytest.approx(weights @ known.changed)
    assert known.moves is not None
    np.testing.assert_allclose(known.moves.sum(), known.changed.sum())
    assert estimated.moves is None


class Fixed:
    """The second of two actions with this chance."""

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def probabilities(self, contexts: FloatArray) -> FloatArray:
        return np.tile([1 - self.chance, self.chance], (len(contexts), 1))


def coins(n: int, groups: int, seed: int, clusters: int | None = None, estimated: bool = False) -> Trajectories:
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, n)
    contexts = (np.arange(n) % groups)[:, None]
    return Trajectories(
        contexts, actions, actions + rng.normal(size=n), np.arange(n + 1), np.full((n, 2), 0.5),
        feature_names=["group"], clusters=None if clusters is None else np.arange(n) // clusters, estimated=estimated,
    )  # fmt: skip


def by_hand(logs: Trajectories, members: Any, chance: float) -> tuple[float, float, FloatArray, FloatArray]:
    """The self-normalised gain of a group, its paired error, its weights and its returns."""
    weights = np.where(logs.actions[members] == 1, chance, 1 - chance) / 0.5
    returns = logs.rewards[members]
    value = weights @ returns / weights.sum()
    influence = weights * (returns - value) / weights.mean() - (returns - returns.mean())
    return value - returns.mean(), float(np.sqrt(influence @ influence)) / len(returns), weights, returns


def test_bounds_of_independent_groups_are_as_many_errors_away_as_the_largest_of_their_errors() -> None:
    logs = coins(4000, groups=4, seed=1)
    found = evaluated_groups(Fixed(0.8), "second", logs, SCORING, GroupRequest(("group",)))
    one_sided, two_sided = norm.ppf(0.95 ** (1 / 4)), norm.ppf((1 + 0.95 ** (1 / 4)) / 2)
    for number, group in enumerate(found.groups[1:]):
        gain, error, _, _ = by_hand(logs, logs.contexts[:, 0] == number, 0.8)
        assert group.gain == pytest.approx(gain)
        assert group.error == pytest.approx(error)
        assert group.shown is not None
        assert (gain - group.shown) / error == pytest.approx(one_sided, abs=0.25)  # reaches are a little above normal
        assert (gain - group.shown) / error > one_sided - 0.1
        assert group.low is not None
        assert group.high is not None
        assert (gain - group.low) / error == pytest.approx(two_sided, abs=0.25)
        assert (group.high - gain) / error == pytest.approx(two_sided, abs=0.25)


def test_one_group_is_everybody() -> None:
    logs = coins(400, groups=1, seed=2)
    everybody, only = evaluated_groups(Fixed(0.7), "second", logs, SCORING, GroupRequest(("group",)))
    assert replace(only, column="", name="everybody") == everybody


def test_estimated_propensities_have_to_survive_a_factor_in_every_group() -> None:
    logs = coins(2000, groups=2, seed=3, estimated=True)
    known = evaluated_groups(Fixed(0.8), "second", logs, SCORING, GroupRequest(("group",)), gamma=1.0)
    doubted = evaluated_groups(Fixed(0.8), "second", logs, SCORING, GroupRequest(("group",)), gamma=1.5)
    for number in (0, 1):
        _, _, weights, returns = by_hand(logs, logs.contexts[:, 0] == number, 0.8)
        value = weights @ returns / weights.sum()
        lost = value - least_value(np.log(weights), returns, 1.5)
        gained = -least_value(np.log(weights), -returns, 1.5) - value
        before, after = known.groups[1 + number], doubted.groups[1 + number]
        assert after.shown == pytest.approx(before.shown - lost)
        assert after.low == pytest.approx(before.low - lost)
        assert after.high == pytest.approx(before.high + gained)
        assert after.verdict == "caution"


def test_clusters_are_the_cases_also_where_they_are_in_several_groups() -> None:
    logs = coins(800, groups=2, seed=4, clusters=4)
    found = evaluated_groups(Fixed(0.7), "second", logs, SCORING, GroupRequest(("group",)))
    assert [group.cases for group in found] == [200, 200, 200]
    assert [group.episodes for group in found] == [800, 400, 400]
    members = logs.contexts[:, 0] == 1
    weights = np.where(logs.actions[members] == 1, 0.7, 0.3) / 0.5
    returns, clusters = logs.rewards[members], np.asarray(logs.clusters)[members]
    value = weights @ returns / weights.sum()
    influence = weights * (returns - value) / weights.mean() - (returns - returns.mean())
    sums = np.bincount(clusters, influence)
    assert found.groups[2].error == pytest.approx(np.sqrt(sums @ sums) / len(returns))


def test_other_policies_that_could_have_been_chosen_cost() -> None:
    logs = coins(600, groups=2, seed=5)
    episodes = Episodes.of([logs], 1.0)
    recombine = Recombined(logs, 0, 4)
    seen = list(Evaluator(logs, SCORING).evidence([Fixed(chance) for chance in (0.7, 0.2, 0.45)]))
    pooled = [episodes.evidence(one.weights.episodes, SCORING, None) for one in seen]
    policy = pooled[0], np.float32(recombine.log_weights(seen[0]))
    halves = [np.asarray(logs.contexts[:, 0] == number) for number in (0, 1)]
    alone = GroupJudge(policy, episodes, SCORING).judged(halves)  # type: ignore[arg-type]
    among = GroupJudge(policy, episodes, SCORING, others=pooled[1:]).judged(halves)  # type: ignore[arg-type]
    for one, other in zip(alone, among, strict=True):
        assert one.gain == other.gain
        assert one.shown is not None
        assert other.shown is not None
        assert other.shown < one.shown
    folds = GroupJudge(policy, episodes, SCORING, sizes=(300, 300)).judged(halves)  # type: ignore[arg-type]
    for one, other in zip(alone, folds, strict=True):  # the worst case of what folds share
        assert one.gain - one.shown == pytest.approx((other.gain - other.shown) / np.sqrt(2))  # type: ignore[operator]


def wards(n: int, seed: int, *, full: bool = True) -> pa.Table:
    """Treatment helps in one ward and harms in another; sites are of no matter, and not in the context."""
    rng = np.random.default_rng(seed)
    ward, treat = rng.choice(["ICU", "surgery"], n), rng.integers(0, 2, n)
    reward = np.where(ward == "ICU", treat, -0.5 * treat) + rng.normal(size=n)
    table = {
        "stay": np.arange(n),
        "ward": ward,
        "age": rng.integers(20, 90, n),
        "site": rng.choice(["north", "south"], n),
        "country": ["here"] * n,
        "action": np.where(treat == 1, "treat", "wait"),
        "reward": reward,
    }
    chances = {"propensity_treat": [0.5] * n, "propensity_wait": [0.5] * n} if full else {"propensity": [0.5] * n}
    return pa.table({**table, **chances})


LOGS: Any = {"episode": "stay", "step": "rows", "context": ["ward", "age"]}


def learned(table: pa.Table, **how: Any) -> Study:
    with pytest.warns(PoelaWarning):
        return learn(table, layout=LogLayout(**LOGS), backend="inline", **how)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return wards(500, 0)


@pytest.fixture(scope="module")
def study(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Study:
    how: Any = {"candidates": [Candidate("fittedq", {"history": 0, "regressor": "ridge"})], "by": ["ward", "age:3"]}
    return learned(table, out=tmp_path_factory.mktemp("study") / "study", outcome="health, points", **how)


def test_a_study_says_who_gains(study: Study, table: pa.Table) -> None:
    found = study.by("ward", "age:3")
    assert found == study.result.groups  # type: ignore[union-attr]
    assert [group.label for group in found][:3] == ["everybody", "ward: ICU", "ward: surgery"]
    assert len(found) == 6
    everybody, icu, surgery = found.groups[:3]
    assert (everybody.shown, everybody.cases) == (study.gain.low, 500)  # type: ignore[union-attr]
    assert icu.after[0] > icu.before[0] > surgery.after[0]  # treat
    assert found.actions == ("treat", "wait")
    assert [(move.less, move.more) for move in found.moves[:2]] in (
        [("treat", "wait"), ("wait", "treat")],
        [("wait", "treat"), ("treat", "wait")],
    )
    assert sum(move.share for move in found.moves) == pytest.approx(everybody.changed)


def test_gains_by_control_variates_add_up_to_the_studys_own(study: Study) -> None:
    """They are plain means over episodes, so that groups of each column, weighted by episodes, give the whole."""
    found = study.by("ward", "age:3")
    assert found.adds_up
    chosen = study.choice.chosen
    assert chosen is not None
    controlled = chosen.metrics["controlled"]
    assert found.everybody.gain == pytest.approx(controlled)
    for column in found.columns:
        parts = [group for group in found if group.column == column]
        assert sum(group.episodes for group in parts) == 500
        assert sum(group.episodes * (group.gain or 0.0) for group in parts) / 500 == pytest.approx(controlled)
        assert sum(group.episodes * group.current for group in parts) / 500 == pytest.approx(found.everybody.current)


def test_a_single_group_has_the_bound_of_the_study(study: Study, table: pa.Table) -> None:
    """The same folds, the same policies beside it, the same error of folds that teach each other."""
    everybody, only = study.by("country", logs=table)
    assert only.label == "country: here"
    assert only.shown == pytest.approx(study.gain.low, rel=1e-12)  # type: ignore[union-attr]
    assert only.gain == pytest.approx(everybody.gain)
    assert (only.low, only.high) == (everybody.low, everybody.high)


def test_groups_by_columns_beside_the_context_need_the_table(study: Study, table: pa.Table) -> None:
    found = study.by("site", "age:2", logs=table)
    north = np.asarray(table["site"]) == "north"
    assert found.groups[1].cases == north.sum()
    assert found.groups[1].current == pytest.approx(np.asarray(table["reward"])[north].mean())
    on_disk = Study.open(study.directory)
    assert repr(on_disk.by("ward", "age:3")) == repr(study.by("ward", "age:3"))
    assert len(on_disk.by()) == 1
    with pytest.raises(InputError, match="give them with logs="):
        on_disk.by("ward")
    with pytest.raises(InputError, match="column 'site' is not in the context"):
        study.by("site")
    with pytest.raises(InputError, match="these are not the logs that"):
        study.by("site", logs=wards(500, 1))


def test_what_is_printed_has_the_unit(study: Study) -> None:
    text = repr(study.by("ward", "age:3"))
    assert "gain (health, points); at least: 95%, for all groups together" in text
    assert "health, points" in study.record.outcome.title  # type: ignore[union-attr]
    assert " points in health compared with what is done now (95%)" in study.answer.headline
    rows = study.by("ward", "age:3").to_table()
    assert rows.num_rows == 6
    assert {"column", "name", "cases", "gain", "shown", "before_treat", "after_wait"} <= set(rows.column_names)
    assert "<table>" in study.by()._repr_html_()


def test_where_nothing_is_recommended_no_group_changes(tiny_logs: Trajectories) -> None:
    rng = np.random.default_rng(3)
    logs = replace(tiny_logs, rewards=rng.normal(size=tiny_logs.n_steps))
    study = learn(logs, candidates=[Candidate("consensus")], backend="inline")
    assert study.result is not None
    assert (study.keeps_logging_policy, study.promising, study.result.groups) == (True, None, None)
    with pytest.raises(InputError, match="has no new policy, so that nothing changes for any group"):
        study.by("x0")


def test_a_table_with_one_propensity_column_and_estimated_ones_too() -> None:
    table = wards(400, 5, full=False)
    how: Any = {"candidates": [Candidate("rules")], "by": ["ward"], "no_audit": True}
    study = learned(table, **how)
    found = study.by("ward")
    assert found.everybody.changed is not None
    assert found.moves == ()
    hidden = learned(table.drop_columns(["propensity"]), **how)
    groups = hidden.result.groups  # type: ignore[union-attr]
    if groups is not None:
        assert {group.verdict for group in groups} <= {"caution", "do not trust"}


def test_doses_have_mean_amounts() -> None:
    quick = {"hidden": (8,), "steps": 60, "radius": "q100", "least_ess": 60.0, "clone_steps": 100}
    candidates = [Candidate("continuouspoela", quick)]
    study = learn(simulate("dosing", episodes=300, seed=0), candidates=candidates, folds=2, backend="inline")
    found: Groups | None = study.result.groups  # type: ignore[union-attr]
    assert found is not None
    assert found.amounts
    logs = study.parts[0]  # type: ignore[index]
    assert found.everybody.before == pytest.approx(logs.actions.mean(axis=0))
    assert found.everybody.after != pytest.approx(found.everybody.before)
    assert "changed" not in found.who_gets_what()[0]


def test_wrong_requests_are_refused_before_anything_is_fitted(table: pa.Table) -> None:
    logs = read_logs(table, **LOGS)
    for by, said in ((["wards"], "column 'wards' is not in the context"), (["ward:2"], "'ward' is no number")):
        with pytest.raises(InputError, match=said):
            learn(logs, by=by)
    with pytest.raises(InputError, match="by is 'ward': it must be a list"):
        learn(logs, by="ward")
    with pytest.raises(InputError, match="smallest_group is 0"):
        learn(logs, by=["ward"], smallest_group=0)
    with pytest.raises(InputError, match="an outcome is its name, and its unit after a comma"):
        learn(logs, outcome=" , ")
