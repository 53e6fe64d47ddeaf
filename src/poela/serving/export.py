"""A policy as one ONNX graph: what it is made of, the rule of eligible actions, and its fallback."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.behavior.normal import NormalModel
from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import output_file
from poela.core.registry import how_to_install
from poela.core.stored import fingerprint_of_stored
from poela.policies.gaussian import RealPolicy
from poela.policies.ruled import RuledPolicy
from poela.policies.saving import as_filed, holds_logged_contexts, refuse_live

if TYPE_CHECKING:
    from poela.serving.graph import Graph
    from poela.serving.graph_nearness import Output

FORMAT = "poela-onnx"
FORMAT_VERSION = "1"
LARGEST = 2**31 - 2**20  # a file of protocol buffers has fewer bytes than this

MEANING = {
    "contexts": "the features of each case, in the order of feature_names",
    "steps": "how many steps of its episode came before",
    "previous_contexts": "contexts of the steps before, the last one first; what lies before the first step is ignored",
    "previous_actions": "actions of those steps, by their place in action_names",
    "first_contexts": "the context of the episode's first step",
    "probabilities": "of each action, in the order of action_names",
    "mean": "of each column of amounts, before the rule, in the order of action_names",
    "spread": "the standard deviation of each column, before the rule",
    "low": "the lower ends of the boxes of eligible amounts: the policy is a normal distribution kept within them",
    "high": "the upper ends of these boxes",
    "there": "which of the boxes count",
    "defer": "unlike any logged case, or not a number: decide as before",
    "distance": "to the nearest logged case; NaN where the policy measures none",
    "in_range": "each feature lies within its logged range; false where the policy knows none",
}


def export_onnx(
    policy: Any,
    path: str | Path,
    *,
    include_contexts: str = "all",
    findings: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> dict[str, str]:
    """Write a policy as one ONNX graph, and return its metadata.

    Its input `contexts` is float32 [batch, features]; `steps` and those of the history are there where the policy asks
    for them (`inputs` in the metadata says what they mean); its first output, `probabilities`, is float32 [batch,
    actions]. The others have one value for each case: `defer`, `distance` and `in_range`, as `decide` gives them.
    Policies of real-valued actions have the `mean` and `spread` of each column and, under a rule, boxes of what is
    eligible.
    `include_contexts="cover"` keeps a thinned set of logged contexts, which makes a distance rule quicker and can
    only shrink what it makes eligible. What cannot be exported is refused in one sentence.
    """
    if find_spec("onnx") is None:
        raise InputError(f"exporting needs onnx: {how_to_install('onnx')}")
    file = output_file(path, "an ONNX file", overwrite=overwrite)
    model, metadata = onnx_model(policy, include_contexts, findings or {})
    if model.ByteSize() > LARGEST:
        raise InputError(
            f"the graph would have {model.ByteSize() / 2**30:.1f} GiB, and ONNX files end at 2: "
            'thin the logged contexts (include_contexts="cover")'
        )
    with atomic_file(file, replacing=overwrite) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return metadata


def onnx_model(policy: Any, include_contexts: str, findings: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """The graph of a policy, checked, and its metadata."""
    import onnx

    from poela.serving.graph import Graph
    from poela.serving.graph_doses import doses_in

    filed = as_filed(policy, include_contexts) if isinstance(policy, RuledPolicy) else policy
    filed = policy.as_filed() if isinstance(policy, RealPolicy) else filed
    if isinstance(filed, RealPolicy) and include_contexts != "all":
        raise InputError(
            "a policy of real-valued actions keeps all logged cases of its rule: export it without a cover"
        )
    features, actions = _names(filed)
    refuse_live(filed.stored())
    graph = Graph(len(features))
    contexts = graph.must_be_finite(graph.input("contexts"))
    if isinstance(filed, RealPolicy | NormalModel):
        outputs: dict[str, Output] = doses_in(graph, filed, contexts)
    else:
        outputs = _probabilities(graph, filed, contexts, len(actions))
    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "feature_names": json.dumps(features),
        "action_names": json.dumps(actions),
        "inputs": json.dumps({name: MEANING[name] for name in graph.inputs}),
        "outputs": json.dumps({name: MEANING[name] for name in outputs}),
        "policy": type(filed).__name__,
        "policy_sha256": fingerprint_of_stored(filed.stored()),
        "contains_logged_contexts": json.dumps(holds_logged_contexts(filed)),
        "findings": json.dumps(dict(findings)),
        **_schema(filed),
    }
    model = graph.model(outputs, metadata)
    onnx.checker.check_model(model)
    return model, metadata


def _probabilities(graph: "Graph", filed: Any, contexts: str, n_actions: int) -> "dict[str, Output]":
    """The outputs of a policy that chooses among actions."""
    from poela.serving.graph_nearness import nearness_in
    from poela.serving.graph_policies import policy_in
    from poela.serving.graph_rules import eligible_in

    probabilities = graph.cast(policy_in(graph, filed, contexts), np.float32)
    if isinstance(filed, RuledPolicy) and (closed := eligible_in(graph, filed.eligibility, contexts).closed):
        nothing = graph.constant(0.0, np.float32)
        probabilities = graph.op("Where", closed, nothing, probabilities)
    return {"probabilities": ("float32", n_actions, probabilities), **nearness_in(graph, filed, contexts)}


def _names(policy: Any) -> tuple[list[str], list[Any]]:
    """The names of features and actions; by number where a model of the logging policy has none."""
    from poela.serving.graph import refuse_export

    if not callable(getattr(policy, "stored", None)):
        what = "a mixture of the folds' policies" if hasattr(policy, "policies") else type(policy).__name__
        raise refuse_export(what, "only policies that can be saved can; export the recommended policy")
    named = policy if hasattr(policy, "feature_names") else getattr(policy, "schema", None)
    if named is None:
        features, actions = [f"x{place}" for place in range(policy.n_features)], list(range(policy.n_actions))
    else:
        features, actions = list(named.feature_names), list(named.action_names)
    if getattr(policy, "builds_on_propensities", False):
        what = "a policy that builds on the propensities that cases bring"
        raise refuse_export(what, "its file has no place for them; use poela decide")
    if not features:
        raise refuse_export("a policy without features", "there is nothing to give it")
    return features, actions


def _schema(policy: Any) -> dict[str, str]:
    """How the columns of a table became features, where the policy knows it."""
    schema = policy.eligibility.schema if isinstance(policy, RuledPolicy) else None
    schema = policy.schema if isinstance(policy, RealPolicy) else schema
    return {} if schema is None else {"schema": json.dumps(schema.to_json())}
