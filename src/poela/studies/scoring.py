"""Validation metrics of a checkpoint: what the selection protocols choose by."""

import math
from typing import Any

from poela.evaluation.evaluate import evaluate
from poela.studies.material import Material

Metrics = dict[str, float | None]


def score(policy: Any, material: Material) -> Metrics:
    """Value, standard error and effective sample size on the validation logs; null where there is none."""
    estimate = evaluate(
        policy,
        material.validation,
        estimator="sntis",
        interval=None,
        discount=material.scoring.discount,
        truncation=material.scoring.truncation,
    )
    return {
        "sntis": finite(estimate.value),
        "sntis_error": finite(estimate.standard_error),
        "ess": finite(estimate.ess),
        "largest_share": finite(estimate.diagnostics.largest_share),
    }


def finite(number: float) -> float | None:
    """The number, or None where it is NaN or infinite.

    >>> finite(1.5), finite(float("nan"))
    (1.5, None)
    """
    return float(number) if math.isfinite(number) else None
