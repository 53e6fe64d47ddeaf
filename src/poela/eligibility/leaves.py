"""Logged cases that the trees of a support model treat like the one in question: a learned distance.

Two cases are alike as far as trees put them into the same leaf; what their tests ask about counts, in the units that
the model found to matter, and nothing else does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poela.behavior.boosted import BoostedModel
from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.eligibility.support_model import SupportModel

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility

MOST_CANDIDATES = 1000  # the nearest ones by distance, among which trees choose


@dataclass(frozen=True, eq=False)
class SharedLeaves:
    """What the trees of a model make of one context beside others [M]."""

    shares: FloatArray  # [M], of trees in which both end in the same leaf
    differing: FloatArray  # [M, d], tests on each feature with another result
    tests: FloatArray  # [d], on each feature


def shared_leaves(support: SupportModel | None, context: Float32Array, others: Float32Array) -> SharedLeaves | None:
    """For one context [d] and others [M, d]; None without trees, or where these look at earlier steps, too."""
    models = () if support is None else support.models
    forests = [model.forest for model in models if isinstance(model, BoostedModel)]
    if not forests or len(forests) < len(models) or not any(len(forest.features) for forest in forests):
        return None
    rows, d = np.concatenate([context[None], others]), len(context)
    same, trees, differing, tests = np.zeros(len(others)), 0, np.zeros((len(others), d)), np.zeros(d)
    for forest in forests:
        passed = forest.passed(rows)
        leaves = forest.leaves(passed)
        same += (leaves[1:] == leaves[0]).sum(axis=1)
        trees += leaves.shape[1]
        on_feature = np.eye(d)[forest.features]  # [nodes, d]
        differing += (passed[1:] != passed[0]) @ on_feature
        tests += on_feature.sum(axis=0)
    return SharedLeaves(same / max(trees, 1), differing, tests)


def most_alike(
    fitted: "FittedEligibility", context: Float32Array, members: IntArray, k: int
) -> tuple[IntArray, SharedLeaves] | None:
    """The places among logged cases (`members`, the nearest first) of the k that share most leaves, and how."""
    if fitted.logged is None:
        return None
    shared = shared_leaves(fitted.support, context, fitted.logged.contexts[members])
    if shared is None:
        return None
    order = np.argsort(-shared.shares, kind="stable")[:k]  # among equals, the nearest
    return order, SharedLeaves(shared.shares[order], shared.differing[order], shared.tests)
