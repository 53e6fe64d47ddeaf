"""The three roles of logged episodes: to learn from, to choose by, and to test with, once."""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from poela.core.errors import InputError
from poela.core.storage import atomic_file, read_json, write_json
from poela.data.trajectories import Trajectories
from poela.evaluation.contributions import Contributions
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate, standard_error
from poela.studies.material import data_hash
from poela.studies.store import Store

CHANCE = 0.05  # a share of episodes that may look alike without a word


@dataclass(frozen=True)
class Look:
    """One evaluation on episodes that were kept apart, as the study remembers it."""

    policy: str  # which policy was evaluated
    data: str  # the hash of the logs
    number: int  # 1: the first look of this study at these logs
    when: str
    estimate: Estimate

    seen: int = 0  # how many of these episodes took part in learning or choosing

    @property
    def caveat(self) -> str:
        """What to know about the look itself; empty for a first look at fresh episodes."""
        if self.seen:
            return (
                f"{self.seen} of {self.estimate.n_episodes} episodes took part in learning or choosing, which makes "
                "the estimate too high: evaluate on others"
            )
        if self.number > 1:
            return (
                f"this is look {self.number} at these logs: choosing between policies after looking makes the estimate "
                "too high; keep fresh logs for a final answer"
            )
        return ""


class StudyData:
    """Training and validation logs are open; the test logs can only be looked at, and every look is recorded."""

    def __init__(self, train: Trajectories, validation: Trajectories, test: Trajectories | None) -> None:
        for role, logs in (("validation", validation), ("test", test)):
            if logs is not None and (logs.feature_names, logs.action_names) != (
                train.feature_names,
                train.action_names,
            ):
                raise InputError(
                    f"the {role} logs have other features or actions (or another order) than the training logs"
                )
        self.train, self.validation = train, validation
        self._test = test

    @property
    def n_test_episodes(self) -> int:
        """How many episodes are kept for the test."""
        return 0 if self._test is None else self._test.n_episodes

    def hashes(self) -> dict[str, str | None]:
        """The hash of each part."""
        parts = {"train": self.train, "validation": self.validation, "test": self._test}
        return {role: None if logs is None else data_hash(logs) for role, logs in parts.items()}

    def logging_value_on_test(self, discount: float) -> dict[str, float] | None:
        """What the logging policy achieved on the test logs; this tells nothing about any other policy."""
        return None if self._test is None else logging_value(self._test, discount)

    def look(self, store: Store, policy: Any, name: str, **settings: Any) -> Look | None:
        """Evaluate on the test logs, and record it; None where no episodes were kept for the test."""
        return None if self._test is None else recorded_look(store, policy, name, self._test, **settings)


def write_episodes(store: Store, data: StudyData) -> None:
    """Note which episodes learn and choose, by hashes of their content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    roles = {"train": data.train, "validation": data.validation}
    digests = {role: episode_digests(logs) for role, logs in roles.items()}
    columns = {
        "role": [role for role, found in digests.items() for _ in found],
        "episode": [digest for found in digests.values() for digest in found],
    }
    with atomic_file(store.directory / "episodes.parquet") as temporary:
        pq.write_table(pa.table(columns), temporary)


def seen_before(store: Store, logs: Trajectories) -> int:
    """How many of these episodes took part in learning or choosing, beyond what chance would have.

    Where contexts are few, different episodes look alike. So those of validation that look like a training episode tell
    how many of fresh ones would.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(store.directory / "episodes.parquet").to_pydict()
    known: dict[str, set[str]] = {"train": set(), "validation": set()}
    for role, digest in zip(table["role"], table["episode"], strict=True):
        known[role].add(digest)
    by_chance = len(known["train"] & known["validation"]) / max(len(known["validation"]), 1)
    alike = sum(digest in known["train"] or digest in known["validation"] for digest in episode_digests(logs))
    return alike if alike / logs.n_episodes > 2 * by_chance + CHANCE else 0


def episode_digests(logs: Trajectories) -> list[str]:
    """A hash of each episode's contexts, actions and rewards.

    >>> logs = Trajectories([[0.0], [1.0], [0.0]], [0, 1, 0], [1.0, 3.0, 1.0], [0, 1, 2, 3])
    >>> first, second, third = episode_digests(logs)
    >>> first == third != second
    True
    """
    bounds = list(itertools.pairwise(logs.offsets.tolist()))
    arrays = (logs.contexts, logs.actions, logs.rewards)
    return [hashlib.sha256(b"".join(a[i:j].tobytes() for a in arrays)).hexdigest()[:16] for i, j in bounds]


def logging_value(logs: Trajectories, discount: float) -> dict[str, float]:
    """The mean return of the logs, and its standard error.

    >>> logging_value(Trajectories([[0.0], [0.0]], [0, 1], [1.0, 3.0], [0, 1, 2]), discount=1.0)["value"]
    2.0
    """
    returns = Contributions.mean(logs.returns(discount))
    return {"value": returns.value, "standard_error": standard_error(returns)}


def recorded_look(store: Store, policy: Any, name: str, logs: Trajectories, reason: str = "", **settings: Any) -> Look:
    """Evaluate a policy on logs that were kept apart; asking the same again gives the same answer, and no new look.

    `reason` is something about the logs that belongs to the verdict, such as estimated propensities.
    """
    key = data_hash(logs)
    asked = dict(sorted(settings.items()))
    earlier = _looks(store)
    for entry in earlier:
        if (entry["policy"], entry["data"], entry["settings"]) == (name, key, asked):
            return _look(entry)
    estimate = evaluate(policy, logs, **settings)
    if reason:
        estimate = replace(estimate, reasons=(*estimate.reasons, reason))
    entry = {
        "policy": name,
        "data": key,
        "settings": asked,
        "number": 1 + sum(other["data"] == key for other in earlier),
        "seen": 0 if policy is None else seen_before(store, logs),  # what was achieved is no choice's luck
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "estimate": estimate.to_dict(),
    }
    write_json(store.directory / "looks.json", [*earlier, entry])
    return _look(entry)


def looks(store: Store) -> tuple[Look, ...]:
    """All looks so far, the oldest first."""
    return tuple(map(_look, _looks(store)))


def _looks(store: Store) -> list[dict[str, Any]]:
    path = store.directory / "looks.json"
    found: list[dict[str, Any]] = read_json(path) if path.exists() else []
    return found


def _look(entry: Mapping[str, Any]) -> Look:
    estimate = Estimate.from_dict(entry["estimate"])
    return Look(entry["policy"], entry["data"], entry["number"], entry["when"], estimate, entry["seen"])
