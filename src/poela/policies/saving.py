"""Policies on disk: a directory of JSON and safetensors, and a model card in Markdown that says what is in it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.live import references_in
from poela.core.references import described
from poela.core.storage import WRITTEN, Stored, save_stored
from poela.eligibility.words import action_in_words, rule_in_words, strictness_in_words

if TYPE_CHECKING:
    from poela.policies.gaussian import RealPolicy
    from poela.policies.ruled import RuledPolicy

FILE_FORMAT = "poela-policy"
FORMAT_VERSION = 1
CARD = "MODEL_CARD.md"
LONGEST_NAME = 80
MOST_NAMES = 200

WHAT = {
    "NetworkPolicy": "A softmax network of the current context, over the eligible actions.",
    "RecurrentPolicy": "A softmax over a recurrent network of the whole episode, over the eligible actions.",
    "GreedyQPolicy": "The eligible action with the highest value of a Q network.",
    "BlendedPolicy": "A blend of current practice (a model of the logging policy) and a learned policy.",
    "SharpenedPolicy": "Current practice (a model of the logging policy), done more consistently.",
    "TiltedPolicy": "Current practice (a model of the logging policy) tilted towards higher values, by step.",
    "PlainPolicy": "Current practice (a model of the logging policy), changed by a simple rule.",
    "BarringPolicy": "Current practice (a model of the logging policy) without the actions of lowest estimated value.",
    "CountedPolicy": "Current practice, changed only where enough similar cases were logged.",
    "GaussianPolicy": "A normal distribution of real-valued actions, whose mean and spread depend on the context.",
    "WithHistory": "A policy of the current context and of earlier steps.",
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
    policy: "RuledPolicy | RealPolicy",
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


def model_card(policy: Any, findings: Mapping[str, str], holds_logged_contexts: bool) -> str:
    """The card of a policy; `findings` are what is known of its worth, by name.

    Names of columns and actions may be anything: they are escaped.
    """
    features, actions = policy.feature_names, policy.action_names
    sections = [
        "# Model card: a decision policy",
        WHAT.get(type(policy).__name__, f"A policy of class {type(policy).__name__}."),
        "## Estimated value",
        _list(f"{plain(name)}: {plain(text)}" for name, text in findings.items())
        or "Not stated here: evaluate it on logs that were not used for learning (`poela evaluate`).",
        "## Which actions it may take",
        _rule(policy),
        f"## What it looks at ({len(features)} features)",
        _names(features),
        f"## What it chooses from ({len(actions)} actions)",
        _names(actions),
        "## Intended use and limits",
        _list(
            (
                "It supports decisions of the kind that its training log holds, made by people who can overrule it.",
                "It was learned from logged decisions alone. What was not recorded it cannot see, and an estimate of "
                "its worth holds for cases like the logged ones.",
                "Where nothing similar was logged it falls back as the rule says; `poela decide` and `poela serve` "
                "say so, and say what similar cases were given.",
                "Keep logging decisions and their probabilities, and evaluate again: practice changes.",
                "For you to say: who answers for it, where it must not be used, and how it is watched.",
            )
        ),
        "## What the files hold",
        "Contexts of the training log (perhaps personal data): keep them as you keep the log."
        if holds_logged_contexts
        else "No rows of the training log.",
        f"Policy: `{policy.content_hash}`",
    ]
    return WRITTEN.decode() + "\n\n".join(sections) + "\n"


def _rule(policy: Any) -> str:
    rule = getattr(policy, "eligibility", None)
    if rule is None:
        return "Any action."
    words = rule_in_words(rule, lambda name: plain(action_in_words(name)))
    return f"{words} {strictness_in_words(rule)}".rstrip()


def plain(name: Any) -> str:
    r"""Any text on one line of Markdown, with nothing in it that means anything.

    >>> print(plain("<b>dose*"), plain("two\nlines"))
    &lt;b&gt;dose\* two lines
    """
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in str(name)).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~])", r"\\\1", text)


def _names(names: Iterable[Any]) -> str:
    every = list(names)
    shown = [str(name) if len(str(name)) <= LONGEST_NAME else str(name)[:LONGEST_NAME] + "…" for name in every]
    more = f", and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return ", ".join(map(plain, shown[:MOST_NAMES])) + more


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
