"""Settings given by name, sorted out: which belong to the study, to its selection and scoring, and to its execution."""

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from poela.behavior.classifier import behavior_reference
from poela.core.errors import InputError, PoelaWarning
from poela.core.options import apply_options, options_of, refuse_unknown
from poela.core.references import is_reference
from poela.core.validation import expect_kind, expect_list
from poela.data.action_space import Box, Finite
from poela.data.layout import LogLayout
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Scoring
from poela.learners.registry import LEARNERS
from poela.stats.bounds import Bounds
from poela.studies.candidates import AnyLearner, Candidate, checked_candidates
from poela.studies.defaults import (
    DEFAULT_CONTINUOUS,
    MANY_STEPS,
    default_candidates,
    in_parts,
    of_many_steps,
    of_one_step,
)
from poela.studies.options import Execution, LearnOptions, StudyOptions
from poela.studies.priced_candidates import of_these_cases, with_spending
from poela.studies.selection import DEFAULT_SELECTION, Selection
from poela.studies.settings import StudySettings

# Limits of time in the words that people use.

TO_LEARN = 0.8  # of a limit of time; the rest is for leaving two folds out of what is claimed


@dataclass(frozen=True)
class Deadlines:
    """Until when candidates are tried, and until when anything is fitted; None: no limit."""

    learning: float | None = None
    everything: float | None = None

    @classmethod
    def of(cls, seconds: float | None) -> "Deadlines":
        """From now on.

        >>> Deadlines.of(None)
        Deadlines(learning=None, everything=None)
        """
        if seconds is None:
            return cls()
        now = time.monotonic()
        return cls(now + TO_LEARN * seconds, now + seconds)


def seconds_of(time: float | str | None) -> float | None:
    """A limit of time in seconds.

    >>> seconds_of("10m"), seconds_of("1.5h"), seconds_of(30), seconds_of(None)
    (600.0, 5400.0, 30.0, None)
    """
    if time is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)?", str(time).strip())
    if not match or float(match[1]) <= 0:
        raise InputError(f"{time!r} is no time: write 90s, 10m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]


def refuse_amount(budget: object) -> None:
    """Refuse `--budget 100`: without a unit it is more likely an amount to spend than a time.

    >>> refuse_amount("10m")
    """
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", str(budget)):
        raise InputError(
            f"--budget {str(budget).strip()} has no unit: to limit the time say --time 10m; what may be spent per case "
            "is --cost COLUMN (or --cost large=3,small=1) with --spend 0.5"
        )


STUDY_SCORING = Scoring(smoothing=0.01, folds=2)
SHARES = (0.5, 0.3, 0.2)  # where one split is asked for in other words


def parse_settings(
    values: dict[str, Any], selection: Selection | None, scoring: Scoring | None
) -> tuple[LearnOptions, Execution, StudySettings]:
    """Where the logs come from, how the study is carried out, and its settings; everything is checked.

    >>> asked, execution, settings = parse_settings({"learners": ["clone"], "jobs": 2, "choose_by": "wdr"}, None, None)
    >>> execution.jobs, settings.selection.by, settings.scoring.level
    (2, 'wdr', 0.95)
    >>> parse_settings({"returns": (0, 1)}, None, None)[2].scoring.bounds
    Bounds(lowest_return=0, highest_return=1, largest_weight=None)
    """
    learn_options = apply_options(LearnOptions(), values)
    if "behavior" in values:
        values["behavior"] = behavior_reference(values["behavior"])
    study_options = apply_options(StudyOptions(), values)
    if "budget" in values:
        _renamed(values)
    if "time" in values:
        values["time"] = seconds_of(values["time"])
    execution = apply_options(Execution(), values)
    chosen = _selection(selection, values)
    scored = _scoring(scoring, values)
    one_split = study_options.shares is not None or learn_options.validation is not None or study_options.folds is None
    shares = SHARES if study_options.shares is None else expect_list("shares", study_options.shares)
    share_of_test = float(learn_options.test) if isinstance(learn_options.test, int | float) else None
    settings = StudySettings.checked(
        _candidates(learn_options, study_options.behavior),
        restarts=study_options.restarts,
        seed=study_options.seed,
        behavior=study_options.behavior,
        folds=None if one_split else study_options.folds,
        shares=shares if one_split else None,
        test_share=share_of_test or 0.0,
        path="ambition" if chosen.by == "gain" else "training",
        by_model=chosen.by != "sntis",
        selection=chosen,
        scoring=scored,
    )
    return replace(learn_options, test=learn_options.test if share_of_test is None else None), execution, settings


def _renamed(values: dict[str, Any]) -> None:
    """`budget`, as the time was called, by its name now."""
    old = values.pop("budget")
    if old is None:
        return
    if isinstance(old, str):
        refuse_amount(old)
    if values.get("time") is not None:
        raise InputError("time and budget, its old name, are both given: say time alone")
    values["time"] = old
    warnings.warn("budget is called time now (--time): the old name works for a while", PoelaWarning, stacklevel=4)


def fit_to_actions(settings: StudySettings, options: LearnOptions, logs: Trajectories) -> StudySettings:
    """The settings as the actions of the logs ask for: other learners, and no model of values, where they are real.

    >>> from poela.simulators.registry import simulate
    >>> options, _, settings = parse_settings({}, None, None)
    >>> sorted({one.learner for one in fit_to_actions(settings, options, simulate("dosing", episodes=9)).candidates})
    ['continuouspoela', 'iql']
    """
    space, usual = logs.action_space, USUAL[logs.action_space.kind]
    if options.candidates is None:
        settings = replace(settings, candidates=checked_candidates(usual.candidates(settings, options, logs)))
    built = [(one.learner, one.build().acts_in) for one in settings.candidates]
    unfit = [(name, needed) for name, needed in built if needed is not None and needed is not type(space)]
    if unfit:
        fitting = ", ".join(name for name, kind in LEARNERS.loadable() if kind.acts_in in (type(space), None))
        (name, needed), *_ = unfit
        raise InputError(
            f"learner {name!r} needs {needed.in_words}, and these logs have {space.in_words}: choose from {fitting}"
        )
    return usual.judged(settings)


def _of_choices(settings: StudySettings, options: LearnOptions, logs: Trajectories) -> Sequence[Candidate]:
    """Single decisions are simpler, and large logs take more care."""
    candidates: Sequence[Candidate] = settings.candidates
    if logs.n_steps == logs.n_episodes:
        candidates = of_one_step(candidates)
    if logs.n_steps >= MANY_STEPS:
        candidates = of_many_steps(in_parts(candidates, logs.n_steps, logs.n_episodes))
    return candidates


def _of_amounts(settings: StudySettings, options: LearnOptions, logs: Trajectories) -> Sequence[Candidate]:
    """Other learners, unless some are named."""
    if options.learners is not None:
        return settings.candidates
    return default_candidates(DEFAULT_CONTINUOUS, ruled=not options.no_rule)


def _without_values(settings: StudySettings) -> StudySettings:
    """By weights alone: there is no model of the values of amounts, and no mixture with the logging policy."""
    if settings.selection.by not in ("gain", "sntis") and not is_reference(settings.selection.by):
        raise InputError(
            f"choosing by {settings.selection.by} needs a model of values, and that a finite set of actions: these "
            "logs have real-valued ones, so choose by gain or sntis"
        )
    return replace(settings, by_model=False, scoring=replace(settings.scoring, smoothing=0.0))


def _one_quick(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The linear one alone, unless learners are named."""
    if settings.keys().isdisjoint(("learners", "candidates", "no_rule")):
        return {"candidates": default_candidates(["continuouspoela"])[:1]}
    return {"learners": ["continuouspoela"]}


@dataclass(frozen=True)
class Usual:
    """What is tried on logs of one kind of actions, and by what it is judged, unless somebody says otherwise."""

    candidates: Callable[[StudySettings, LearnOptions, Trajectories], Sequence[Candidate]]
    judged: Callable[[StudySettings], StudySettings]
    quick: Callable[[Mapping[str, Any]], dict[str, Any]]  # what a plan tries


USUAL: Mapping[str, Usual] = {
    Finite.kind: Usual(_of_choices, lambda settings: settings, lambda settings: {"learners": ["fittedq"]}),
    Box.kind: Usual(_of_amounts, _without_values, _one_quick),
}


def fit_to_logs(settings: StudySettings, options: LearnOptions, logs: Trajectories) -> StudySettings:
    """The settings as the actions of the logs, and what these cost, ask for."""
    return with_spending(fit_to_actions(of_these_cases(settings, logs), options, logs), options, logs)


def _candidates(options: LearnOptions, behavior: str) -> Sequence[Candidate | AnyLearner]:
    if options.candidates is None:
        learners: Any = options.learners
        return default_candidates(learners, ruled=not options.no_rule, behavior=behavior)
    candidates: Sequence[Candidate | AnyLearner] = options.candidates
    return candidates


def _selection(selection: Selection | None, values: dict[str, Any]) -> Selection:
    if selection is None:
        selection = usual_selection(values.get("choose_by", DEFAULT_SELECTION.by))
    changed: Selection = apply_options(expect_kind("selection", selection, Selection, "a Selection, or None"), values)
    return changed


def _scoring(scoring: Scoring | None, values: dict[str, Any]) -> Scoring:
    """Any setting of `Scoring` may be given by its own name, too."""
    for name in ("returns", "bounds"):
        if isinstance(values.get(name), tuple | list):
            values[name] = Bounds(*values[name])
    own: Scoring = apply_options(scoring or STUDY_SCORING, values)
    names = [field.name for field in fields(Scoring)]
    changed = replace(own, **{name: values.pop(name) for name in names if name in values})
    if columns := [name for name in values if name in {field.name for field in fields(LogLayout)}]:
        named = ", ".join(f"{name}=..." for name in columns)
        raise InputError(f"columns are named when a table is read: learn from poela.read_logs(table, {named})")
    groups = (LearnOptions(), StudyOptions(), DEFAULT_SELECTION, Execution(), own)
    refuse_unknown(values, {*names, *(name for group in groups for name in options_of(group))})
    return changed


def usual_selection(by: str = DEFAULT_SELECTION.by) -> Selection:
    """How a study chooses by this rule when nobody says more.

    >>> usual_selection("wdr").confidence
    0.99
    """
    return DEFAULT_SELECTION if by == DEFAULT_SELECTION.by else Selection(by, "best", 0.99, proof=0.95)
