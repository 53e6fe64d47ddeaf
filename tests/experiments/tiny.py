"""Runs of experiments made tiny."""

from pathlib import Path
from typing import Any

from poela.studies.options import Execution
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size

INLINE = Execution("inline", 1)


def tiny(experiment: str, out: Path, seed: int = 0, **settings: Any) -> Run:
    """The quick form of an experiment with other settings, in this process."""
    return Run(experiment, out, Size.of(experiment, "quick").but(**settings), seed, INLINE)


def tiny_tumor(out: Path, experiment: str = "tumor", **settings: Any) -> Run:
    """Four steps of every learner on one data set, as if nothing were left out."""
    few = {"checkpoints": 2, "steps": 4}
    kinds = {"gradient": {**few, "warm_start_steps": 4}, "values": few, "density": {**few, "density_steps": 4}}
    small = {"about": "", "data_sets": {"known": 1}, "episodes": 30, "roll_outs": 20, "kinds": kinds}
    return tiny(experiment, out, **{**small, **settings})


def tiny_sepsis(out: Path, seed: int = 0, **settings: Any) -> Run:
    """Two steps of a few candidates, as if nothing were left out."""
    common = {"hidden": (8, 8), "checkpoints": 2, "steps": 2}
    values = {**common, "steps": 20, "batch_size": 100}
    kinds = {
        "gradient": {**common, "warm_start_steps": 1},
        "values": values,
        "density": {**values, "density_steps": 20, "lowest_value": 0.0},
    }
    small = {"about": "", "episodes": (40, 30, 30), "roll_outs": 20, "fewer": 16, "kinds": kinds}
    return tiny("sepsis", out, seed, **{**small, **settings})
