"""The numbers behind the pictures, against what a few lines of plain Python say."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from poela.core.errors import InputError
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.report.numbers.changes import (
    action_shares,
    by_step,
    departures,
    flows_of,
    largest_changes,
    strata_of_column,
    touched,
)
from poela.report.numbers.judged import enough_cases, frontier_of, ladder_of
from poela.report.numbers.weights import (
    avoided,
    eligible_along,
    eligible_sets,
    gamma_curve,
    training_gap,
    weights_by_return,
)
from poela.report.study_logs import StudyLogs, study_logs
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.study import Study


@pytest.fixture(scope="module")
def beside(study: Study, logs: Trajectories) -> StudyLogs:
    found = study_logs(Study.open(study.directory), logs)
    assert found is not None
    return found


def test_the_policy_is_the_recommended_one(study: Study, beside: StudyLogs, logs: Trajectories) -> None:
    assert beside.shown is not None
    assert beside.shown.recommended
    np.testing.assert_allclose(np.asarray(beside.acting), study.policy.along(logs))


def test_departure_is_the_share_of_decisions_that_change(study: Study, beside: StudyLogs, logs: Trajectories) -> None:
    acting = study.policy.along(logs)
    by_hand = [
        sum(max(new - old, 0.0) for new, old in zip(*rows, strict=True))
        for rows in zip(acting, logs.propensities, strict=True)  # type: ignore[arg-type]
    ]
    np.testing.assert_allclose(np.asarray(departures(beside)), by_hand, atol=1e-12)
    steps, means, counts = by_step(beside)  # type: ignore[misc]
    assert steps.tolist() == [0, 1, 2]
    assert counts.tolist() == [200, 200, 200]
    assert means[1] == pytest.approx(np.mean(by_hand[1::3]))


def test_shares_of_actions_in_strata_add_up(study: Study, beside: StudyLogs, logs: Trajectories) -> None:
    found = action_shares(beside, ["age", "step"])
    everybody, *strata = found.strata
    assert everybody.logged.tolist() == pytest.approx([(logs.actions == 0).mean(), (logs.actions == 1).mean()])
    by_age, by_number = strata[:4], strata[4:]
    assert [stratum.name for stratum in by_number] == ["step = 0", "step = 1", "step = 2"]
    for group in (by_age, by_number):
        sizes = np.array([stratum.decisions for stratum in group])
        assert sizes.sum() == logs.n_steps
        mean = sizes @ np.stack([stratum.policy for stratum in group]) / logs.n_steps
        np.testing.assert_allclose(mean, everybody.policy)
    oldest = logs.contexts[:, 0] > np.quantile(logs.contexts[:, 0], 0.75)
    np.testing.assert_allclose(by_age[-1].policy, study.policy.along(logs)[oldest].mean(axis=0))


def test_a_stratum_needs_a_feature(beside: StudyLogs) -> None:
    with pytest.raises(InputError, match="no feature 'weight' to tell strata by"):
        action_shares(beside, ["weight"])


def test_flows_are_what_the_policy_does_where_the_log_did_something(
    study: Study, beside: StudyLogs, logs: Trajectories
) -> None:
    flows = flows_of(beside)
    np.testing.assert_allclose(flows.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(flows.shares[1], study.policy.along(logs)[logs.actions == 1].mean(axis=0))
    assert [one.number for one in flows.decisions] == np.bincount(logs.actions).tolist()


def test_the_largest_changes_come_first_and_from_different_episodes(
    study: Study, beside: StudyLogs, logs: Trajectories
) -> None:
    changes = largest_changes(beside)
    assert len({change.episode for change in changes}) == len(changes) == 10
    sizes = [change.departure for change in changes]
    assert sizes == sorted(sizes, reverse=True)
    every = departures(beside)
    assert every is not None
    assert sizes[0] == every.max()


def test_near_cases_are_counted_as_the_rule_measures(logs: Trajectories, tmp_path: object) -> None:
    """By brute force over all logged contexts."""
    import poela

    ruled = poela.learn(logs, learners=["fittedq"], folds=2, backend="inline")
    beside = study_logs(ruled, None)
    assert beside is not None
    assert beside.shown is not None
    rule, nearness = beside.shown.policy.eligibility, beside.nearness
    assert nearness is not None
    assert nearness.radius is not None
    scaled = logs.contexts.astype(np.float64) / logs.contexts.std(axis=0, dtype=np.float64)
    for change in largest_changes(beside, most=3):
        squared = np.square(scaled - scaled[change.row]).mean(axis=1)
        more = logs.actions == logs.action_names.index(change.more)
        assert change.near == (squared <= nearness.radius).sum()
        assert change.near_more == (more & (squared <= nearness.radius)).sum()
        assert change.distance == pytest.approx(squared[more].min(), rel=1e-5, abs=1e-9)
    sets = eligible_sets(beside)
    assert sets is not None
    allowed = rule.mask(logs.contexts).sum(axis=1)
    assert sets.mean == pytest.approx(np.where(rule.resolve(logs.contexts).stranded, 0, allowed).mean())
    assert all(item.weight < item.neighbours for item in avoided(beside))
    along = eligible_along(beside, 7)
    np.testing.assert_array_equal(along.mask, rule.mask(logs.contexts[21:24]))
    assert along.logged.tolist() == logs.actions[21:24].tolist()
    with pytest.raises(InputError, match="there is no episode 200"):
        eligible_along(beside, 200)


def test_weights_by_return_are_those_of_the_estimate(study: Study, beside: StudyLogs) -> None:
    found = weights_by_return(beside)
    assert found is not None
    assert found.episodes.sum() == pytest.approx(1.0)
    assert found.weight.sum() == pytest.approx(1.0)
    assert found.ess == pytest.approx(study.result.estimate.ess)  # type: ignore[union-attr]
    assert found.low.tolist() == sorted(found.low.tolist())


def test_the_gain_over_gamma_begins_at_the_estimate_and_vanishes_where_it_says(study: Study, beside: StudyLogs) -> None:
    curve, gain = gamma_curve(beside), study.gain
    assert curve is not None
    assert gain is not None
    assert curve.gains[0] == pytest.approx(gain.value)
    assert (np.diff(curve.gains) <= 1e-12).all()
    assert gain.sensitivity is not None
    assert 1 < gain.sensitivity < curve.vanishes  # that of what is shown
    assert np.interp(curve.vanishes, curve.gammas, curve.gains) == pytest.approx(0.0, abs=0.02)


def test_the_gap_is_between_training_and_held_out_episodes(study: Study, beside: StudyLogs, logs: Trajectories) -> None:
    import poela

    gap = training_gap(beside)
    assert gap is not None
    assert gap.validation == pytest.approx(study.result.estimate.value)  # type: ignore[union-attr]
    assert gap.train == pytest.approx(poela.evaluate(study.policy, logs, interval=None).value)
    assert gap.gap == gap.train - gap.validation


def test_frontier_and_ladder_hold_the_choice(study: Study) -> None:
    frontier, ladder = frontier_of(study), ladder_of(study)
    assert [point.chosen for point in frontier.points].count(True) == 1
    assert [rung.chosen for rung in ladder].count(True) == 1
    for point in frontier.line:
        better = [p for p in frontier.points if p.ess > point.ess and p.value > point.value]  # type: ignore[operator]
        assert not better


def test_other_logs_are_refused(study: Study, logs: Trajectories) -> None:
    with pytest.raises(InputError, match="not the logs that"):
        study_logs(study, logs.take(np.arange(80)))


@pytest.mark.parametrize("split", [{"shares": (0.5, 0.3, 0.2)}, {"test": 0.2}])
def test_logs_are_split_as_the_study_split_them(logs: Trajectories, split: dict[str, object]) -> None:
    import poela
    from poela.studies.candidates import Candidate

    made = poela.learn(logs, candidates=[Candidate("fittedq", {"regressor": "ridge"})], backend="inline", **split)  # type: ignore[arg-type]
    given, kept = study_logs(made, logs), study_logs(made, None)
    assert given is not None
    assert kept is not None
    assert given.train.n_episodes == kept.train.n_episodes < logs.n_episodes
    np.testing.assert_array_equal(given.train.rewards, kept.train.rewards)
    assert [part.n_episodes for part in given.held_out] == [part.n_episodes for part in kept.held_out]


def test_a_column_of_text_has_a_stratum_for_each_category() -> None:
    rng = np.random.default_rng(0)
    wards, actions = rng.choice(["ICU", "surgery", "general"], 120), rng.choice(["wait", "treat"], 120)
    table = pa.table(
        {
            "ward": wards.tolist(),
            "action": actions.tolist(),
            "propensity": [0.5] * 120,
            "reward": (2.0 * (actions == "treat") + rng.normal(size=120)).tolist(),
        }
    )
    logs = read_logs(table)
    made = learn(
        logs, candidates=[Candidate("fittedq", {"history": 0, "regressor": "ridge"})], folds=2, backend="inline"
    )
    found = study_logs(made, logs)
    assert found is not None
    _, *strata = action_shares(found, ["ward"]).strata
    assert {stratum.name: stratum.decisions for stratum in strata} == {
        f"ward = {ward}": int((wards == ward).sum()) for ward in ("ICU", "general", "surgery")
    }


def test_groups_of_too_few_cases_are_left_out_however_many_decisions_they_have() -> None:
    """Thirty cases of ten decisions: a group of nine cases has ninety decisions, and still tells of few persons."""
    rng = np.random.default_rng(0)
    n, steps = 30, 10
    ward = np.repeat(np.where(np.arange(n) < 9, 1.0, 0.0), steps)
    contexts = np.column_stack([ward, rng.normal(size=n * steps)])
    logs = Trajectories(
        contexts, rng.integers(2, size=n * steps), np.zeros(n * steps), np.arange(0, n * steps + 1, steps)
    )
    assert [name for name, _ in strata_of_column(logs, logs.feature_names[0])] == [f"{logs.feature_names[0]} = 0"]
    ten = np.repeat(np.arange(n) < 10, steps)
    assert enough_cases(logs, ten)
    assert not enough_cases(logs, np.repeat(np.arange(n) < 9, steps))
    of_one = replace(logs, clusters=np.zeros(n, np.int64))  # all of one person
    assert not enough_cases(of_one, ten)


def test_the_column_that_tells_whom_a_policy_touches(study: Study, beside: StudyLogs, logs: Trajectories) -> None:
    """By hand: of all columns, the one whose groups differ most in the share of decisions that change."""
    change = departures(beside)
    found = touched(beside)
    assert change is not None
    assert found is not None
    spreads = {}
    for column in (*logs.feature_names, "step"):
        means = [change[inside].mean() for _, inside in strata_of_column(logs, column)]
        spreads[column] = max(means) - min(means)
    best = max(spreads, key=lambda name: spreads[name])
    assert found.most.startswith(best)
    assert found.most_share - found.fewest_share == pytest.approx(spreads[best])
