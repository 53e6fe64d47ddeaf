"""The policies of a study as tables: all of them, the frontier, and the ladder from cautious to bold."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from poela.studies.guards import guard_metrics
from poela.studies.judging import METRICS
from poela.studies.selection import Point

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.studies.study import Study


def of_policies(study: "Study") -> "pa.Table":
    """Every policy that was judged with its settings and metrics, in the order of the study."""
    chosen = study.choice.chosen
    return _table(_row(study, point, chosen) for point in study.points)


def best_by(study: "Study", metric: str) -> "pa.Table":
    """The policies that no other beats both in this metric and in effective sample size, best supported first."""
    rows = [row for row in of_policies(study).to_pylist() if row[metric] is not None and row["ess"]]
    rows.sort(key=lambda row: (-row["ess"], -row[metric]))
    best: list[dict[str, Any]] = []
    for row in rows:
        if not best or row[metric] > best[-1][metric]:
            best.append(row)
    return _table(best)


def ladder(study: "Study") -> "pa.Table":
    """By shown gain, and beyond what can be verified by estimated gain."""
    shown = best_by(study, "shown").to_pylist()
    least = min((row["ess"] for row in shown), default=float("inf"))
    bolder = [row for row in best_by(study, "gain").to_pylist() if row["ess"] < least and row["shown"] is None]
    # The recommended policy may be a plainer one than those that no other beats.
    known = {row["name"] for row in shown}
    chosen = [row for row in of_policies(study).to_pylist() if row["chosen"] and row["shown"] is not None]
    shown = sorted([*shown, *(row for row in chosen if row["name"] not in known)], key=lambda row: -(row["ess"] or 0.0))
    return _table([*shown, *bolder])


def _row(study: "Study", point: Point, chosen: Point | None) -> dict[str, Any]:
    task, checkpoint = study.origin(point)
    return {
        "name": study.name_of(point),
        "path": point.path_id,
        "learner": task.candidate.learner,
        "candidate": str(task.candidate),
        "restart": task.restart,
        "seed": task.seed,
        "step": checkpoint.step,
        "note": checkpoint.note,
        "final": point.final,
        **{name: point.metrics.get(name) for name in (*METRICS, *guard_metrics(point.metrics))},
        "score": study.settings.selection.score(point.metrics),
        "verdict": point.verdict,
        "chosen": point == chosen,
    }


def _table(rows: Iterable[dict[str, Any]]) -> "pa.Table":
    import pyarrow as pa

    texts = dict.fromkeys(("name", "path", "learner", "candidate", "note", "verdict"), pa.string())
    whole = dict.fromkeys(("restart", "seed", "step"), pa.int64())
    rows = list(rows)
    guarded = list(dict.fromkeys(name for row in rows for name in guard_metrics(row)))
    numbers = dict.fromkeys((*METRICS, *guarded, "score"), pa.float64())
    types = {**texts, **whole, **numbers, "final": pa.bool_(), "chosen": pa.bool_()}
    first = ("name", "path", "learner", "candidate", "restart", "seed", "step", "note", "final")
    names = (*first, *METRICS, *guarded, "score", "verdict", "chosen")
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, types[name]) for name in names]))
