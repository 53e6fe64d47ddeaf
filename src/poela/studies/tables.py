"""The policies of a study as tables: all of them, the frontier, and the ladder from cautious to bold."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from poela.studies.guards import guard_metrics
from poela.studies.judging import METRICS
from poela.studies.selection import Point

LEAST_CHANGE = 0.005  # of decisions: a policy that changes fewer reads as one that changes none

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.studies.study import Study


def of_policies(study: "Study") -> "pa.Table":
    """Every policy that was judged with its settings and metrics, in the order of the study."""
    chosen = study.choice.chosen
    return _table(_row(study, point, chosen) for point in study.points)


def best_by(study: "Study", metric: str) -> "pa.Table":
    """The policies that no other beats both in this metric and in effective sample size, best supported first."""
    return _table(_best(of_policies(study).to_pylist(), metric))


def _best(rows: Iterable[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    known = [row for row in rows if row[metric] is not None and row["ess"]]
    known.sort(key=lambda row: (-row["ess"], -row[metric]))
    best: list[dict[str, Any]] = []
    for row in known:
        if not best or row[metric] > best[-1][metric]:
            best.append(row)
    return best


def ladder(study: "Study") -> "pa.Table":
    """By shown gain (where nothing is shown, by estimated gain), and beyond what can be verified by estimated gain.

    Policies that change nothing are left out; those that the answer names are there, whatever beats them.
    """
    rows = [row for row in of_policies(study).to_pylist() if _changes(row)]
    verified = [row for row in rows if row["shown"] is not None]
    by = "shown" if any(row["shown"] > 0 for row in verified) else "gain"
    rising = [row for row in verified if (row[by] or 0.0) > 0] or verified  # a first rung that only loses tells nothing
    best = [*_best(rising, by), *(row for row in verified if row["role"])]
    shown = list({row["name"]: row for row in best}.values())
    least = min((row["ess"] for row in shown if row["ess"]), default=float("inf"))
    beyond = [row for row in rows if row["shown"] is None]
    bolder = [row for row in _best(rows, "gain") if row["ess"] < least and row["shown"] is None]
    bolder = list({row["name"]: row for row in [*bolder, *(row for row in beyond if row["role"])]}.values())
    return _table(row for part in (shown, bolder) for row in sorted(part, key=lambda row: -(row["ess"] or 0.0)))


def _changes(row: dict[str, Any]) -> bool:
    return bool(row["role"]) or row["departure"] is None or row["departure"] >= LEAST_CHANGE


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
        "role": role_of(study, point),
    }


def role_of(study: "Study", point: Point) -> str:
    """What a policy is to the answer; empty where the answer does not name it."""
    result = study.result
    if result is None:
        return ""
    places = {
        "recommended": result.chosen,
        "worth a trial": result.promising if result.chosen is None else None,
        "closest to a trial": result.closest if result.chosen is None else None,
        "in words": result.plain,
        "without lots": result.lotless,
    }
    return next((role for role, place in places.items() if place is not None and study.points[place] == point), "")


def _table(rows: Iterable[dict[str, Any]]) -> "pa.Table":
    import pyarrow as pa

    texts = dict.fromkeys(("name", "path", "learner", "candidate", "note", "verdict", "role"), pa.string())
    whole = dict.fromkeys(("restart", "seed", "step"), pa.int64())
    rows = list(rows)
    guarded = list(dict.fromkeys(name for row in rows for name in guard_metrics(row)))
    numbers = dict.fromkeys((*METRICS, *guarded, "score"), pa.float64())
    types = {**texts, **whole, **numbers, "final": pa.bool_(), "chosen": pa.bool_()}
    first = ("name", "path", "learner", "candidate", "restart", "seed", "step", "note", "final")
    names = (*first, *METRICS, *guarded, "score", "verdict", "chosen", "role")
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, types[name]) for name in names]))
