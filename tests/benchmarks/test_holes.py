"""The measurement on logs with holes in support: truths by hand, sizes of holes, rows, tables, and the command."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.holes_in_support.compare import SCENARIOS as COMPARED_SCENARIOS
from benchmarks.holes_in_support.compare import comparison, tasks
from benchmarks.holes_in_support.processes import THIRD, OneStep, Steps
from benchmarks.holes_in_support.rows import append_row, left, read_rows
from benchmarks.holes_in_support.scenarios import KINDS, MUST, Scenario, scenario, smooth_practice
from benchmarks.holes_in_support.studies import Task, barred, studied, tasks_of
from benchmarks.holes_in_support.tables import clopper_pearson, fill_page, table
from benchmarks.holes_in_support.variants import RULES, settings_of
from scipy.stats import norm
from tests.warm import warm

from poela import POCRM, POELA
from poela.core.errors import InputError
from poela.core.policy import Memoryless

ROOT = Path(__file__).parents[2]
PHI = norm.cdf
# By hand, from normal probabilities and shares of time.
HOLES = {
    "half": 1 - PHI(1),
    "corner": (1 - PHI(0.3)) ** 2,
    "pocket": (PHI(1.2) - PHI(0.4)) * (PHI(1) - PHI(-1)),
    "protocol-first": 1 / 3,
    "protocol-last": 1 / 3,
    "ward": 1 / 6,
    "stopped": 0.2,
}


class Acting(Memoryless):
    """The first action, but the third where a function of contexts says so."""

    def __init__(self, third: Any) -> None:
        self.third = third

    def probabilities(self, contexts: Any) -> Any:
        where = np.broadcast_to(self.third(np.asarray(contexts, np.float64)), len(contexts))
        return np.stack([~where, 0.0 * where, where], axis=1).astype(np.float64)


class Practice(Memoryless):
    """What is done now."""

    def __init__(self, process: Any) -> None:
        self.process = process

    def probabilities(self, contexts: Any) -> Any:
        return self.process.practice(np.asarray(contexts, np.float64))


ALWAYS = Acting(lambda x: np.True_)


def one_step(kind: str) -> OneStep:
    process = KINDS[kind](4)
    assert isinstance(process, OneStep)
    return process


@pytest.mark.parametrize("kind", HOLES)
def test_truths_of_one_step_are_those_by_hand(kind: str) -> None:
    process, hole = one_step(kind), HOLES[kind]
    assert process.truth(ALWAYS).gain == pytest.approx(0.8 * (1 - hole) - 5 * hole, abs=2e-3)
    assert process.truth(ALWAYS).in_hole == 1.0
    best = process.truth(Acting(lambda x: ~process.harmed(x)))
    assert best.gain == pytest.approx(0.8 * (1 - hole), abs=1e-3)
    assert best.in_hole == 0.0
    assert process.truth(Practice(process)).gain == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", HOLES)
def test_logs_have_holes_of_the_size_said_and_nobody_there_gets_the_third_action(kind: str) -> None:
    process, n = one_step(kind), 40_000
    logs = process.simulate(n, seed=5)
    hole, third = process.harmed(logs.contexts.astype(np.float64)), logs.actions == THIRD
    assert hole.mean() == pytest.approx(HOLES[kind], abs=5 * 0.5 / np.sqrt(n))
    assert not third[hole].any()
    assert third[~hole].mean() == pytest.approx(0.2, abs=5 * 0.4 / np.sqrt(n * (1 - HOLES[kind])))
    assert logs.all_propensities is not None
    assert (logs.all_propensities[hole, THIRD] == 0).all()
    # The value of practice, by hand: a fifth of those outside get one more.
    assert logs.returns().mean() == pytest.approx(0.2 * (1 - HOLES[kind]), abs=5 * 1.3 / np.sqrt(n))


def test_wards_and_months_are_what_they_are_called() -> None:
    wards = scenario("ward:none").logs(500, seed=1)
    assert wards.feature_names[4:] == tuple(f"ward {number}" for number in range(1, 7))
    assert (wards.contexts[:, 4:].sum(axis=1) == 1).all()
    assert not ((wards.actions == THIRD) & (wards.contexts[:, 6] == 1)).any()
    months = scenario("protocol-last:own").logs(500, seed=1)
    assert set(np.unique(months.contexts[:, 4])) == set(range(24))
    assert months.contexts[months.actions == THIRD, 4].max() == 15


@pytest.mark.parametrize("steps", [4, 8])
def test_truths_of_several_steps_are_those_by_hand(steps: int) -> None:
    process, hole = Steps(steps), 1 - PHI(1)
    by_hand = steps * (0.8 * 0.4 * (1 - hole) - 2 * hole)
    assert process.truth(ALWAYS).gain == pytest.approx(by_hand, abs=steps * 1e-3)
    best = process.truth(Acting(lambda x: x[:, 0] <= 1))
    assert best.gain == pytest.approx(steps * 0.8 * 0.4 * (1 - hole), abs=steps * 1e-3)
    assert (best.in_hole, process.truth(ALWAYS).in_hole) == (0.0, 1.0)
    assert process.truth(Practice(process)).gain == pytest.approx(0.0, abs=1e-12)


def test_logs_of_several_steps_pay_what_practice_is_worth() -> None:
    process, n, hole = Steps(4), 20_000, 1 - PHI(1)
    logs = process.simulate(n, seed=3)
    assert (logs.lengths == 4).all()
    group = logs.contexts[:, 0].reshape(n, 4)
    assert (group == group[:, :1]).all()
    assert not (logs.actions[logs.contexts[:, 0] > 1] == THIRD).any()
    assert logs.contexts[:, 1].std() == pytest.approx(1.0, abs=0.02)
    returns = logs.returns()
    assert returns.mean() == pytest.approx(4 * 0.2 * 0.4 * (1 - hole), abs=5 * returns.std() / np.sqrt(n))


def test_without_a_hole_everybody_may_get_it() -> None:
    logs = scenario("nohole:all").logs(200, seed=0)
    assert logs.all_propensities is not None
    assert (logs.all_propensities == [0.4, 0.4, 0.2]).all()
    assert one_step("nohole").truth(ALWAYS).in_hole is None
    # Better by one for everybody, where practice gives it with a probability known by quadrature.
    at = np.linspace(-9, 9, 20_001)
    given = float((smooth_practice(at[:, None])[:, THIRD] * norm.pdf(at)).sum() * (at[1] - at[0]))
    assert one_step("smooth").truth(ALWAYS).gain == pytest.approx(1 - given, abs=1e-4)
    assert KINDS["steps4-nohole"](4).simulate(50, 0).propensities is not None


def test_scenarios_tell_as_much_as_they_say() -> None:
    every, own, none = (scenario(f"half:{known}").logs(60, seed=2) for known in ("all", "own", "none"))
    assert every.propensities is not None
    assert own.propensities is not None
    assert none.propensities is None
    assert every.propensities.shape == (60, 3)
    assert np.array_equal(own.propensities, every.logged_propensities)
    assert np.array_equal(every.contexts, none.contexts)
    assert scenario("corner:all:d20").logs(60, seed=2).n_features == 20


def test_the_twelve_exist() -> None:
    assert len(set(MUST)) == 12
    assert all(isinstance(scenario(name), Scenario) for name in MUST)


@pytest.mark.parametrize("name", ["half", "half:some", "whole:own", "half:own:d3", "half:own:20", "steps4:all:d20"])
def test_other_scenarios_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="there is no scenario"):
        scenario(name)


def test_variants_are_settings_of_learn() -> None:
    assert settings_of("default") == {}
    assert settings_of("norule") == {"no_rule": True}
    ruled = settings_of("radius", ["poela", "pocrm", "fittedq", "bcq"])["candidates"]
    assert {one.learner for one in ruled} == {"poela", "fittedq", "bcq"}  # PO-CRM has no rule
    assert [one.build().rule.radius for one in ruled if one.learner == "poela"] == ["q95", "q99"]
    assert all(one.build().rule.radius == "q95" for one in ruled if one.learner != "poela")
    with pytest.raises(InputError, match="none takes such a rule"):
        settings_of("radius", ["pocrm"])
    with pytest.raises(InputError, match="there is no variant"):
        settings_of("other")


def test_learners_are_compared_under_the_rules_that_they_are_said_to_have() -> None:
    asked = tasks(["half:own"], 300, [1])
    assert len(asked) == len({task.kind for task in asked}) == 12
    for task in asked:
        if task.variant == "norule":
            continue
        for one in settings_of(task.variant, task.learners)["candidates"]:
            learner: Any = one.build()
            rule = learner.eligibility_rule() if hasattr(learner, "eligibility_rule") else learner.rule
            assert (rule.support is None, rule.radius is None) == (task.variant == "radius", task.variant != "radius")
            assert rule.price == (1.0 if task.variant == "soft" else None)
    for name in COMPARED_SCENARIOS:
        scenario(name)
    assert [task.variant for task in tasks(["half:own"], 300, [1], ["pocrm"])] == ["norule"]
    with pytest.raises(InputError, match="'consensus' is not compared: choose from pocrm, fittedq, bcq, poela"):
        tasks(["half:own"], 300, [1], ["consensus"])


def test_a_comparison_is_of_what_is_recommended_or_promising() -> None:
    def row(seed: int, **other: Any) -> dict[str, Any]:
        return made_up(seed) | {"learners": "poela", "variant": "support", "estimate": 0.5} | other

    claimed = row(1, claimed=True, shown=0.2, true=0.4, in_hole=0.1)
    open_ = row(2, claimed=False, shown=None, true=None, in_hole=None, promising_true=-0.2, promising_in_hole=0.3)
    *_, line = comparison([claimed, open_, {"error": "x", **row(3)}]).splitlines()
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:] == ["poela", "support", "2", "0.100", "20.0%", "+0.400 ± 0.300", "0.100", "0", "1"]


def test_a_rule_without_a_radius_takes_the_place_of_the_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "support", {"minimum_probability": 0.02})
    (ruled,) = settings_of("support", ["bcq"])["candidates"]
    assert (ruled.build().rule.minimum_probability, ruled.build().rule.radius) == (0.02, None)
    monkeypatch.setitem(RULES, "support", {"no such rule": 1.0})
    with pytest.raises(InputError, match="needs a rule with 'no such rule', which this version does not have"):
        settings_of("support")


def test_a_rule_is_asked_about_the_half_that_it_was_not_fitted_on() -> None:
    logs = scenario("half:all").logs(10, seed=0)
    # A radius of 0 knows the contexts of its own half alone, so each other one falls back on its nearest action.
    own, other = logs.contexts[::2].astype(np.float64), logs.contexts[1::2].astype(np.float64)
    nearest = logs.actions[::2][((other[:, None] - own) ** 2).sum(axis=2).argmin(axis=1)]
    assert barred(POELA(radius=0.0), None, logs) == pytest.approx((nearest != logs.actions[1::2]).mean())
    assert barred(POCRM(), None, logs) == 0.0


def test_a_study_leaves_a_row_and_the_run_goes_on_after_it(tmp_path: Path) -> None:
    first, second = tasks_of(["half:all"], 150, "default", ["fittedq"], [1, 2])
    row = json.loads(json.dumps(studied(first)))
    assert row["seed"] == 1
    assert row["claimed"] == (row["recommended"] and row["shown"] > 0)
    assert row["seconds"] > 0
    append_row(tmp_path, first, row)
    assert left([first, second], tmp_path) == [second]
    with (tmp_path / f"{first.kind}.jsonl").open("a") as file:
        file.write('{"scenario": "ha')  # as a killed run leaves it
    append_row(tmp_path, second, row | {"seed": 2, "error": "it failed"})
    assert left([first, second], tmp_path) == [second]
    assert [one["seed"] for one in read_rows(tmp_path)] == [1, 2]


def test_a_study_that_fails_is_a_row_too() -> None:
    assert "error" in studied(Task("half:all", 1, "default", ("fittedq",), 0))


def made_up(seed: int, **other: Any) -> dict[str, Any]:
    row = {"scenario": "half:own", "n": 1500, "variant": "default", "learners": "usual", "seed": seed, "seconds": 10.0}
    nothing = {"recommended": False, "claimed": False, "shown": None, "false": False, "harmful": False}
    return row | nothing | other


def test_tables_count_claims_and_harm() -> None:
    claim = {"recommended": True, "claimed": True, "in_hole": 0.5, "barred": 0.01}
    rows = [
        made_up(1, **claim, code="older", shown=0.4, true=0.2, false=True, true_as_judged=0.5),
        made_up(2, **claim, shown=0.2, true=-0.2, false=True, true_as_judged=-0.1, harmful=True),
        made_up(3, promising_true=0.3, promising_in_hole=0.1, barred=0.04),
        made_up(4, error="it failed"),
    ]
    _, _, line, _, together, failed, mixed = table(rows).splitlines()
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        *("half:own", "1500", "default", "usual", "3", "2", "2", "1", "1", "0.300", "0.000", "0.200"),
        *("50.0%", "0.300", "10.0%", "2.0%", "10"),
    ]
    assert "3 logs, 2 claims; above the truth 2, 66.7% [9.4%, 99.2%] of logs" in together  # R: binom.test(2, 3)
    assert failed == "- 1 studies failed and are left out."
    assert mixed == "- 1 lines mix rows of several versions of the code."


def test_the_interval_of_a_share_is_the_exact_one() -> None:
    assert clopper_pearson(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert clopper_pearson(10, 10) == pytest.approx((0.025**0.1, 1.0))
    assert clopper_pearson(1, 2) == pytest.approx((1 - np.sqrt(0.975), np.sqrt(0.975)))


def test_what_a_rule_costs_is_told_log_by_log() -> None:
    claim = {"recommended": True, "claimed": True, "true": 1.0}
    rows = [
        *(made_up(1, **claim, shown=0.9), made_up(2, **claim, shown=0.5), made_up(3, **claim, shown=7.0)),
        *(made_up(1, **claim, shown=1.0, variant="norule"), made_up(2, variant="norule")),
    ]
    # Differences of −0.1 and 0.5 (nothing was claimed there): mean 0.2, standard error 0.3, of 0.5.
    assert table(rows).splitlines()[-1] == "| half:own | 1500 | usual | default | 2 | 0.700 | 0.500 | +40.0% ± 60.0% |"


def test_a_page_is_filled_from_the_rows_beside_it(tmp_path: Path) -> None:
    page, task = tmp_path / "holes.md", Task("half:own", 1500, "default", (), 1)
    append_row(tmp_path / "holes" / "now", task, made_up(1))
    page.write_text("# Holes\n<!-- rows: now -->\nold\n<!-- end of rows -->\nThe end.\n", encoding="utf-8")
    fill_page(page)
    text = page.read_text(encoding="utf-8")
    assert table([made_up(1)]) in text
    assert "old" not in text
    assert text.endswith("<!-- end of rows -->\nThe end.\n")
    page.write_text("<!-- rows: before -->\n<!-- end of rows -->\n", encoding="utf-8")
    with pytest.raises(InputError, match="no rows for the part 'before'"):
        fill_page(page)


def script(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(warm().python), str(ROOT / "benchmarks" / "holes.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_command_studies_its_share_once(tmp_path: Path) -> None:
    asked = ("half:all", "--size", "150", "--logs", "2", "--shard", "2/2", "--learners", "fittedq", "--out")
    done = script(*asked, str(tmp_path))
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()
    assert file.name == "half-all.150.default.fittedq.jsonl"
    (row,) = read_rows(tmp_path)
    assert row["seed"] == 30_001
    again = script(*asked, str(tmp_path))
    assert again.stdout.strip() == table([row])
    assert "| half:all | 150 | default | fittedq | 1 |" in again.stdout


def test_what_the_command_cannot_do_is_one_sentence(tmp_path: Path) -> None:
    done = script("half:nobody", "--out", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no scenario 'half:nobody'")
    assert len(done.stderr.splitlines()) == 1
