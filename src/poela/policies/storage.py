"""Policies from disk. Loading reads numbers and names, and runs nothing."""

import reprlib
from importlib import import_module
from pathlib import Path
from typing import Any

from poela.behavior.registry import STORED_KINDS
from poela.core.errors import InputError
from poela.core.live import KIND as LIVE
from poela.core.live import references_in
from poela.core.policy import DensityPolicy, Policy
from poela.core.references import referred
from poela.core.storage import Stored, load_stored
from poela.core.validation import expect_contents, expect_setting
from poela.policies.saving import FILE_FORMAT, FORMAT_VERSION

MOST_WORDS = 300
# What no check has foreseen still ends in one sentence.
BEYOND_THE_CHECKS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
UNFORESEEN = "this version cannot read it"

# Everything that can stand in a policy file: classes with `from_stored`, or such a function. A file can name a kind,
# never a module.
KINDS = {
    "network_policy": "poela.policies.network:NetworkPolicy",
    "greedy_q_policy": "poela.policies.network:GreedyQPolicy",
    "blended_policy": "poela.policies.blended:BlendedPolicy",
    "sharpened_policy": "poela.policies.blended:SharpenedPolicy",
    "tilted_policy": "poela.policies.valued:TiltedPolicy",
    "plain_policy": "poela.policies.plain:PlainPolicy",
    "barring_policy": "poela.policies.valued:BarringPolicy",
    "counted_policy": "poela.policies.valued:CountedPolicy",
    "step_q": "poela.regression.step_values:StepQ",
    "ridge_step": "poela.regression.step_values:RidgeStep",
    "coded_step": "poela.regression.step_values:CodedStep",
    "boosted_step": "poela.regression.step_values:BoostedStep",
    "gaussian_policy": "poela.policies.gaussian:GaussianPolicy",
    "continuous_eligibility": "poela.eligibility.continuous:FittedContinuousEligibility",
    "eligibility": "poela.eligibility.files:eligibility_from_stored",
    "nearest_propensities": "poela.behavior.propensities:NearestPropensities",
    "supported_behavior": "poela.eligibility.support_model:SupportedBehavior",
    "support_model": "poela.eligibility.support_model:SupportModel",
    "logged_propensities": "poela.behavior.propensities:LoggedPropensities",
    "with_history": "poela.data.history:WithHistory",
    "foreign_policy": "poela.policies.foreign:ForeignPolicy",
    "foreign_doses": "poela.policies.foreign:ForeignDoses",
    **STORED_KINDS,
}


def load_policy(directory: str | Path) -> Any:
    """Read a policy that `save` wrote, after checking its files, format, version and checksums, and all it says."""
    stored, _ = load_stored(Path(directory), file_format=FILE_FORMAT, version=FORMAT_VERSION)
    return load_checked(stored, str(directory))


def load_checked(stored: Stored, where: str) -> Any:
    """The policy that was stored, or one sentence that begins with where it was."""
    try:
        return load_object(stored)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def load_object(stored: Stored) -> Any:
    """The policy or behavior model that was stored, with its parts; one sentence where it would not work."""
    for text in sorted(references_in(stored)):
        referred(text)  # which says so where it belonged to another process
    try:
        loaded = _load(stored)
    except InputError as error:
        problem = "; ".join(error.problems)
    except BEYOND_THE_CHECKS as error:
        problem = f"{UNFORESEEN} ({type(error).__name__})"
    else:
        if isinstance(loaded, Policy | DensityPolicy):
            return loaded
        problem = f"it is of kind {stored.kind}, which is no policy"
    raise InputError(f"the stored policy is not valid: {problem[:MOST_WORDS]}")


def _load(stored: Stored) -> Any:
    """An object of any kind."""
    if stored.kind == LIVE:
        expect_contents(stored, settings=("object",))
        return referred(expect_setting(stored, "object", str))
    if stored.kind not in KINDS:
        kind = reprlib.repr(stored.kind)
        raise InputError(f"the file holds an object of unknown kind {kind}; it may be of a newer poela")
    module, name = KINDS[stored.kind].split(":")
    kind = getattr(import_module(module), name)
    return getattr(kind, "from_stored", kind)(stored, _load)
