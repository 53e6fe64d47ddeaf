"""A selection rule: of all policies, the one that past cases speak for most."""

from collections.abc import Sequence

from poela.studies.selection import Choice, LoggingValue, Point, Selection


def mildest(
    points: Sequence[Point], selection: Selection, n_episodes: int, logging: LoggingValue | None, estimated: bool
) -> Choice:
    best = max(points, key=lambda point: point.metrics.get("ess") or 0.0)
    return Choice(best, best.metrics["ess"], "the mildest of all")
