"""The first thing to run: tumor logs in, a policy out, and what it is worth beside PO-CRM and the logging policy."""

from pathlib import Path
from typing import Any

from poela.core.files import atomic_file
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import true_value
from poela.policies.storage import load_object
from poela.simulators.episodes import run as simulated
from poela.simulators.tumor import TumorBehavior, TumorGrowth
from poela.studies.candidates import grid
from poela.studies.learning import learn
from poela.studies.selection import Selection, choose
from poela.studies.study import Study
from poela_experiments.frame.results import Cell, Report
from poela_experiments.frame.run import Run

ROLL_OUTS = 5000


def demo(run: Run) -> Report:
    """Simulate tumor logs, learn POELA and PO-CRM, and compare them with the logging policy."""
    train, validation, test = (
        simulated(TumorGrowth(), TumorBehavior(), run.size.episodes, seed=(run.seed, part)) for part in range(3)
    )
    _write_logs(test, run.out / "test.parquet")
    how = run.execution
    study = learn(
        train,
        out=run.out / "study",
        resume=True,
        jobs=how.jobs,
        backend=how.backend,
        address=how.address,
        validation=validation,
        test=test,
        candidates=[
            *grid("poela", radius=(0.1, 0.5), variance_penalty=(0.1,)),
            *grid("pocrm", variance_penalty=(0.1, 1.0)),
        ],
        restarts=run.size.restarts,
        seed=run.seed,
    )
    rows = [_row(name, policy, test) for name, policy in _policies(study).items()]
    table = run.table(
        "policies",
        "Tumor growth: total reward of each policy, estimated on test logs and true in the simulator",
        rows,
        ("POELA and PO-CRM: the best of their candidates by validation SNTIS",),
    )
    closing = (
        f"The study is in {run.out / 'study'}. Look at it again with:\n"
        f"  poela studies show {run.out / 'study'}\n"
        f"  poela evaluate {run.out / 'study'} --logs {run.out / 'test.parquet'}"
    )
    return run.report([table], closing)


def _policies(study: Study) -> dict[str, Any]:
    policies: dict[str, Any] = {}
    for learner, name in (("poela", "POELA"), ("pocrm", "PO-CRM")):
        own = [item for item in study.points if study.runs[item.run_id].task.candidate.learner == learner]
        chosen = choose(own, Selection(), study.record.data.validation_episodes).chosen
        if chosen is not None:
            policies[name] = load_object(study.store.policy(chosen.run_id, chosen.number))
    return {**policies, "logging policy": TumorBehavior()}


def _row(name: str, policy: Any, test: Trajectories) -> dict[str, Cell]:
    estimate: Estimate = evaluate(policy, test)
    truth = true_value(policy, TumorGrowth(), ROLL_OUTS)
    interval = f"[{estimate.low:.2f}, {estimate.high:.2f}]" if estimate.low is not None else "none"
    return {
        "policy": name,
        "estimate": estimate.value,
        f"{100 * (estimate.level or 0):g}% interval": interval,
        "ESS": estimate.ess,
        "verdict": estimate.verdict or "",
        "true value": truth.value,
        "estimate - truth": estimate.value - truth.value,
    }


def _write_logs(logs: Trajectories, path: Path) -> None:
    import pyarrow.parquet as pq

    with atomic_file(path) as temporary:
        pq.write_table(logs.to_table(), temporary)
