"""The CartPole experiment: the paper's grids, its protocol, and its scale."""

from pathlib import Path

import numpy as np
import pytest
from tests.experiments.tiny import tiny

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela_experiments.cartpole import CHOOSING, LOGGING, SCALE, cartpole, cartpole_source, split_logs
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Examined, Truth
from poela_experiments.frame.settings import Size
from poela_experiments.frame.trials import ANY

RUN = tiny("cartpole", Path("out"))


def test_paper_grids() -> None:
    """Table of hyperparameters in the paper's appendix."""
    settings = [
        (candidate.learner, dict(candidate.settings))
        for candidate in candidates_of("cartpole", Size.of("cartpole", "full"))
    ]
    by_learner = {name: [values for other, values in settings if other == name] for name, _ in settings}
    assert {name: len(own) for name, own in by_learner.items()} == {
        "poela": 20,
        "pomu": 4,
        "pocrm": 4,
        "bcq": 5,
        "pql": 5,
    }
    assert {values["radius"] for values in by_learner["poela"]} == {0.0001, 0.0005, 0.001, 0.005, 0.01}
    assert {values["variance_penalty"] for values in by_learner["pocrm"]} == {0, 0.1, 1, 10}
    assert {values["steps"] for values in by_learner["poela"]} == {500}
    assert {(values["steps"], values["batch_size"]) for values in by_learner["bcq"]} == {(1000, 64)}
    assert {values["hidden"] for _, values in settings} == {(256, 256)}


@pytest.mark.parametrize("protocol", ["final", "best"])
def test_thirty_effective_episodes_of_248(protocol: str) -> None:
    assert CHOOSING.selections[protocol].least_ess(248) == pytest.approx(30)


def test_two_hundred_steps_are_a_hundred() -> None:
    logs = Trajectories(np.zeros((40, 1)), np.zeros(40, int), np.full(40, 50.0), np.arange(0, 41, 4), n_actions=2)
    estimate = evaluate(None, logs, estimator="behavior", interval="bca", level=0.90)
    examined = Examined(LOGGING, "final", estimate, Truth(75.0, 25.0), "Markov", SCALE)
    numbers = {number.quantity: number for number in examined.numbers()}
    assert numbers["SNTIS"].value == 100.0
    assert numbers["ESS"].value == 10
    assert (numbers["true value"].value, numbers["true value"].error) == (75.0, 25.0)


def test_a_tiny_run_names_who_has_no_qualified_policy_and_judges_nothing(tmp_path: Path) -> None:
    report = cartpole(tiny("cartpole", tmp_path, about="", episodes=40, roll_outs=5))
    assert report.tables[-1].key == "chosen"
    table = report.tables[0]
    assert {row["agrees"] for row in table.rows} == {""}
    assert {row["least ESS"] for row in report.tables[-1].rows} <= {"", ANY, CHOOSING.least_ess}
    learners = {row["learner"] for row in table.rows}
    missing = {"POELA", "PO-mu", "PO-CRM", "BCQ", "PQL"} - learners
    assert all(any(name in note for note in table.notes) for name in missing)


def test_both_kinds_of_contexts_show_the_same_episodes() -> None:
    markov, other = (split_logs(RUN, kind)[1] for kind in (True, False))
    assert np.array_equal(markov.contexts[:, :3], other.contexts)
    assert all(logs.propensities is None for logs in cartpole_source(RUN, markov=True).given)
