"""Who made the logs: propensities as logged, or estimated on the training episodes alone."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, log, log1p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.behavior.annotation import FLOOR, Annotation, annotation
from poela.behavior.classifier import behavior_of, behavior_of_amounts
from poela.behavior.gaussian import GaussianBehavior
from poela.behavior.history import HistoryBehavior, memory_of
from poela.behavior.normal import NormalModel
from poela.behavior.propensities import LoggedPropensities
from poela.behavior.registry import BEHAVIORS
from poela.core.errors import InputError
from poela.core.log_cache import cached
from poela.core.paths import is_there
from poela.core.policy import Policy
from poela.core.readable import escaped, plain, share_in_words
from poela.core.references import described, is_reference
from poela.core.storage import Stored, load_stored, save_stored
from poela.data.action_space import Box, Finite
from poela.data.trajectories import Trajectories
from poela.studies.defaults import LOGGED
from poela.studies.fold_data import data_hash, read_behavior, write_behavior
from poela.studies.runs import versions

if TYPE_CHECKING:
    from poela.studies.study import Study

AUTO = ("multinomial", "boosted", "knn")  # from the stiffest to the most flexible
LOOKING_BACK = " with history"  # how the same models are called where they see the last step too
# Above so many steps neighbours are not tried, whose search would grow with the square of the log, and the others are
# compared on so many steps of random episodes. Where propensities are logged, the model only stands for what is not
# known of actions that were not taken: it is fitted on `MOST_BESIDE` steps at most.
MANY_STEPS, MOST_COMPARED, MOST_BESIDE = 50_000, 25_000, 100_000
HELD_OUT = 0.25
NOT_TAKEN = "those of actions not taken"  # what a note says where the propensity of the logged action is all there is
PROPENSITIES, PROPENSITIES_FORMAT = "propensities", "poela-propensities"


@dataclass(frozen=True, eq=False)
class LoggingPolicy:
    """The three parts of the logs with propensities, a model of the logging policy where one was fitted, and a note."""

    parts: tuple[Trajectories | None, ...]
    model: Policy | NormalModel | None
    note: str
    basis: str = ""  # a hash of what estimates were made of, where they were made here

    @property
    def estimated(self) -> bool:
        """Whether weights rest on estimated propensities."""
        return any(part is not None and part.estimated for part in self.parts)


def find_logging_policy(
    parts: tuple[Trajectories | None, ...], behavior: str, seed: int, whole: Trajectories | None = None
) -> LoggingPolicy:
    """The parts (train, validation, test) with propensities: the logged ones, or estimates of a model.

    The model sees training episodes only. Training episodes get cross-fitted propensities, so that no episode is
    weighted by a model that has seen it. Where propensities are logged, a model that is asked for by name serves the
    rules of policies at contexts outside the logs. Whether the logging policy remembers is asked of the `whole` logs
    where these are one fold's: once for a study, and of more episodes.
    """
    train = parts[0]
    assert train is not None
    return MAKERS[train.action_space.kind].find(parts, behavior, seed, whole)


def _logging_probabilities(
    parts: tuple[Trajectories | None, ...], behavior: str, seed: int, whole: Trajectories | None
) -> LoggingPolicy:
    train, asked = _known(parts[0]), whole
    known = "propensities: estimates that the logs carry" if train.estimated else "propensities: as logged"
    if behavior == LOGGED:
        if train.propensities is None or train.propensities.ndim == 1 or train.estimated:
            raise InputError(f"behavior {LOGGED!r} needs logs with the propensities of every action, as logged")
        as_logged = LoggedPropensities(train.n_features, train.n_actions)
        return LoggingPolicy(parts, as_logged, f"{known}; policies build on them, so new cases must bring theirs")
    if train.propensities is not None and train.propensities.ndim == 2:
        if behavior == "auto":
            return LoggingPolicy(parts, None, known)
        _, model = _fitted(train, behavior, seed, asked)
        return LoggingPolicy(parts, model, f"{known}; at contexts outside the logs, by {_in_words(behavior)}")
    if train.propensities is not None:
        name, model = _fitted(train, behavior, seed, asked)
        others = f"{NOT_TAKEN}, which some learners ask for, are estimated by"
        fitted_on = _fitted_on(train) if behavior == "auto" else ""
        return LoggingPolicy(parts, model, f"{known}; {others} {_in_words(name)}{fitted_on}")
    name, likelihoods = (behavior, {}) if behavior != "auto" else best_behavior(train, seed, asked)
    settings = _settings(name, train.n_steps)
    crossed = annotation(settings, train, folds=min(5, train.n_units), seed=seed)
    model = settings.fit_quietly(train, seed)
    later: Any = parts[1:]
    reports = [crossed, *(None if part is None else model.annotation(part) for part in later)]
    annotated = tuple(None if report is None else report.trajectories for report in reports)
    return LoggingPolicy(annotated, model, _note(name, likelihoods, crossed))


def _logging_density(
    parts: tuple[Trajectories | None, ...], behavior: str, seed: int, whole: Trajectories | None
) -> LoggingPolicy:
    """The same of real-valued actions, by a Gaussian model; blends with a learned policy need it in any case."""
    train = _known(parts[0])
    settings = GaussianBehavior() if behavior == "auto" else behavior_of_amounts(behavior)
    by = "a Gaussian model" if behavior == "auto" else described(behavior)
    model = settings.fit_quietly(train, seed)
    if train.knows_logging_policy:
        known = "estimates that the logs carry" if train.estimated else "as logged"
        note = f"log densities: {known}; {by} stands for the logging policy in blends"
        return LoggingPolicy(parts, model, note)
    crossed = settings.annotate(train, folds=min(5, train.n_units), seed=seed)
    others: Any = parts[1:]
    annotated = (crossed, *(None if part is None else model.annotate(part) for part in others))
    likelihood = float(crossed.log_propensities.mean())
    note = f"log densities: estimated, since the logs carry none, by {by} ({likelihood:.3f} "
    return LoggingPolicy(annotated, model, note + "per step on episodes that it has not seen)")


def stored_logging_policy(
    directory: Path,
    parts: tuple[Trajectories | None, ...],
    behavior: str,
    seed: int,
    whole: Trajectories | None = None,
) -> LoggingPolicy:
    """As `logging_policy`; estimates that the study in this directory has made of the same logs are read from there."""
    if parts[0] is not None and parts[0].knows_logging_policy:
        return find_logging_policy(parts, behavior, seed, whole)
    basis = _basis(parts, behavior, seed)
    if is_there(directory / PROPENSITIES):
        stored, _ = load_stored(directory / PROPENSITIES, file_format=PROPENSITIES_FORMAT, version=1)
        model = read_behavior(directory / "behavior")
        if stored.settings.get("basis") == basis and model is not None:
            annotated = tuple(
                None if part is None else part.with_logging_probabilities(stored.arrays[str(place)], estimated=True)
                for place, part in enumerate(parts)
            )
            return LoggingPolicy(annotated, model, str(stored.settings["note"]), basis)
    return replace(find_logging_policy(parts, behavior, seed, whole), basis=basis)


def store_logging_policy(directory: Path, logging: LoggingPolicy) -> None:
    """Write the model, where there is one, and estimated propensities for `stored_logging_policy`."""
    if logging.model is not None:
        write_behavior(directory / "behavior", logging.model)
    if logging.basis:
        arrays = {
            str(place): np.asarray(part.logging_probabilities)
            for place, part in enumerate(logging.parts)
            if part is not None
        }
        stored = Stored("propensities", {"basis": logging.basis, "note": logging.note}, arrays)
        save_stored(
            directory / PROPENSITIES, stored, file_format=PROPENSITIES_FORMAT, version=1, notes={}, overwrite=True
        )


def _basis(parts: tuple[Trajectories | None, ...], behavior: str, seed: int) -> str:
    hashes = [None if part is None else data_hash(part) for part in parts]
    return hashlib.sha256(repr((hashes, behavior, seed, versions())).encode()).hexdigest()


def best_behavior(train: Trajectories, seed: int, whole: Trajectories | None = None) -> tuple[str, Mapping[str, float]]:
    """The model under which held-out actions are likeliest, and the mean log likelihood of each.

    Models that look back take part where the logging policy remembers, by the `whole` logs if they are given.
    """
    judged_by = train if whole is None else whole
    memory = cached(judged_by, ("memory", seed), None, lambda: memory_of(judged_by, seed))
    tried: tuple[str, ...] = AUTO
    if train.n_steps > MANY_STEPS:
        tried, train = tuple(name for name in AUTO if name != "knn"), _some(train, MOST_COMPARED, seed)
    fitted_on, judged_on = train.split((1 - HELD_OUT, HELD_OUT), seed=seed)
    looking_back = tuple(name + LOOKING_BACK for name in tried) if memory.remembers else ()
    likelihoods = {}
    for name in (*tried, *looking_back):
        model = _settings(name, fitted_on.n_steps).fit_quietly(fitted_on, seed)
        rows = model.along(judged_on)[np.arange(judged_on.n_steps), judged_on.actions]
        likelihoods[name] = float(np.log(np.maximum(rows, FLOOR)).mean())
    return max(likelihoods, key=lambda name: likelihoods[name]), likelihoods


def model_of_logging_policy(train: Trajectories, seed: int) -> Any:
    """A policy that acts as the logs do, for where nothing better can be had."""
    return MAKERS[train.action_space.kind].model(train, seed)


@dataclass(frozen=True)
class Maker:
    """How the logging policy of one kind of actions is found, and how one that acts so is made."""

    find: Callable[[tuple[Trajectories | None, ...], str, int, Trajectories | None], LoggingPolicy]
    model: Callable[[Trajectories, int], Any]


MAKERS: Mapping[str, Maker] = {
    Finite.kind: Maker(_logging_probabilities, lambda train, seed: _fitted(train, "auto", seed)[1]),
    Box.kind: Maker(_logging_density, lambda train, seed: GaussianBehavior().fit_quietly(train, seed)),
}


def _known(part: Trajectories | None) -> Trajectories:
    assert part is not None  # there are always episodes that teach
    return part


def _fitted(train: Trajectories, behavior: str, seed: int, whole: Trajectories | None = None) -> tuple[str, Any]:
    name = best_behavior(train, seed, whole)[0] if behavior == "auto" else behavior
    if behavior == "auto" and train.propensities is not None and train.n_steps > MANY_STEPS:
        train = _some(train, MOST_BESIDE, seed)
    return name, _settings(name, train.n_steps).fit_quietly(train, seed)


def _fitted_on(train: Trajectories) -> str:
    """On how many steps the model of actions not taken rests, in words, where these are not all."""
    if train.n_steps <= max(MANY_STEPS, MOST_BESIDE):
        return ""
    return f", fitted on about {MOST_BESIDE:,} of {train.n_steps:,} steps"


def _some(train: Trajectories, most: int, seed: int) -> Trajectories:
    """Random episodes with about so many steps; all of them where there are no more."""
    if train.n_steps <= most:
        return train
    count = max(int(train.n_episodes * most / train.n_steps), 2)
    return train.take(np.sort(np.random.default_rng((seed, 5)).permutation(train.n_episodes)[:count]))


def _settings(name: str, n_steps: int) -> Any:
    if name.endswith(LOOKING_BACK):
        return HistoryBehavior(_settings(name.removesuffix(LOOKING_BACK), n_steps))
    if is_reference(name):
        return behavior_of(name)
    kind: Any = BEHAVIORS[name]
    return kind(k=min(100, max(n_steps // 10, 1))) if name == "knn" else kind()


def _in_words(name: str) -> str:
    if is_reference(name):
        return described(name)
    with_memory = " with the last step's action, since the logging policy remembers it"
    return name.removesuffix(LOOKING_BACK) + with_memory if name.endswith(LOOKING_BACK) else name


def _note(name: str, likelihoods: Mapping[str, float], report: Annotation) -> str:
    chosen = ""
    if likelihoods:
        others = ", ".join(f"{other} {value:.3f}" for other, value in likelihoods.items())
        chosen = f", the likeliest on held-out episodes ({others} per step)"
    floored = ""
    if report.floored_steps:
        floored = f"; {report.floored_steps} training steps are raised to the floor of {plain(report.floor)}"
    return (
        f"propensities: estimated, since the logs carry none, by {_in_words(name)}{chosen}; "
        f"calibration error {report.calibration.expected_calibration_error:.3f}{floored}"
    )


# Groups too small for a log to tell whether an action was never taken there, or not taken by chance.

LEVEL = 0.05  # chance with which a group without the action would have none if it were taken as usual
MOST_ACTIONS = 2  # that are named, the rarest first


def least_noticed(rate: float) -> int:
    """The smallest group in which an action of this usual rate is missing by more than chance: (1 − rate)ⁿ ≤ 5%.

    >>> least_noticed(0.2), least_noticed(0.5), least_noticed(0.01), least_noticed(1.0)
    (14, 5, 299, 1)
    """
    return 1 if rate >= 1 else ceil(log(LEVEL) / log1p(-rate))


def unseen_holes(study: "Study") -> str:
    """Which groups without an action no model of this log could notice; empty where all propensities tell."""
    groups = None if study.result is None else study.result.groups
    data = study.record.data
    if groups is None or groups.amounts or not (data.estimated or NOT_TAKEN in data.propensities):
        return ""
    everybody = groups.everybody
    taken = sorted((rate, name) for rate, name in zip(everybody.before, groups.actions, strict=True) if 0 < rate < 1)
    told = []
    for rate, name in taken[:MOST_ACTIONS]:
        size = min(least_noticed(rate), everybody.episodes)
        told.append(f"{size:,} cases ({share_in_words(size / everybody.episodes)}) for action {escaped(name)}")
    if not told:
        return ""
    return (
        "Small groups that never received an action may go unnoticed, and the bound does not cover that: fewer than "
        f"about {', '.join(told)}, often more."
    )
