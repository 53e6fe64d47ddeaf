"""Policies on disk: a directory of JSON and safetensors. Loading reads numbers and names, and runs nothing."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from poela.behavior.registry import STORED_KINDS
from poela.core.errors import InputError
from poela.core.storage import Stored, load_stored, save_stored
from poela.policies.ruled import RuledPolicy

FILE_FORMAT = "poela-policy"
FORMAT_VERSION = 1

# Everything that can stand in a policy file. A file can name a kind, never a module.
KINDS = {
    "network_policy": "poela.policies.network:NetworkPolicy",
    "greedy_q_policy": "poela.policies.value:GreedyQPolicy",
    "tilted_policy": "poela.policies.tilted:TiltedPolicy",
    "step_q": "poela.policies.step_values:StepQ",
    "ridge_step": "poela.policies.step_values:RidgeStep",
    "boosted_step": "poela.policies.step_values:BoostedStep",
    "eligibility": "poela.eligibility.fitted:FittedEligibility",
    "nearest_propensities": "poela.eligibility.propensities:NearestPropensities",
    "with_history": "poela.data.history:WithHistory",
    **STORED_KINDS,
}


def save_policy(policy: RuledPolicy, directory: Path, include_contexts: str = "all", overwrite: bool = False) -> None:
    """Write a policy; the document says whether it holds logged contexts."""
    if include_contexts not in {"all", "cover"}:
        raise InputError(f"include_contexts must be 'all' or 'cover', not {include_contexts!r}")
    # Names of episodes explain a case to those who hold the log; a file that travels does without them.
    rule = policy.eligibility.thinned() if include_contexts == "cover" else policy.eligibility
    policy = replace(policy, eligibility=replace(rule, episode_ids=None))
    # A behavior model made of logged contexts (kNN, logged propensities) cannot be thinned.
    whole = any(getattr(model, "holds_logged_contexts", False) for model in policy.behavior_models)
    holds = whole or policy.eligibility.holds_logged_contexts
    notes = {
        "contains_logged_contexts": holds,
        "contexts": "all" if whole else include_contexts if holds else "none",
        "note": "This file contains contexts from the training log (perhaps personal data): keep it as you keep the log"
        if holds
        else "This file contains no rows of the training log.",
    }
    form: Any = {"file_format": FILE_FORMAT, "version": FORMAT_VERSION}
    save_stored(directory, policy.stored(), **form, notes=notes, overwrite=overwrite)


def load_policy(directory: str | Path) -> Any:
    """Read a policy that `save` wrote, after checking its format, version and checksums."""
    stored, _ = load_stored(Path(directory), file_format=FILE_FORMAT, version=FORMAT_VERSION)
    return load_checked(stored, str(directory))


def load_checked(stored: Stored, where: str) -> Any:
    """The policy that was stored, or one sentence that begins with where it was."""
    try:
        return load_object(stored)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{where} does not describe a policy that this version can read: {error}") from None


def load_object(stored: Stored) -> Any:
    """The object that was stored, with its parts."""
    if stored.kind not in KINDS:
        raise InputError(f"the file holds an object of unknown kind {stored.kind!r}; it may be of a newer poela")
    module, name = KINDS[stored.kind].split(":")
    return getattr(import_module(module), name).from_stored(stored, load_object)
