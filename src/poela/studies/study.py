"""A study as one opens it: its runs, the table, the choice, the policy, the estimate."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError, PoelaError
from poela.evaluation.estimate import Estimate
from poela.studies.defaults import is_random
from poela.studies.material import read_behavior
from poela.studies.records import ChoiceRecord, LookRecord, RunRecord, Task
from poela.studies.roles import looks
from poela.studies.scoring import METRICS
from poela.studies.selection import Choice, Scored, choose
from poela.studies.settings import StudySettings
from poela.studies.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

LOGGING_POLICY = "logging policy"


class Study:
    """What was tried, how it scored, what was chosen and why.

    `learn` returns one, and `Study.open(directory)` opens one that is on disk, finished or not.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.record = store.record()

    @classmethod
    def open(cls, directory: str | Path) -> "Study":
        """The study in this directory, finished or not; what its result rests on must be there and unchanged."""
        study = cls(Store(directory))
        study.refuse_changed(missing_is_fine=False)
        _ = study.looks  # which says at once if they cannot be read
        return study

    def refuse_changed(self, *, missing_is_fine: bool) -> None:
        """Refuse runs that are not those which the result rests on; missing ones can be made again."""
        rests_on = {} if self.result is None else self.result.runs
        wrong = [
            run_id
            for run_id, fingerprint in rests_on.items()
            if (run_id in self.runs or not missing_is_fine)
            and (run_id not in self.runs or self.runs[run_id].fingerprint != fingerprint)
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

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All runs of the study, finished or not: restart by restart, so that a cut study has tried every candidate."""
        found = (
            Task(candidate, restart, self.settings.restart_seed(restart))
            for restart in range(self.settings.restarts)
            for candidate in self.settings.candidates
            if restart == 0 or is_random(candidate)
        )
        return tuple({task.run_id: task for task in found}.values())

    @cached_property
    def runs(self) -> Mapping[str, RunRecord]:
        """The records of the finished runs, in the order of the tasks."""
        finished = self.store.finished_runs()
        return {task.run_id: finished[task.run_id] for task in self.tasks if task.run_id in finished}

    @property
    def left_out(self) -> tuple[Task, ...]:
        """The runs that have not finished."""
        return tuple(task for task in self.tasks if task.run_id not in self.runs)

    @cached_property
    def scored(self) -> tuple[Scored, ...]:
        """Every checkpoint of every finished run."""
        return tuple(
            Scored(run_id, number, number == len(run.checkpoints) - 1, row.metrics)
            for run_id, run in self.runs.items()
            for number, row in enumerate(run.checkpoints)
        )

    @cached_property
    def choice(self) -> Choice:
        """The chosen checkpoint, and why."""
        return choose(
            self.scored,
            self.settings.selection,
            self.record.data.validation_episodes,
            self.record.logging_policy,
            self.record.data.estimated,
        )

    @property
    def chosen_name(self) -> str:
        """The chosen policy in a few words."""
        chosen = self.choice.chosen
        return LOGGING_POLICY if chosen is None else self.name_of(chosen)

    def name_of(self, scored: Scored) -> str:
        """A checkpoint in a few words: learner, settings as asked for, restart, and where on its path it is."""
        run = self.runs[scored.run_id]
        checkpoint = run.checkpoints[scored.number]
        where = checkpoint.note or f"step {checkpoint.step}"
        return f"{run.task.candidate}, restart {run.task.restart}, {where}"

    @cached_property
    def policy(self) -> Any:
        """The chosen policy; where the logging policy is kept, a model of it, which can be worse than the thing."""
        from poela.policies.storage import load_checked

        if self.choice.chosen is not None:
            stored = self.store.policy(self.choice.chosen.run_id, self.choice.chosen.number)
            return load_checked(stored, f"{self.directory}, run {self.choice.chosen.run_id}")
        model = read_behavior(self.directory / "behavior")
        if model is None:
            raise PoelaError(f"{self.directory} has no policy yet: {self.choice.reason}")
        return model

    @property
    def looks(self) -> tuple[LookRecord, ...]:
        """Every evaluation on logs that were kept apart, the oldest first."""
        return looks(self.store)

    @property
    def test_look(self) -> LookRecord | None:
        """The look of the chosen policy at the study's own test logs."""
        key = self.record.data.hashes.get("test")
        found = [look for look in self.looks if look.data == key and look.policy == self.chosen_name]
        return found[-1] if found else None

    @property
    def estimate(self) -> Estimate:
        """The value of the chosen policy on the test logs, which took no part in learning or choosing."""
        look = self.test_look
        if look is None:
            raise InputError("this study has not looked at test logs: finish it, or evaluate its policy on other logs")
        return look.estimate

    @property
    def result(self) -> ChoiceRecord | None:
        """What `choice.json` says, where the study as it is now has come to its end."""
        found = self.store.read(ChoiceRecord)
        # One that goes on with other settings leaves the earlier result behind until it ends.
        return found if found is not None and found.study == self.record.fingerprint else None

    def table(self) -> "pa.Table":
        """Every checkpoint with its settings and validation metrics, in the order of the study."""
        import pyarrow as pa

        return pa.Table.from_pylist([self._row(scored) for scored in self.scored], schema=_schema())

    def _row(self, scored: Scored) -> dict[str, Any]:
        run = self.runs[scored.run_id]
        checkpoint = run.checkpoints[scored.number]
        return {
            "run": scored.run_id,
            "learner": run.task.candidate.learner,
            "candidate": str(run.task.candidate),
            "restart": run.task.restart,
            "seed": run.task.seed,
            "step": checkpoint.step,
            "note": checkpoint.note,
            "final": scored.final,
            **{name: scored.metrics.get(name) for name in METRICS},
            "score": self.settings.selection.score(scored.metrics),
            "chosen": scored == self.choice.chosen,
        }

    def frontier(self) -> "pa.Table":
        """Value against effective sample size: the checkpoints that no other beats in both, best supported first."""
        import pyarrow as pa

        rows = [row for row in self.table().to_pylist() if row["sntis"] is not None and row["ess"]]
        rows.sort(key=lambda row: (-row["ess"], -row["sntis"]))
        kept: list[dict[str, Any]] = []
        for row in rows:
            if not kept or row["sntis"] > kept[-1]["sntis"]:
                kept.append(row)
        return pa.Table.from_pylist(kept, schema=_schema())


def _schema() -> "pa.Schema":
    import pyarrow as pa

    texts = dict.fromkeys(("run", "learner", "candidate", "note"), pa.string())
    whole = dict.fromkeys(("restart", "seed", "step"), pa.int64())
    numbers = dict.fromkeys((*METRICS, "score"), pa.float64())
    types = {**texts, **whole, **numbers, "final": pa.bool_(), "chosen": pa.bool_()}
    order = ("run", "learner", "candidate", "restart", "seed", "step", "note", "final", *METRICS, "score", "chosen")
    return pa.schema([(name, types[name]) for name in order])
