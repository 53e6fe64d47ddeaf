"""Contexts that a rule is asked about, checked."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, IntArray, first_bad
from poela.core.errors import InputError
from poela.data.decision_rows import has_columns, loose_contexts
from poela.data.limits import LimitsInContexts
from poela.data.schema import TableSchema
from poela.data.words import counted

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility


def refuse_closed(limits: LimitsInContexts | None, contexts: Float32Array) -> None:
    """Refuse contexts at which every action is forbidden: no distribution over actions can be given."""
    if limits is None:
        return
    closed: BoolArray = np.asarray(~limits.allowed(contexts).any(axis=1))
    if closed.any():
        count, first = first_bad(closed)
        raise InputError(
            f"no action is allowed in {counted(count, 'row')}, first at row {first}: decide() defers such cases; leave "
            "them out here"
        )


def checked_contexts(
    rule: "FittedEligibility", contexts: ArrayLike, steps: ArrayLike | None
) -> tuple[Float32Array, IntArray | None]:
    """Contexts as a matrix and, where the rule asks for them, step numbers; or one clear sentence."""
    if has_columns(contexts):
        contexts = loose_contexts(contexts, rule.schema or TableSchema.plain(rule.feature_names))
    checked = np.asarray(contexts, np.float32)
    if checked.ndim != 2 or checked.shape[1] != len(rule.feature_names):
        names = ", ".join(rule.feature_names[:5]) + (", …" if len(rule.feature_names) > 5 else "")
        raise InputError(
            f"contexts must have shape (rows, {len(rule.feature_names)}) with the features {names}, not {checked.shape}"
        )
    bad = ~np.isfinite(checked)
    if bad.any():
        count, first = first_bad(bad)
        raise InputError(f"{count} contexts hold NaN or infinity, first at row {first}: fill them in")
    if rule.settings.neighbours == "pooled":
        return checked, None
    if steps is None:
        raise InputError("this rule compares contexts of the same step: give the step numbers (steps=...)")
    numbers = np.asarray(steps)
    if numbers.shape != (len(checked),) or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(f"steps must be {len(checked)} whole numbers, one for each context")
    return checked, numbers.astype(np.int64)
