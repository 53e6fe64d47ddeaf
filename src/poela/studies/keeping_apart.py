"""Logs to learn from, to judge by and to test with are kept apart, and every evaluation on test logs is counted."""

import hashlib
import itertools
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import FloatArray
from poela.core.errors import InputError, PoelaWarning
from poela.core.storage import Stored, load_stored, save_stored
from poela.core.typed import to_plain
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import value_now
from poela.evaluation.scoring import Scoring
from poela.stats.contributions import standard_error
from poela.stats.weights import effective_share
from poela.studies.findings_of_audit import Audit
from poela.studies.fold_data import data_hash
from poela.studies.records import EvaluationRecord, EvaluationsRecord, LoggingValue
from poela.studies.store import Store

PARTS = ("train", "validation", "test")
EPISODES = "poela-episodes"
CHANCE = 0.05  # a share of episodes that may look alike without a word


def refuse_unlike(train: Trajectories, others: Mapping[str, Trajectories | None]) -> None:
    """Refuse logs whose features or actions are not those of the training logs, in that order."""
    names = (train.feature_names, train.action_names)
    problems = [
        f"the {role} logs have other features or actions (or another order) than the training logs"
        for role, logs in others.items()
        if logs is not None and (logs.feature_names, logs.action_names) != names
    ]
    if problems:
        raise InputError(problems)


def refuse_same(train: Trajectories, others: Mapping[str, Trajectories | None]) -> None:
    """Refuse logs to judge by that are those which teach, or each other; note those that share episodes with these."""
    known = {"training": train}
    for role, logs in others.items():
        if logs is None:
            continue
        same = [name for name, other in known.items() if data_hash(other) == data_hash(logs)]
        if same:
            raise InputError(
                f"the {role} logs are the {same[0]} logs: a policy must be judged on other episodes, "
                f"so give other logs, or leave out {role}="
            )
        if shared := _shared_episodes(train, logs):
            warnings.warn(
                f"{shared} of the {logs.n_episodes} episodes of the {role} logs are also in the training logs (same "
                "name and content): they make a policy look better than it is",
                PoelaWarning,
                stacklevel=4,
            )
        known[role] = logs


def _shared_episodes(train: Trajectories, logs: Trajectories) -> int:
    """How many episodes are in both by name and content; 0 where contexts are so few that many look alike anyway."""
    digests = episode_digests(train)
    if len(np.unique(digests)) < (1 - CHANCE) * len(digests) or train.episode_ids is None or logs.episode_ids is None:
        return 0
    there = set(zip(map(str, train.episode_ids), digests.tolist(), strict=True))
    return sum(pair in there for pair in zip(map(str, logs.episode_ids), episode_digests(logs).tolist(), strict=True))


def refuse_repeated(logs: Sequence[Trajectories]) -> None:
    """Refuse logs of which one has episodes of another, as an export of all cases so far has: they would count twice.

    Where contexts are few, different episodes look alike, and nothing is refused.

    >>> from poela.data.trajectories import Trajectories
    >>> rows = np.arange(9.0)
    >>> logs = Trajectories(rows[:, None], [0] * 9, rows, np.arange(10))
    >>> refuse_repeated([logs, logs])
    Traceback (most recent call last):
    poela.core.errors.InputError: 9 of the 9 episodes of log 2 are also in log 1: give each episode once
    """
    digests = [episode_digests(one) for one in logs]
    for (place, first), (number, second) in itertools.combinations(enumerate(digests, start=1), 2):
        by_chance = max(1 - len(np.unique(one)) / len(one) for one in (first, second))
        there, again = np.isin(first, second), np.isin(second, first)
        by_luck = 2 / np.sqrt(min(len(first), len(second)))  # in small logs
        if max(there.mean(), again.mean()) > 2 * by_chance + CHANCE + by_luck:
            alike = int(again.sum())
            raise InputError(
                f"{alike} of the {len(second)} episodes of log {number} are also in log {place}: give each episode once"
            )


def hashes_of(parts: Sequence[Trajectories | None], paid: Sequence[str] = ()) -> dict[str, str | None]:
    """The hash of the training, validation and test logs, as they were given.

    And of the outcomes that learners take for costs, where there are any: other outcomes are only judged by.
    """
    hashes = {role: None if logs is None else data_hash(logs) for role, logs in zip(PARTS, parts, strict=True)}
    if not paid:
        return hashes
    digest = hashlib.sha256()
    for logs in filter(None, parts):
        for name in paid:
            digest.update(np.ascontiguousarray(logs.outcome(name)).data)
    return {**hashes, "cost": digest.hexdigest()}


def write_episodes(store: Store, train: Trajectories, held_out: Trajectories) -> None:
    """Note which episodes teach and judge, by hashes of their content: those of one fold, which has all of them."""
    arrays = {"train": episode_digests(train), "validation": episode_digests(held_out)}
    stored = Stored("episodes", arrays=arrays)
    save_stored(store.directory / "episodes", stored, file_format=EPISODES, version=1, notes={}, overwrite=True)


def seen_before(store: Store, logs: Trajectories) -> int:
    """How many of these episodes took part in learning or choosing, beyond what chance would have.

    Where contexts are few, different episodes look alike. So those of validation that look like a training episode tell
    how many of fresh ones would.
    """
    arrays = load_stored(store.directory / "episodes", file_format=EPISODES, version=1)[0].arrays
    train, validation = (np.unique(np.asarray(arrays[role], np.uint64)) for role in ("train", "validation"))
    by_chance = len(np.intersect1d(train, validation)) / max(len(validation), 1)
    alike = int(np.isin(episode_digests(logs), np.union1d(train, validation)).sum())
    return alike if alike / logs.n_episodes > 2 * by_chance + CHANCE else 0


def episode_digests(logs: Trajectories) -> NDArray[np.uint64]:
    """A hash of each episode's contexts, actions and rewards.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0], [1.0], [0.0]], [0, 1, 0], [1.0, 3.0, 1.0], [0, 1, 2, 3])
    >>> first, second, third = episode_digests(logs)
    >>> bool(first == third != second)
    True
    """
    bounds = list(itertools.pairwise(logs.offsets.tolist()))
    arrays = (logs.contexts, logs.actions, logs.rewards)
    digests = (hashlib.sha256(b"".join(a[i:j].tobytes() for a in arrays)).digest()[:8] for i, j in bounds)
    return np.frombuffer(b"".join(digests), np.uint64)


def logging_value(parts: Sequence[Trajectories], scoring: Scoring, reference: FloatArray | None = None) -> LoggingValue:
    """The mean return of logs, and its standard error; of capped returns where these are asked about.

    `reference` are the log weights [n] of what is done now, where others made some of the episodes.

    >>> from poela.data.trajectories import Trajectories
    >>> logging_value([Trajectories([[0.0], [0.0]], [0, 1], [1.0, 3.0], [0, 1, 2])], Scoring()).value
    2.0
    """
    returns = np.concatenate([scoring.capped(logs).returns(scoring.discount) for logs in parts])
    own = [np.zeros(logs.n_episodes) if logs.seen_weights is None else logs.seen_weights for logs in parts]
    seen = None if all(logs.staying is None for logs in parts) else np.concatenate(own)
    value = value_now(returns, reference, scoring.truncation, seen)
    return LoggingValue(value.value, standard_error(value), None if seen is None else _effective(parts, seen))


def _effective(parts: Sequence[Trajectories], log_weights: FloatArray) -> float:
    """How many episodes, or clusters, weights [n] of the episodes of all parts leave in effect; parts share none."""
    if parts[0].clusters is None:
        return effective_share(log_weights) * len(log_weights)
    sizes = np.cumsum([0, *(logs.n_units for logs in parts)])
    clusters = np.concatenate([np.asarray(logs.clusters) + start for logs, start in zip(parts, sizes, strict=False)])
    return effective_share(log_weights, clusters) * int(sizes[-1])


def recorded_evaluation(
    store: Store,
    policy: Any,
    name: str,
    logs: Trajectories,
    key: str,
    scoring: Scoring,
    wrong: str = "",
    audit: Audit | None = None,
    reference: FloatArray | None = None,
) -> EvaluationRecord:
    """Evaluate a policy on logs that were kept apart; asking the same again gives the same answer, and no new record.

    `key` is the hash of the logs as they were given, `wrong` what is wrong with them, if that is known,
    and `audit` what was found in them; `reference` are the log weights [n] of what is done now, where several policies
    made these logs.
    """
    settings = to_plain(scoring)
    earlier = evaluations(store)
    for entry in earlier:
        known = not wrong or wrong in entry.estimate.reasons
        if (entry.policy, entry.data, entry.settings) == (name, key, settings) and known:
            return entry
    estimate = evaluate(policy, logs, scoring=scoring, wrong=wrong, reference=reference)
    evaluation = EvaluationRecord(
        policy=name,
        data=key,
        settings=settings,
        number=1 + sum(other.data == key for other in earlier),
        seen=0 if policy is None else seen_before(store, logs),  # what was achieved is no choice's luck
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        estimate=estimate,
        audit=audit,
    )
    store.write(EvaluationsRecord((*earlier, evaluation)))
    return evaluation


def evaluations(store: Store) -> tuple[EvaluationRecord, ...]:
    """All evaluations on other logs so far, the oldest first."""
    stored = store.read(EvaluationsRecord)
    return () if stored is None else stored.looks
