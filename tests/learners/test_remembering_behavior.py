"""Rules that ask a behavior model which remembers whole episodes."""

from typing import Any

import numpy as np
import pytest

from poela.behavior.clone import RecurrentCloneBehavior
from poela.behavior.history import HistoryBehavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.evaluation.evaluate import evaluate
from poela.learners.fitted_q import FittedQ
from poela.learners.learner import Learner
from poela.learners.policy_gradient import POMu
from poela.learners.q_learning import BCQ
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth

FEW: dict[str, Any] = {"steps": 5, "hidden": (4,), "checkpoints": 1, "device": "cpu"}
WARM: dict[str, Any] = {**FEW, "warm_start_steps": 3}
LIKELY = Eligibility(minimum_probability=0.3)


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(TumorGrowth(), TumorBehavior(), 40, seed=0)


BEHAVIORS = [RecurrentCloneBehavior(hidden=(5, 5), steps=30), HistoryBehavior(MultinomialBehavior())]


@pytest.fixture(scope="module", params=BEHAVIORS, ids=["recurrent behavior", "history behavior"])
def behavior(request: pytest.FixtureRequest, logs: Trajectories) -> Policy:
    model: Policy = request.param.fit(logs, seed=0)
    return model


@pytest.mark.parametrize(
    "learner",
    [
        POMu(minimum_probability=0.3, **WARM),
        POMu(minimum_probability=0.3, network="gru", **WARM),
        BCQ(threshold=0.5, **FEW),
        FittedQ(temperature=1.0, history=0, rule=LIKELY),
    ],
    ids=["network", "recurrent", "greedy", "tilted"],
)
def test_acting_and_following_logs_agree(learner: Learner, logs: Trajectories, behavior: Policy) -> None:
    policy = learner.fit(logs, seed=0, behavior=behavior)
    acted = run(TumorGrowth(), policy, 6, seed=3)
    assert acted.propensities is not None
    np.testing.assert_allclose(policy.along(acted), acted.propensities, atol=1e-6)
    assert evaluate(policy, logs, interval=None).n_episodes == 40


def test_eligible_actions_are_those_that_the_whole_episode_makes_likely(logs: Trajectories, behavior: Policy) -> None:
    fitted = LIKELY.fit(logs, behavior)
    likely = behavior.along(logs) >= 0.3
    np.testing.assert_array_equal(fitted.along(logs).mask, likely)
