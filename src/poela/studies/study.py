"""A study as one opens it: its runs, every policy that was judged, the recommended one, and what it is worth."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError, PoelaError
from poela.core.forward import forward
from poela.data.groups import SMALLEST_GROUP
from poela.data.opening import AnyTable
from poela.evaluation.estimate import Estimate
from poela.stats.gain import Gain
from poela.studies import tables
from poela.studies.answer import Answer
from poela.studies.defaults import is_random
from poela.studies.fold_data import read_behavior
from poela.studies.groups import Groups
from poela.studies.keeping_apart import evaluations
from poela.studies.names import names_of
from poela.studies.outcomes import read_outcomes
from poela.studies.records import (
    CheckpointRecord,
    ChoiceRecord,
    EvaluationRecord,
    RunRecord,
    SoFarRecord,
    Task,
    refuse_unshown,
)
from poela.studies.selection import Choice, Point
from poela.studies.settings import StudySettings
from poela.studies.store import Store

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow as pa

    from poela.data.trajectories import Trajectories
    from poela.report.plots import Plots
    from poela.studies.splits import Given

LOGGING_POLICY = "logging policy"


class Study:
    """What was tried, how it was judged, what is recommended and why.

    `learn` returns one, and `Study.open(directory)` opens one that is on disk, finished or not.
    """

    def __init__(
        self, store: Store, parts: "tuple[Trajectories, Trajectories | None, Trajectories | None] | None" = None
    ):
        self.store = store
        self.parts = parts  # its logs (to teach, to judge, to test with), in the process that learned from them
        self.record = store.record()

    def __repr__(self) -> str:
        """Where it is, how far it has come, and what came of it."""
        done = f"{len(self.runs)} of {len(self.tasks)} runs"
        if self.result is None:
            said = "unfinished"
        elif self.result.chosen is None:
            said = "keeps the logging policy"
        else:
            said = f"recommends {self.result.policy!r}" if self.result.policy else "recommends a policy"
        return f"Study({str(self.directory)!r}, {done}, {said})"

    @classmethod
    def open(cls, directory: str | Path) -> "Study":
        """The study in this directory, finished or not; what its result rests on must be there and unchanged."""
        study = cls(Store(directory))
        study.refuse_changed(missing_is_fine=False)
        _ = study.evaluations  # which says at once if they cannot be read
        return study

    def refuse_changed(self, *, missing_is_fine: bool) -> None:
        """Refuse runs that are not those which the result rests on; missing ones can be made again."""
        rests_on = {} if self.result is None else self.result.runs
        wrong = [
            run_id
            for run_id, fingerprint in rests_on.items()
            if (run_id in self.all_runs or not missing_is_fine)
            and (run_id not in self.all_runs or self.all_runs[run_id].fingerprint != fingerprint)
        ]
        if wrong:
            raise InputError(
                f"{self.directory}: {len(wrong)} of the {len(rests_on)} runs that its result rests on are missing or "
                f"were changed, first {wrong[0]}: restore them, or continue the study with --resume"
            )

    @property
    def settings(self) -> StudySettings:
        """Everything that its results depend on, beside the logs."""
        return self.record.settings

    @property
    def directory(self) -> Path:
        """Where it is."""
        return self.store.directory

    @property
    def n_folds(self) -> int:
        """How often episodes are split into those that teach and those that judge."""
        return self.record.data.folds

    @property
    def only_teach(self) -> int:
        """How many episodes, the first ones, only teach: they taught what logged the others."""
        return 0 if self.record.rounds is None else self.record.rounds.only_teach

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All runs of the study, finished or not: in an order in which a cut study has tried every candidate."""
        tasks = (
            Task(candidate, restart, self.settings.restart_seed(restart), fold)
            for restart in range(self.settings.restarts)
            for candidate in self.settings.candidates
            if restart == 0 or is_random(candidate)
            for fold in range(self.n_folds)
        )
        return tuple({task.run_id: task for task in tasks}.values())

    @cached_property
    def all_runs(self) -> Mapping[str, RunRecord]:
        """The records of all finished runs, with those on every episode."""
        return self.store.finished_runs()

    @cached_property
    def runs(self) -> Mapping[str, RunRecord]:
        """The records of the finished runs, in the order of the tasks."""
        return {task.run_id: self.all_runs[task.run_id] for task in self.tasks if task.run_id in self.all_runs}

    @property
    def left_out(self) -> tuple[Task, ...]:
        """The runs that have not finished."""
        return tuple(task for task in self.tasks if task.run_id not in self.runs)

    @cached_property
    def result(self) -> ChoiceRecord | None:
        """What `choice.json` says, where the study as it is now has come to its end."""
        stored = self.store.read(ChoiceRecord)
        # One that goes on with other settings leaves the earlier result behind until it ends.
        return stored if stored is not None and self.record.is_of(stored.study) else None

    @property
    def so_far(self) -> SoFarRecord | None:
        """The provisional answer of a study that has not come to its end; None where there is none yet."""
        stored = None if self.result is not None else self.store.read(SoFarRecord)
        return stored if stored is not None and self.record.is_of(stored.study) else None

    @cached_property
    def _ended(self) -> ChoiceRecord:
        if self.result is None:
            raise PoelaError(f"{self.directory} has come to no result yet: continue it with --resume")
        return self.result

    @property
    def points(self) -> tuple[Point, ...]:
        """Every policy that was judged."""
        return () if self.result is None else self.result.points

    @property
    def choice(self) -> Choice:
        """The chosen point (None: the logging policy), and why."""
        if self.result is None:
            return Choice(None, None, "the study has not come to its end")
        chosen = self.result.chosen
        return Choice(None if chosen is None else self.points[chosen], self.result.score, self.result.reason)

    @property
    def keeps_logging_policy(self) -> bool:
        """Whether nothing is recommended but to carry on as before."""
        return self._ended.chosen is None

    @property
    def gain(self) -> Gain | None:
        """New minus current, of the recommended policy or (where there is none) of the one that is worth a trial.

        The lower end holds with the confidence of the selection for all policies together; the choice is paid for. That
        of a policy worth a trial, or closest to it where none is, holds for it alone.
        """
        return self._ended.gain

    @property
    def answer(self) -> Answer:
        """What to do, in words."""
        return Answer.of(self._ended, self.settings, self.record)

    def _repr_html_(self) -> str:
        from poela.studies.answer import html_of

        return html_of(self)

    @property
    def chosen_name(self) -> str:
        """The name of the recommended policy."""
        chosen = self.choice.chosen
        return LOGGING_POLICY if chosen is None else self.name_of(chosen)

    def name_of(self, point: Point) -> str:
        """What people call a policy of this study, such as "mild tilt 5": see `names`."""
        return self.names[point.path_id, point.number]

    @cached_property
    def names(self) -> Mapping[tuple[str, int], str]:
        """The name of every policy that was judged, by its path and its number there; no two are the same."""
        return names_of(self, self.points)

    def details_of(self, point: Point | None) -> str:
        """How a policy was made: learner, settings as asked for, restart, and where on its path it is."""
        if point is None:
            return LOGGING_POLICY
        task, checkpoint = self.origin(point)
        where = checkpoint.note or f"step {checkpoint.step}"
        return f"{task.candidate}, restart {task.restart}, {where}"

    def origin(self, point: Point) -> tuple[Task, CheckpointRecord]:
        """Which run made a point, in the first fold, and where on its path."""
        run = self.all_runs.get(point.run_id)
        if run is None or point.number >= len(run.checkpoints):
            raise InputError(f"{self.directory}: its result names a policy that no run has: it was changed")
        return run.task, run.checkpoints[point.number]

    @cached_property
    def policy(self) -> Any:
        """The policy that `answer` is about; where the logging policy is kept, a model of it, which can be worse."""
        chosen = self.choice.chosen
        if chosen is not None:
            return self.policy_of(chosen)
        model = read_behavior(self.directory / "behavior")
        if model is None:
            raise PoelaError(f"{self.directory} has no policy yet: {self.choice.reason}")
        return model

    @property
    def rule(self) -> str | None:
        """What the recommended policy says, in the log's own words; None where it cannot be said, or there is none."""
        return None if self._ended.chosen is None else getattr(self.policy, "rule", None)

    def decide(
        self,
        rows: AnyTable,
        *,
        likeliest: bool = False,
        unproven: bool = False,
        capacity: str | None = None,
        spend: float | None = None,
        case: str | None = None,
        seed: int | None = None,
        similar: bool = True,
        keep: Sequence[str] = (),
        leave: bool = False,
    ) -> "pa.Table":
        """The recommended policy's decisions for the rows of a table, drawn as they were judged.

        As `study.policy.decide(rows)`, and a column `outcome`: the mean of what came of the nearest similar cases. With
        `likeliest` it hands out the likeliest action, where this is shown to be better too or you say `unproven`. With
        a `capacity` ("large=100") or a `spend` (per case) the rows are a batch, allotted by value for money. With
        `leave` people choose among what a policy that says *never* does not bar.
        """
        from poela.policies.allotting import BatchLimits
        from poela.studies.allotment import decided_batch

        how: Any = {"case": case, "seed": seed, "similar": similar, "keep": keep}
        if (limits := BatchLimits.of(capacity, spend)) is not None:
            if leave:
                raise InputError("a batch is allotted, or choices are left to people: say one of them")
            return decided_batch(self, rows, limits, unproven=unproven, likeliest=likeliest, **how)
        policy = self.acting_policy
        if likeliest and not unproven:
            refuse_unshown(self._ended.likeliest, "unproven=True", self.record.outcome)
        known = read_outcomes(self.directory)
        return policy.decide(rows, outcomes=known, likeliest=likeliest, unproven=likeliest, leave=leave, **how)

    @property
    def acting_policy(self) -> Any:
        """The recommended policy; an error where the study recommends to carry on as before."""
        if self._ended.chosen is None:
            tried = f", or try {self.directory / 'promising'} where that is safe"
            trial = "" if self._ended.promising is None else tried
            none = "recommends no new policy, so there is nothing to decide by"
            raise InputError(f"{self.directory} {none}: carry on as before{trial}")
        return self.policy

    @cached_property
    def promising(self) -> Any:
        """The policy that is worth a trial: better by its own bound, as if no other had been tried; None without one.

        Its verdict is at least caution, and where propensities are estimated its bound survives Γ: try it where safe.
        """
        number = self._ended.promising
        return None if number is None else self.policy_of(self.points[number])

    def policy_of(self, point: Point) -> Any:
        """A point's policy: fitted on all episodes that teach, or in a study of one split on its training episodes."""
        run_id = self.fitted_run(point)
        if run_id not in self.all_runs:
            raise PoelaError(f"{self.name_of(point)} was not fitted on all episodes: only the chosen ones are")
        return self._policy(run_id, point.number)

    def fitted_run(self, point: Point) -> str:
        """The run that a point's policy is from."""
        return f"{point.path_id}-{'all' if self.n_folds > 1 else 0}"

    @property
    def exact_policy(self) -> Any:
        """The recommended policy as it was judged: in each episode, one of those that the folds learned."""
        from poela.policies.mixture import EpisodeMixture

        chosen = self.choice.chosen
        if chosen is None:
            raise InputError("this study recommends no policy: carry on as before")
        return EpisodeMixture(tuple(self.fold_policy(chosen, fold) for fold in range(self.n_folds)))

    def fold_policy(self, point: Point, fold: int) -> Any:
        """What a fold's training episodes taught, which its held-out episodes judged."""
        return self._policy(f"{point.path_id}-{fold}", point.number)

    def _policy(self, run_id: str, number: int) -> Any:
        from poela.policies.storage import load_checked

        return load_checked(self.store.policy(run_id, number), f"{self.directory}, run {run_id}")

    @property
    def evaluations(self) -> tuple[EvaluationRecord, ...]:
        """Every evaluation on logs that were kept apart, the oldest first."""
        return evaluations(self.store)

    @property
    def test_evaluation(self) -> EvaluationRecord | None:
        """The evaluation of the chosen policy on the study's own test logs."""
        key = self.record.data.hashes.get("test")
        made = self.details_of(self.choice.chosen)
        evaluations = [one for one in self.evaluations if one.data == key and one.policy == made]
        return evaluations[-1] if evaluations else None

    @property
    def estimate(self) -> Estimate:
        """The value of the recommended policy: on the test logs where there are any, else on held-out episodes."""
        evaluation = self.test_evaluation
        return self._ended.estimate if evaluation is None else evaluation.estimate

    def by(self, *columns: str, logs: "Given | None" = None, smallest: int = SMALLEST_GROUP) -> Groups:
        """Who gets what, and who gains: for everybody, and by groups of these columns, such as "ward" or "age:3".

        The gain of the recommended policy (or of the one worth a trial) in every group, with bounds that hold for all
        groups together. A column of the context counts as it was at the first step of an episode; other columns of the
        table need `logs`, the table that was learned from, as does a study that was opened from disk. Groups of fewer
        than `smallest` cases are merged.
        """
        from poela.studies.by_group import asked_groups

        return asked_groups(self, columns, logs, smallest)

    def report(
        self,
        out: "str | PathLike[str]",
        logs: "Trajectories | str | PathLike[str] | None" = None,
        *,
        by: Sequence[str] = (),
        show_values: bool = False,
        trajectory: int | None = None,
        title: str | None = None,
        refresh: int | None = None,
        brief: bool = False,
        per_year: int | None = None,
        smallest_group: int | None = None,
    ) -> Path:
        """Write one self-contained page about the study; the rest is explained by `poela.PageOptions`.

        `logs` are those that it was made of, which a study on disk does not keep: some sections need them.
        """
        options = by, show_values, trajectory, title, refresh, brief, per_year, smallest_group
        path: Path = forward("page")(self, out, logs, *options)
        return path

    @property
    def plot(self) -> "Plots":
        """Figures for papers, as Matplotlib axes: `study.plot.frontier()`, `.ladder()`, `.actions(by=…)`, …"""
        plots: Plots = forward("plots")(self)
        return plots

    def table(self) -> "pa.Table":
        """Every policy that was judged with its settings and metrics, in the order of the study."""
        return tables.of_policies(self)

    def frontier(self) -> "pa.Table":
        """Value against effective sample size: the policies that no other beats in both, best supported first."""
        return tables.best_by(self, "sntis")

    def ladder(self) -> "pa.Table":
        """From cautious to bold: by shown gain and effective sample size, then those that cannot be verified."""
        return tables.ladder(self)
