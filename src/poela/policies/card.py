"""The model card beside a saved policy, in Markdown: what it is, by which rule, for what, and what it holds."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from poela.core.storage import WRITTEN
from poela.eligibility.words import action_in_words, rule_in_words, strictness_in_words

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
