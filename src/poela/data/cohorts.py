"""Sepsis cohorts of MIMIC-III in the three layouts that are in use, read by the names of their columns.

The data need credentials (https://physionet.org/content/mimiciii), so users bring their own file.
"""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.labels import encode
from poela.data.layout import LogLayout
from poela.data.numbers import note_type, numbers_of
from poela.data.opening import explain_read_errors, open_source
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.data.words import bad_log, quoted

if TYPE_CHECKING:
    import pyarrow as pa

# The variables of the AI Clinician (Komorowski et al. 2018), by how they are transformed.
BINARY = ("gender", "mechvent", "max_dose_vaso", "re_admission")
NORMAL = (
    *("age", "Weight_kg", "GCS", "HR", "SysBP", "MeanBP", "DiaBP", "RR", "Temp_C", "FiO2_1", "Potassium", "Sodium"),
    *("Chloride", "Glucose", "Magnesium", "Calcium", "Hb", "WBC_count", "Platelets_count", "PTT", "PT", "Arterial_pH"),
    *("paO2", "paCO2", "Arterial_BE", "HCO3", "Arterial_lactate", "SOFA", "SIRS", "Shock_Index", "PaO2_FiO2"),
    "cumulated_balance",
)
LOGARITHMIC = (
    *("SpO2", "BUN", "Creatinine", "SGOT", "SGPT", "Total_bili", "INR"),
    *("input_total", "input_4hourly", "output_total", "output_4hourly"),
)
VARIABLES = (*BINARY, *NORMAL, *LOGARITHMIC)
DOSES = ("max_dose_vaso", "input_total", "input_4hourly")  # of the current step, so no part of its context
FEATURES = tuple(name for name in VARIABLES if name not in DOSES)  # the 44 of the paper

FLUID, VASOPRESSOR, N_ACTIONS = "input_4hourly", "max_dose_vaso", 25
SURVIVED = 100.0
DIED, SHORTER = "outcome_if_died", "outcome"  # the second is read for the first where that is missing

# What the columns of the published MIMIC_outcome.csv hold, where it is not what they are called.
MISLABELLED = {
    "re_admission": "mechvent",
    "mechvent": "max_dose_vaso",
    "Total_bili": "input_total",
    "INR": "input_4hourly",
}


@dataclass(frozen=True)
class CohortLayout:
    """Which columns a file has: ids, steps, features (with a prefix) and what else must be there."""

    episode: str
    step: str
    others: tuple[str, ...]
    prefix: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All that must be there."""
        return (self.episode, self.step, *(f"{self.prefix}{name}" for name in FEATURES), *self.others)


LAYOUTS = {
    "MIMICtable": CohortLayout("icustayid", "bloc", (FLUID, VASOPRESSOR, "mortality_90d")),
    "MIMIC_outcome": CohortLayout("id", "step", ("action", DIED)),
    "mimic_sepsis": CohortLayout("traj", "step", ("a:action", "r:reward"), prefix="o:"),
}


def read_mimic_sepsis(
    path: str | PathLike[str] | Any, layout: str = "auto", as_published: bool = False
) -> Trajectories:
    """Read a sepsis cohort of MIMIC-III: 44 features, 25 actions (5 · fluid + vasopressor), no propensities.

    Three layouts are known by their columns:

    - `MIMICtable`, the raw table of the AI Clinician (preferred). Binary features are shifted by 0.5, the others
      standardised over the file, some after a logarithm; doses become 0 and quartiles 1 – 4 of what was given; the
      reward is 100 for survival of 90 days, at the last step.
    - `MIMIC_outcome`, made from it by the authors' public code, which mixes up columns: those called mechvent,
      Total_bili and INR hold the current doses. It is refused, unless with `as_published=True`, which gives such
      features the names of what they hold.
    - `mimic_sepsis`, the standardised table of microsoft/mimic_sepsis; its reward is +1 or −1 for survival of 48 hours.

    >>> import pyarrow as pa
    >>> doses = {"input_4hourly": [0.0, 50.0], "max_dose_vaso": [0.0, 0.1]}
    >>> stay = {"icustayid": [7, 7], "bloc": [1, 2], **doses, "mortality_90d": [0, 0]}
    >>> logs = read_mimic_sepsis(pa.table({**stay, **dict.fromkeys(FEATURES, [0, 1])}))
    >>> logs, logs.actions, logs.rewards
    (Trajectories(1 episodes, 2 steps, 44 features, 25 actions, no propensities), array([ 0, 24]), array([  0., 100.]))
    """
    source = open_source(path, LogLayout(), labels=())
    kind = _recognised(source.names, layout)
    if as_published and kind != "MIMIC_outcome":
        raise InputError(
            f"as_published=True is about the layout MIMIC_outcome, and this file is a {kind}: leave it out"
        )
    with explain_read_errors(path):
        return _Reader(source, LAYOUTS[kind]).read(kind, as_published)


def _recognised(columns: list[str], layout: str) -> str:
    """The name of the layout that the columns fit."""
    if layout not in ("auto", *LAYOUTS):
        raise InputError(f"layout {layout!r} is unknown: choose auto, {', '.join(LAYOUTS)}")
    there = {*columns, *([DIED] if SHORTER in columns else [])}
    missing = {
        name: [column for column in known.columns if column not in there]
        for name, known in LAYOUTS.items()
        if layout in ("auto", name)
    }
    nearest = min(missing, key=lambda name: len(missing[name]))
    if missing[nearest]:
        what = "the columns of no known sepsis cohort" if layout == "auto" else "other columns"
        raise InputError(
            f"the file has {what}: for the layout {nearest} it lacks {quoted(missing[nearest])}; "
            "add them, or read it with read_logs"
        )
    return nearest


class _Reader:
    """Turns one file into a log, and notes what is wrong on the way."""

    def __init__(self, source: TableSource, layout: CohortLayout) -> None:
        self.source, self.layout, self.problems = source, layout, RowProblems()

    def read(self, kind: str, as_published: bool) -> Trajectories:
        import pyarrow as pa

        features = {name: self.numbers(f"{self.layout.prefix}{name}") for name in FEATURES}
        if kind == "MIMICtable":
            features = self.transformed(features)
            actions = 5 * self.dose_levels(FLUID) + self.dose_levels(VASOPRESSOR)
            rewards = self.at_the_end(self.survival("mortality_90d"))
        elif kind == "MIMIC_outcome":
            features = self.relabelled(features, as_published)
            actions = self.whole("action", 1, N_ACTIONS) - 1
            rewards = self.at_the_end(self.survival(DIED if DIED in self.source.names else SHORTER))
        else:
            # The same repository writes a raw table of the same layout.
            raw = bool(np.isin(features["gender"], (0.0, 1.0)).all())
            features = self.transformed(features) if raw else features
            actions = self.whole("a:action", 0, N_ACTIONS - 1)
            rewards = self.numbers("r:reward")
        columns: dict[str, Any] = {name: self.source.read(name) for name in (self.layout.episode, self.layout.step)}
        table = pa.table({**columns, **features, "action taken": actions, "reward": rewards})
        return self.logs(table, list(features))

    def logs(self, table: "pa.Table", features: list[str]) -> Trajectories:
        problems = self.problems.sentences()
        try:
            result: Trajectories = read_logs(
                table,
                episode=self.layout.episode,
                step=self.layout.step,
                action="action taken",
                context=features,
                actions=range(N_ACTIONS),
                missing="refuse",
            )
        except InputError as error:
            problems += error.problems
        if problems:
            raise bad_log(problems)
        return result

    def numbers(self, name: str) -> FloatArray:
        """A column as numbers; text is noted."""
        column = self.source.read(name)
        if note_type(column, name, "a number", "correct it", self.problems):
            return np.zeros(len(column))
        return np.asarray(numbers_of(column), np.float64)

    def complete(self, name: str) -> FloatArray:
        """A column as numbers, 0 where it is missing, which is noted."""
        values = self.numbers(name)
        missing = ~np.isfinite(values)
        self.problems.note(missing, f"column {name!r} is null, NaN or infinite", "fill it in, or drop those stays")
        return np.where(missing, 0.0, values)

    def whole(self, name: str, low: int, high: int) -> IntArray:
        """A column of whole numbers from low to high."""
        values = self.complete(name)
        bad = (values != np.rint(values)) | (values < low) | (values > high)
        self.problems.note(bad, f"column {name!r} is not a whole number from {low} to {high}", "correct it")
        return np.where(bad, low, values).astype(np.int64)

    def survival(self, name: str) -> FloatArray:
        """What is paid for a column that is 1 for death and 0 for survival."""
        return np.where(self.whole(name, 0, 1) == 1, 0.0, SURVIVED)

    def dose_levels(self, name: str) -> IntArray:
        """0 for no dose, and the quartile 1 – 4 of each dose among those given."""
        from scipy.stats import rankdata

        doses = self.complete(name)
        self.problems.note(doses < 0, f"column {name!r} is negative", "a dose is 0 or more: correct it")
        treated = doses > 0
        levels = np.zeros(len(doses), np.int64)
        ranks = rankdata(doses[treated])  # equal doses share the mean of their ranks
        levels[treated] = np.ceil(4 * ranks / max(treated.sum(), 1))
        return levels

    def transformed(self, features: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """Binary features around 0; the others standardised, some of them after a logarithm."""
        result = {}
        for name, values in features.items():
            if name in BINARY:
                wrong = ~np.isin(values, (0.0, 1.0)) & np.isfinite(values)
                self.problems.note(wrong, f"column {name!r} is neither 0 nor 1", "correct it")
                result[name] = values - 0.5
            elif name in LOGARITHMIC:
                below = values <= -0.1
                self.problems.note(
                    below, f"column {name!r} is −0.1 or less, which has no logarithm here,", "correct it"
                )
                result[name] = _standardised(np.log(0.1 + np.where(below, 0.0, values)))
            else:
                result[name] = _standardised(values)
        return result

    def relabelled(self, features: dict[str, FloatArray], as_published: bool) -> dict[str, FloatArray]:
        """The features of the authors' file, under the names of what they hold."""
        odd = ~np.isin(features["mechvent"], (-0.5, 0.5)) & np.isfinite(features["mechvent"])
        if not odd.any():
            return features
        if not as_published:
            self.problems.note(
                odd,
                "column 'mechvent' is neither −0.5 nor 0.5",
                "the columns of this published file are mixed up, and mechvent, Total_bili and INR hold the current "
                "doses; make the cohort from MIMICtable, or read it as it is with as_published=True",
            )
        return {MISLABELLED.get(name, name): values for name, values in features.items()}

    def at_the_end(self, values: FloatArray) -> FloatArray:
        """The values at the last step of each stay, and 0 before."""
        codes = encode(self.source.read(self.layout.episode)).codes
        order = np.lexsort((self.numbers(self.layout.step), codes))
        last = np.append(np.diff(codes[order]) != 0, True)
        result = np.zeros(len(values))
        result[order[last]] = values[order[last]]
        return result


def _standardised(values: FloatArray) -> FloatArray:
    """Mean 0 and standard deviation 1 over the rows that have a value; a constant column becomes 0."""
    known = values[np.isfinite(values)]
    if not len(known):
        return values
    spread = known.std(ddof=1) if len(known) > 1 else 0.0
    return np.asarray((values - known.mean()) / (spread if spread > 0 else 1.0))
