"""The table of learners: a new one is one file and one line here, and the contract tests find it."""

from typing import TYPE_CHECKING

from poela.core.registry import Registry

if TYPE_CHECKING:
    from poela.learners.learner import Learner

LEARNERS: "Registry[type[Learner]]" = Registry(
    "poela.learners",
    {
        "poela": "poela.learners.policy_gradient:POELA",
        "pomu": "poela.learners.policy_gradient:POMu",
        "pocrm": "poela.learners.policy_gradient:POCRM",
        "bcq": "poela.learners.q_learning:BCQ",
        "pql": "poela.learners.q_learning:PQL",
        "cql": "poela.learners.q_learning:CQL",
        "fittedq": "poela.learners.fitted_q:FittedQ",
        "clone": "poela.learners.clone:Clone",
        "consensus": "poela.learners.consensus:Consensus",
        "spibb": "poela.learners.safe_improvement:SPIBB",
        "softspibb": "poela.learners.safe_improvement:SoftSPIBB",
        "continuousclone": "poela.learners.continuous:ContinuousClone",
        "continuouspoela": "poela.learners.continuous:ContinuousPOELA",
        "iql": "poela.learners.implicit_q:IQL",
        "rules": "poela.learners.rules:Rules",
        "hullwalk": "poela.learners.value_for_money:HullWalkQ",
        "dprl": "poela.learners.safe_improvement:DPRL",
    },
)
