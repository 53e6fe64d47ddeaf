"""The three roles of logged episodes: to learn from, to choose by, and to test with, once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from poela.core.errors import InputError
from poela.core.storage import read_json, write_json
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.studies.material import data_hash
from poela.studies.store import Store


@dataclass(frozen=True)
class Look:
    """One evaluation on episodes that were kept apart, as the study remembers it."""

    policy: str  # which policy was evaluated
    data: str  # the hash of the logs
    number: int  # 1: the first look of this study at these logs
    when: str
    estimate: Estimate

    @property
    def caveat(self) -> str:
        """What a look after the first means; empty for the first."""
        if self.number == 1:
            return ""
        return (
            f"this is look {self.number} at these logs: choosing between policies after looking makes the estimate "
            "too high; keep fresh logs for a final answer"
        )


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

    def look(self, store: Store, policy: Any, name: str, **settings: Any) -> Look | None:
        """Evaluate on the test logs, and record it; None where no episodes were kept for the test."""
        return None if self._test is None else recorded_look(store, policy, name, self._test, **settings)


def recorded_look(store: Store, policy: Any, name: str, logs: Trajectories, **settings: Any) -> Look:
    """Evaluate a policy on logs that were kept apart; asking the same again gives the same answer, and no new look."""
    key = data_hash(logs)
    asked = dict(sorted(settings.items()))
    earlier = _looks(store)
    for entry in earlier:
        if (entry["policy"], entry["data"], entry["settings"]) == (name, key, asked):
            return _look(entry)
    entry = {
        "policy": name,
        "data": key,
        "settings": asked,
        "number": 1 + sum(other["data"] == key for other in earlier),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "estimate": evaluate(policy, logs, **settings).to_dict(),
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
    return Look(entry["policy"], entry["data"], entry["number"], entry["when"], estimate_of(entry["estimate"]))


def estimate_of(plain: Mapping[str, Any]) -> Estimate:
    """The estimate that `Estimate.to_dict` described."""
    return Estimate.from_dict(plain)
