"""Small policies of every kind, and files made of them by somebody who can compute checksums."""

import copy
import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from poela.behavior.boosted import BoostedBehavior
from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior
from poela.behavior.history import HistoryBehavior
from poela.behavior.model import Behavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.propensities import KNNBehavior
from poela.behavior.tempered import TemperedBehavior
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.data.history import WithHistory
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility, Radius
from poela.learners.consensus import Consensus
from poela.learners.fitted_q import FittedQ
from poela.learners.learner import logging_policy
from poela.learners.policy_gradient import POCRM, POELA, POMu
from poela.learners.q_learning import BCQ
from poela.learners.rules import Rules
from poela.learners.safe_improvement import DPRL
from poela.policies.blended import BlendedPolicy
from poela.policies.network import GreedyQPolicy
from poela.policies.plain import Case, Condition
from poela.policies.storage import UNFORESEEN, load_policy
from poela.policies.valued import TiltedPolicy
from poela.regression.step_boosted import fit_boosted
from poela.regression.step_values import StepQ

SLOWEST = 20.0  # seconds of processor time for one file
STUCK = 600.0  # seconds after which even the busiest machine would be done
LONGEST = 500  # letters of a message
QUICK: dict[str, Any] = {"steps": 2, "hidden": (4, 4), "device": "cpu"}
WARM: dict[str, Any] = {**QUICK, "warm_start_steps": 2}
CLONES: dict[str, Any] = {"steps": 3, "hidden": (4,), "device": "cpu"}
BEHAVIORS: dict[str, Behavior] = {
    "knn": KNNBehavior(k=5),
    "clone": CloneBehavior(**CLONES),
    "recurrent": RecurrentCloneBehavior(**CLONES),
    "multinomial": MultinomialBehavior(),
    "boosted": BoostedBehavior(max_rounds=3, held_out=0),
    "tempered": TemperedBehavior(MultinomialBehavior()),
    "looking back": HistoryBehavior(MultinomialBehavior()),
    "tempered recurrent": TemperedBehavior(RecurrentCloneBehavior(**CLONES)),
}


@dataclass
class Forged:
    """A policy file before it is written: the stored object as plain data, and everything around it."""

    kind: Any
    settings: Any
    arrays: dict[str, NDArray[Any]]
    parts: dict[str, "Forged"]

    @classmethod
    def of(cls, stored: Stored) -> "Forged":
        parts = {name: cls.of(part) for name, part in stored.parts.items()}
        settings = json.loads(json.dumps(dict(stored.settings)))
        return cls(stored.kind, settings, {name: np.array(array) for name, array in stored.arrays.items()}, parts)

    def __getitem__(self, path: str) -> "Forged":
        """The part at the end of a path of names; the object itself at an empty one."""
        found = self
        for name in filter(None, path.split("/")):
            found = found.parts[name]
        return found

    def document(self, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        arrays.update({f"{prefix}{name}": array for name, array in self.arrays.items()})
        parts = {name: part.document(f"{prefix}{name}.", arrays) for name, part in self.parts.items()}
        return {"kind": self.kind, "settings": self.settings, "arrays": sorted(self.arrays), "parts": parts}

    def write(
        self,
        directory: Path,
        change: Callable[[dict[str, Any]], None] | None = None,
        file_format: str = "poela-policy",
    ) -> None:
        """Write the file, after a last change to its document."""
        arrays: dict[str, NDArray[Any]] = {}
        body = {"format": file_format, "format_version": 1, "object": self.document("", arrays)}
        if change is not None:
            change(body)
        packed = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        write_files(directory, body, packed, file_format)


def write_files(directory: Path, body: dict[str, Any], packed: bytes, file_format: str = "poela-policy") -> None:
    """A document and packed arrays, with the checksums that they should have."""
    directory.mkdir(exist_ok=True)
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    checksums = {"arrays.safetensors": _sha256(packed), "document": _sha256(canonical)}
    (directory / "arrays.safetensors").write_bytes(packed)
    (directory / f"{file_format}.json").write_text(json.dumps({**body, "checksums": checksums}), encoding="utf-8")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


SAID = (Case("never", 2, where=(Condition("age", 0.5), Condition("dose", 0.0, above=False))), Case("odds", 1, odds=2.0))


@cache
def logs(n_features: int = 2) -> Trajectories:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 60)
    n = int(lengths.sum())
    contexts = rng.normal(size=(n, n_features))
    chances = rng.dirichlet(np.full(3, 3.0), size=n)
    actions = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    rewards = contexts[:, 0] * (actions == 1) + rng.normal(size=n) * 0.1
    features = ("age", "dose", *(f"x{column}" for column in range(2, n_features)))
    names: dict[str, Any] = {"feature_names": features, "action_names": ("none", "low", "high")}
    return Trajectories(contexts, actions, rewards, np.append(0, np.cumsum(lengths)), chances, **names)


@cache
def _policies() -> dict[str, Any]:
    train = logs()
    models: dict[str, Any] = {name: behavior.fit_quietly(train, 0) for name, behavior in BEHAVIORS.items()}
    past = train.with_history(steps=1)
    follow = Radius(0.01, neighbours="same_step", fallback="behavior", scale="standard", weights=(1.0, 0.0))
    # Trees of one tiny regression: the default ones take long to make and to load.
    regression = fit_boosted(train.contexts, train.actions, train.rewards, 3, seed=0)
    boosted = StepQ((regression, regression), 3, train.feature_names, train.action_names)

    def towards(name: str, temperature: float) -> TiltedPolicy:
        rule = (follow if temperature else Eligibility(minimum_probability=0.05)).fit(train, models[name])
        names: dict[str, Any] = {"feature_names": train.feature_names, "action_names": train.action_names}
        return TiltedPolicy(values=boosted, behavior=models[name], temperature=temperature, eligibility=rule, **names)

    def blended(policy: Any, name: str | None = None) -> BlendedPolicy:
        names: dict[str, Any] = {"feature_names": train.feature_names, "action_names": train.action_names}
        behavior = logging_policy(train, None if name is None else models[name])
        mixed = isinstance(policy, GreedyQPolicy)
        return BlendedPolicy(
            policy=policy, behavior=behavior, share=0.3, mixed=mixed, eligibility=policy.eligibility, **names
        )

    return {
        "radius": POELA(radius=0.3, **WARM).fit(train),
        "robust": POELA(radius=0.3, scale="robust", reach="auto", **WARM).fit(train),
        "likely": POMu(minimum_probability=0.1, **WARM).fit(train),
        "any": POCRM(**WARM).fit(train),
        "by a policy": POMu(minimum_probability=0.1, **WARM).fit(train, behavior=POCRM(**WARM).fit(train)),
        "gru": POELA(radius=0.3, network="gru", **{**WARM, "hidden": (4,)}).fit(train),
        "greedy": BCQ(threshold=0.2, **QUICK).fit(train),
        "ridge": FittedQ(temperature=0.5, regressor="ridge").fit(train),
        "coded": FittedQ(temperature=0.5, regressor="coded", history=1).fit(train),
        "wide": FittedQ(temperature=0.5, regressor="ridge", rule=Radius(0.5, fallback="behavior")).fit(
            logs(n_features=8)
        ),
        "counted": DPRL(reach=0.5, least_count=(3,)).fit(train),
        **{f"towards {name}": towards(name, 0.5) for name in models},
        "greedy knn": towards("knn", 0.0),
        "greedy recurrent": towards("recurrent", 0.0),
        "blended": blended(POELA(radius=0.3, **WARM).fit(train)),
        "blended recurrent": blended(POCRM(**WARM).fit(train), "recurrent"),
        "mixed": blended(BCQ(threshold=0.2, **QUICK).fit(train), "multinomial"),
        "sharpened": Consensus(sharpness=(2.0,), rule=Radius(0.3)).fit(train),
        "sharpened recurrent": Consensus(sharpness=(2.0,), rule=follow).fit(train, behavior=models["recurrent"]),
        "rules": Rules().fit(train),
        "rules under a rule": replace(Rules(rule=follow).fit(train, behavior=models["recurrent"]), cases=SAID),
        "never by values": list(Rules(rule=Radius(0.3)).fit_path(train))[8].policy,
        "history": WithHistory.of(MultinomialBehavior().fit_quietly(past, 0), train, steps=1),
        "history of a network": WithHistory.of(POCRM(**WARM).fit(past), train, steps=1),
        **models,
    }


@cache
def _forged() -> dict[str, Forged]:
    return {name: Forged.of(policy.stored()) for name, policy in _policies().items()}


def base_policies() -> dict[str, Any]:
    """Policies under several rules, with every kind of part; made once."""
    return _policies()


def base(name: str) -> Forged:
    """A copy of a policy's file, free to be changed."""
    return copy.deepcopy(_forged()[name])


def bases() -> list[str]:
    """The names of all of them."""
    return list(_forged())


def check_works(policy: Any) -> None:
    """Probabilities along a small log, and of two episodes at once, are those of a policy."""
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(7, policy.n_features)).astype(np.float32)
    contexts[:, :1] = np.arange(7)[:, None] % 4  # for models that look for a clock
    actions = rng.integers(policy.n_actions, size=7)
    names = getattr(getattr(policy, "schema", policy), "feature_names", None)
    log = Trajectories(contexts, actions, np.zeros(7), [0, 4, 7], n_actions=policy.n_actions, feature_names=names)
    _check_rows(policy.along(log), 7, policy.n_actions)
    policy.stored()
    if hasattr(policy, "explain"):
        with suppress(InputError):  # some models have nothing to say of a loose context
            assert "eligible" in str(policy.explain(contexts[0], step=0))
    actor = policy.actor(2)
    for step in range(3):
        _check_rows(actor.probabilities(contexts[[step, 4 + step]]), 2, policy.n_actions)
        actor.record(actions[[step, 4 + step]])


def _check_rows(rows: Any, n: int, n_actions: int) -> None:
    assert rows.shape == (n, n_actions)
    assert np.isfinite(rows).all()
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=2e-6)


def refusal(directory: Path) -> str:
    """What `load_policy` says of a file, which is short, soon said, and was foreseen."""
    with at_most(SLOWEST), pytest.raises(InputError) as caught:
        load_policy(directory)
    return checked_words(str(caught.value), directory)


def checked_words(said: str, directory: Path) -> str:
    """One short sentence, without the name of the directory."""
    said = said.replace(str(directory), "policy")
    assert UNFORESEEN not in said, said
    assert len(said) < LONGEST, said
    assert "\n" not in said, said
    return said


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in what takes more processor time, or waits for what never comes."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds} seconds")

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, STUCK))
    before = [signal.signal(number, stop) for _, number, _ in timers]
    for timer, _, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
