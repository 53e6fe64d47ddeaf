"""Policies on disk: a directory of JSON and safetensors. Loading reads numbers and names, and runs nothing."""

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from poela.behavior.registry import STORED_KINDS
from poela.core.density import DensityPolicy
from poela.core.errors import InputError
from poela.core.live import KIND as LIVE
from poela.core.live import references_in
from poela.core.policy import Policy
from poela.core.references import described, referred
from poela.core.storage import Stored, load_stored, save_stored
from poela.core.validation import expect_contents, expect_setting
from poela.policies.card import CARD, model_card
from poela.policies.gaussian import RealPolicy
from poela.policies.ruled import RuledPolicy

FILE_FORMAT = "poela-policy"
FORMAT_VERSION = 1
MOST_WORDS = 300
# What no check has foreseen still ends in one sentence.
BEYOND_THE_CHECKS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
UNFORESEEN = "this version cannot read it"

# Everything that can stand in a policy file. A file can name a kind, never a module.
KINDS = {
    "network_policy": "poela.policies.network:NetworkPolicy",
    "greedy_q_policy": "poela.policies.value:GreedyQPolicy",
    "blended_policy": "poela.policies.blended:BlendedPolicy",
    "sharpened_policy": "poela.policies.blended:SharpenedPolicy",
    "tilted_policy": "poela.policies.tilted:TiltedPolicy",
    "plain_policy": "poela.policies.plain:PlainPolicy",
    "barring_policy": "poela.policies.barring:BarringPolicy",
    "counted_policy": "poela.policies.counted:CountedPolicy",
    "step_q": "poela.regression.step_values:StepQ",
    "ridge_step": "poela.regression.step_values:RidgeStep",
    "coded_step": "poela.regression.step_values:CodedStep",
    "boosted_step": "poela.regression.step_values:BoostedStep",
    "gaussian_policy": "poela.policies.gaussian:GaussianPolicy",
    "continuous_eligibility": "poela.eligibility.continuous:FittedContinuousEligibility",
    "eligibility": "poela.eligibility.fitted:FittedEligibility",
    "nearest_propensities": "poela.behavior.propensities:NearestPropensities",
    "supported_behavior": "poela.eligibility.supported_behavior:SupportedBehavior",
    "support_model": "poela.eligibility.support_model:SupportModel",
    "logged_propensities": "poela.behavior.propensities:LoggedPropensities",
    "with_history": "poela.data.history:WithHistory",
    "foreign_policy": "poela.policies.foreign:ForeignPolicy",
    "foreign_doses": "poela.policies.foreign:ForeignDoses",
    **STORED_KINDS,
}


def as_filed(policy: Any, include_contexts: str = "all") -> Any:
    """The policy as a file holds it: without names of episodes, and with all logged contexts or a cover of them."""
    if include_contexts not in {"all", "cover"}:
        raise InputError(f"include_contexts must be 'all' or 'cover', not {include_contexts!r}")
    if policy.real_valued:
        if include_contexts == "cover" and policy.eligibility is not None:
            raise InputError("a rule over real-valued actions needs all logged pairs: say include_contexts='all'")
        return policy.as_filed()
    # Names of episodes explain a case to those who hold the log; a file that travels does without them.
    rule = policy.eligibility.thinned() if include_contexts == "cover" else policy.eligibility
    return replace(policy, eligibility=replace(rule, episode_ids=None))


def holds_logged_contexts(policy: Any) -> bool:
    """Whether a file of this policy holds rows of the training log."""
    # A behavior model made of logged contexts (kNN, logged propensities) cannot be thinned.
    models = (policy, *getattr(policy, "behavior_models", ()), getattr(policy, "eligibility", None))
    return any(bool(getattr(model, "holds_logged_contexts", False)) for model in models)


def save_policy(
    policy: RuledPolicy | RealPolicy,
    directory: Path,
    include_contexts: str = "all",
    overwrite: bool = False,
    findings: Mapping[str, str] | None = None,
) -> None:
    """Write a policy with its model card; the document says whether it holds logged contexts.

    `findings` are what is known of its worth, as the card shall say it.
    """
    policy = as_filed(policy, include_contexts)
    whole = any(getattr(model, "holds_logged_contexts", False) for model in getattr(policy, "behavior_models", ()))
    holds = holds_logged_contexts(policy)
    notes = {
        "contains_logged_contexts": holds,
        "contexts": "all" if whole else include_contexts if holds else "none",
        "note": "This file contains contexts from the training log (perhaps personal data): keep it as you keep the log"
        if holds
        else "This file contains no rows of the training log.",
    }
    form: Any = {"file_format": FILE_FORMAT, "version": FORMAT_VERSION}
    card = {CARD: model_card(policy, findings or {}, holds).encode()}
    stored = policy.stored()
    refuse_live(stored)
    save_stored(directory, stored, **form, notes=notes, overwrite=overwrite, beside=card)


def live_objects(stored: Stored) -> list[str]:
    """What a stored policy is made of that lives in this process alone, in words."""
    return sorted({described(text) for text in references_in(stored)})


def refuse_live(stored: Stored) -> None:
    """Refuse to write what lives in this process alone."""
    if objects := live_objects(stored):
        raise InputError(
            f"this policy cannot be saved, since it is made of {' and '.join(objects)}, an object of this Python "
            "session that no file can hold: decide with it here, or learn with poela's own parts"
        )


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
    return getattr(import_module(module), name).from_stored(stored, _load)
