"""What every registered learner of real-valued actions owes its users; a new one is tested the day it is registered."""

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate

from poela.core.errors import InputError
from poela.data.action_space import Box
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.learners.learner import Learner
from poela.learners.registry import LEARNERS
from poela.policies.storage import load_policy
from poela.simulators.registry import simulate

QUICK: dict[str, Any] = {
    "steps": 8,
    "clone_steps": 20,
    "value_steps": 10,
    "checkpoints": 2,
    "hidden": (6,),
    "device": "cpu",
}
FORMS: list[dict[str, Any]] = [{}, {"radius": "q90"}, {"radius": 0.05, "action_weight": 2.0}]
OWN: dict[str, list[dict[str, Any]]] = {
    "continuouspoela": [
        {"ratios": "step"},
        {"least_ess": 20.0, "distance_penalty": 1.0},
        {"ratios": "step", "radius": "q90"},
    ]
}


def made(name: str, form: dict[str, Any]) -> Learner:
    learner: Any = LEARNERS[name]()
    quick = {field.name: QUICK[field.name] for field in fields(learner) if field.name in QUICK}
    result: Learner = replace(learner, **{**quick, **form})
    return result


EVERY = {
    " ".join([name, *(f"{key}={value}" for key, value in form.items())]): made(name, form)
    for name in LEARNERS
    if LEARNERS[name].acts_in is Box
    for form in FORMS + OWN.get(name, [])
}
every_learner = pytest.mark.parametrize("learner", EVERY.values(), ids=EVERY.keys())
LOGS = simulate("titration", episodes=40)


@every_learner
def test_policies_are_reproducible_and_the_last_checkpoint_is_the_fit(learner: Any) -> None:
    before = torch.random.get_rng_state()
    *_, last = learner.fit_path(LOGS, seed=3)
    assert torch.equal(before, torch.random.get_rng_state())
    again = learner.fit(LOGS, seed=3)
    first, second = (policy.log_density(LOGS.contexts, LOGS.actions) for policy in (last.policy, again))
    np.testing.assert_array_equal(first, second)


@every_learner
def test_densities_are_densities_and_draws_have_one(learner: Any) -> None:
    policy = learner.fit(LOGS, seed=0)
    draws = policy.sample(LOGS.contexts, np.random.default_rng(0))
    assert draws.shape == LOGS.actions.shape
    assert np.isfinite(policy.log_density(LOGS.contexts, draws)).all()
    context = LOGS.contexts[:1]
    mean, std = (float(part[0, 0]) for part in policy.moments(context))
    grid = np.linspace(mean - 12 * std, mean + 12 * std, 20_001)
    density = np.exp(policy.log_density(np.repeat(context, len(grid), axis=0), grid[:, None]))
    assert integrate.trapezoid(density, grid) == pytest.approx(1.0, abs=0.01)
    assert evaluate(policy, LOGS, interval=None).ess > 0


@every_learner
def test_a_saved_policy_is_the_same(learner: Any, tmp_path: Path) -> None:
    policy = learner.fit(LOGS, seed=0)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    np.testing.assert_array_equal(
        loaded.log_density(LOGS.contexts, LOGS.actions), policy.log_density(LOGS.contexts, LOGS.actions)
    )
    draws = [one.sample(LOGS.contexts, np.random.default_rng(1)) for one in (policy, loaded)]
    np.testing.assert_array_equal(*draws)
    decided = loaded.decide({"level": [0.1, -0.5], "drift": [0.0, 0.2]})
    expected = ["row", "level", "drift", "rate", "log_density", "defer", "policy", "rate_spread"]
    assert decided.column_names[: len(expected)] == expected
    inside = loaded.log_density(np.array([[0.1, 0.0], [-0.5, 0.2]]), decided["rate"].to_numpy()[:, None])
    acts = ~decided["defer"].to_numpy()
    assert np.isfinite(inside[acts]).all()
    np.testing.assert_allclose(decided["log_density"].to_numpy()[acts], inside[acts], atol=1e-12)


@every_learner
def test_settings_are_frozen_and_logs_of_a_finite_set_refused(learner: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        learner.hidden = (3,)
    with pytest.raises(InputError, match="needs real-valued actions"):
        learner.fit(simulate("bandit", episodes=20))


@every_learner
def test_several_action_columns_can_be_learned(learner: Any) -> None:
    rng = np.random.default_rng(0)
    logs = Trajectories(
        rng.normal(size=(30, 2)),
        rng.normal(size=(30, 2)),
        rng.normal(size=30),
        range(0, 31, 2),
        log_densities=rng.normal(size=30) - 2,
    )
    policy = learner.fit(logs)
    draws = policy.sample(logs.contexts, rng)
    assert np.isfinite(policy.log_density(logs.contexts, draws)).all()
