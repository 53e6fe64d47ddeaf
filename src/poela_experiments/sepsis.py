"""The sepsis experiment: the paper's tables and figures in a simulator, where the truth is known."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from poela.simulators.sepsis import VARIANTS
from poela_experiments.frame.figures import cloud_figure, line_figure, panel_figure, paper_and_ours
from poela_experiments.frame.results import Report, ResultTable, place_of
from poela_experiments.frame.run import Run
from poela_experiments.sepsis_actions import DOSES, DRAWN_STEPS, action_table, eligibility_table
from poela_experiments.sepsis_beside import beside_table, closing
from poela_experiments.sepsis_logs import BEHAVIORS, sepsis_source
from poela_experiments.sepsis_tables import (
    ablation_table,
    published_tables,
    radius_table,
    sizes_table,
    trade_off_table,
    weights_table,
)


def sepsis(run: Run) -> Report:
    """All tables: behavior models of the paper's, and both variants with own care."""
    beside = [f"{variant} {number}" for number in range(run.size.own_data_sets) for variant in VARIANTS]
    made = run.made({name: partial(part, run, name) for name in (*run.size.behaviors, *beside)})
    tables = [ResultTable(**{**table, "notes": tuple(table["notes"])}) for own in made.values() for table in own]
    return run.report(tables, closing(tables), pictures)


def part(run: Run, name: str) -> list[dict[str, Any]]:
    """The tables of one part, in plain."""
    if name in BEHAVIORS:
        source = sepsis_source(run, "harmless", name)
        tables = [*published_tables(run, source, name)]
        if name == "kNN":
            others = (ablation_table, radius_table, weights_table, trade_off_table, sizes_table)
            tables += [table(run, source) for table in (*others, action_table, eligibility_table)]
    else:
        variant, number = name.split()
        tables = [beside_table(run, variant, int(number))]
    return [asdict(table) for table in tables]


def pictures(directory: Path, tables: dict[str, ResultTable]) -> None:
    """Those that are no comparisons: by radius, value against effective sample size, actions, eligible actions."""

    def rows(key: str) -> list[dict[str, Any]]:
        return [dict(row) for row in tables[key].rows] if key in tables else []

    for name, y, what, more in (
        ("value", "value", "SNTIS", ["true value"]),
        ("ess", "effective sample size", "ESS", []),
    ):
        quantities = [*(f"{where} {what}" for where in ("training", "test", "validation")), *more]
        drawn = paper_and_ours(rows("radius"), quantities, of="quantity", x="learner")
        place = place_of(directory, "sepsis", f"radius-{name}")
        if drawn:
            line_figure(place, f"Sepsis: POELA by its radius, {y}", drawn, x="δ", y=y, judged=False)
    if own := rows("trade-off"):
        clouds = {
            name: tuple([row[column] for row in own if row["learner"] == name] for column in ("ESS", "SNTIS"))
            for name in dict.fromkeys(row["learner"] for row in own)
        }
        title = "Sepsis: the best checkpoint of every run on validation logs"
        place = place_of(directory, "sepsis", "trade-off")
        cloud_figure(place, title, clouds, x="effective sample size", y="SNTIS")  # type: ignore[arg-type]
    panels: dict[tuple[str, str], list[list[float]]] = {}
    for row in rows("actions"):
        doses = [row[f"vasopressor {dose}"] for dose in range(DOSES)]
        panels.setdefault((row["contexts"], row["policy"]), []).append(doses)
    _panels(directory, "actions", "Sepsis: shares of actions by severity of illness (darker: more)", panels)
    panels = {
        (row["rule"], f"step {row['step']}"): [[c == "x" for c in row[f"fluid {dose}"]] for dose in range(DOSES)]
        for row in rows("eligible")
        if row["step"] < DRAWN_STEPS
    }
    _panels(directory, "eligible", "Sepsis: eligible actions (dark) of one patient", panels)


def _panels(directory: Path, key: str, title: str, panels: dict[tuple[str, str], list[list[float]]]) -> None:
    if panels:
        shares = {name: np.array(rows, np.float64) for name, rows in panels.items()}
        panel_figure(
            place_of(directory, "sepsis", key),
            title,
            shares,
            x="vasopressor, dose 0 to 4 from left",
            y="fluid, 0 to 4 upwards",
        )
