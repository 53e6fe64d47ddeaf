"""Better decision policies from logged decisions, with an honest estimate of their value.

Names are imported when they are first used, so `import poela` is quick and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poela.behavior.boosted import BoostedBehavior as BoostedBehavior
    from poela.behavior.classifier import ClassifierBehavior as ClassifierBehavior
    from poela.behavior.clone import CloneBehavior as CloneBehavior
    from poela.behavior.clone import RecurrentCloneBehavior as RecurrentCloneBehavior
    from poela.behavior.gaussian import GaussianBehavior as GaussianBehavior
    from poela.behavior.history import HistoryBehavior as HistoryBehavior
    from poela.behavior.memory import memory_of as memory_of
    from poela.behavior.model import Behavior as Behavior
    from poela.behavior.multinomial import MultinomialBehavior as MultinomialBehavior
    from poela.behavior.neighbours import KNNBehavior as KNNBehavior
    from poela.behavior.tempered import TemperedBehavior as TemperedBehavior
    from poela.core.density import DensityPolicy as DensityPolicy
    from poela.core.errors import InputError as InputError
    from poela.core.errors import PoelaError as PoelaError
    from poela.core.errors import PoelaWarning as PoelaWarning
    from poela.core.errors import TrainingError as TrainingError
    from poela.core.policy import Policy as Policy
    from poela.data.bandits import from_bandit as from_bandit
    from poela.data.bandits import to_bandit as to_bandit
    from poela.data.cohorts import read_mimic_sepsis as read_mimic_sepsis
    from poela.data.layout import LogLayout as LogLayout
    from poela.data.minari import from_minari as from_minari
    from poela.data.minari import to_minari as to_minari
    from poela.data.tables import read_logs as read_logs
    from poela.data.trajectories import Trajectories as Trajectories
    from poela.eligibility.continuous import ContinuousEligibility as ContinuousEligibility
    from poela.eligibility.rules import AnyAction as AnyAction
    from poela.eligibility.rules import Eligibility as Eligibility
    from poela.eligibility.rules import MinimumProbability as MinimumProbability
    from poela.eligibility.rules import Radius as Radius
    from poela.evaluation.bounds import Bounds as Bounds
    from poela.evaluation.estimate import Estimate as Estimate
    from poela.evaluation.evaluate import evaluate as evaluate
    from poela.evaluation.rollouts import true_value as true_value
    from poela.evaluation.scoring import Scoring as Scoring
    from poela.evaluation.verdict import TrustThresholds as TrustThresholds
    from poela.learners.clone import Clone as Clone
    from poela.learners.consensus import Consensus as Consensus
    from poela.learners.continuous import ContinuousClone as ContinuousClone
    from poela.learners.continuous import ContinuousPOELA as ContinuousPOELA
    from poela.learners.fitted_q import FittedQ as FittedQ
    from poela.learners.implicit_q import IQL as IQL
    from poela.learners.learner import Checkpoint as Checkpoint
    from poela.learners.learner import Learner as Learner
    from poela.learners.policy_gradient import POCRM as POCRM
    from poela.learners.policy_gradient import POELA as POELA
    from poela.learners.policy_gradient import POMu as POMu
    from poela.learners.q_learning import BCQ as BCQ
    from poela.learners.q_learning import CQL as CQL
    from poela.learners.q_learning import PQL as PQL
    from poela.learners.rules import Rules as Rules
    from poela.learners.safe_improvement import DPRL as DPRL
    from poela.learners.safe_improvement import SPIBB as SPIBB
    from poela.learners.safe_improvement import SoftSPIBB as SoftSPIBB
    from poela.policies.storage import load_policy as load_policy
    from poela.rounds.next_log import plan_next as plan_next
    from poela.rounds.watch import watch as watch
    from poela.simulators.registry import simulate as simulate
    from poela.studies.audit import audit as audit
    from poela.studies.candidates import Candidate as Candidate
    from poela.studies.learning import learn as learn
    from poela.studies.selection import Selection as Selection
    from poela.studies.study import Study as Study

__version__ = "0.3.0"

# Where each public name lives; a test holds this table and the imports above (for type checkers) together.
_HOME = {
    "AnyAction": "poela.eligibility.rules",
    "BoostedBehavior": "poela.behavior.boosted",
    "Bounds": "poela.evaluation.bounds",
    "CloneBehavior": "poela.behavior.clone",
    "ContinuousEligibility": "poela.eligibility.continuous",
    "DensityPolicy": "poela.core.density",
    "Eligibility": "poela.eligibility.rules",
    "Estimate": "poela.evaluation.estimate",
    "GaussianBehavior": "poela.behavior.gaussian",
    "HistoryBehavior": "poela.behavior.history",
    "InputError": "poela.core.errors",
    "KNNBehavior": "poela.behavior.neighbours",
    "LogLayout": "poela.data.layout",
    "MinimumProbability": "poela.eligibility.rules",
    "MultinomialBehavior": "poela.behavior.multinomial",
    "PoelaError": "poela.core.errors",
    "PoelaWarning": "poela.core.errors",
    "Policy": "poela.core.policy",
    "Radius": "poela.eligibility.rules",
    "RecurrentCloneBehavior": "poela.behavior.clone",
    "TrainingError": "poela.core.errors",
    "Trajectories": "poela.data.trajectories",
    "from_bandit": "poela.data.bandits",
    "from_minari": "poela.data.minari",
    "to_bandit": "poela.data.bandits",
    "to_minari": "poela.data.minari",
    "evaluate": "poela.evaluation.evaluate",
    "memory_of": "poela.behavior.memory",
    "read_logs": "poela.data.tables",
    "read_mimic_sepsis": "poela.data.cohorts",
    "Scoring": "poela.evaluation.scoring",
    "true_value": "poela.evaluation.rollouts",
    "TrustThresholds": "poela.evaluation.verdict",
    "BCQ": "poela.learners.q_learning",
    "CQL": "poela.learners.q_learning",
    "PQL": "poela.learners.q_learning",
    "Clone": "poela.learners.clone",
    "Consensus": "poela.learners.consensus",
    "ContinuousClone": "poela.learners.continuous",
    "ContinuousPOELA": "poela.learners.continuous",
    "IQL": "poela.learners.implicit_q",
    "FittedQ": "poela.learners.fitted_q",
    "POELA": "poela.learners.policy_gradient",
    "POMu": "poela.learners.policy_gradient",
    "POCRM": "poela.learners.policy_gradient",
    "Rules": "poela.learners.rules",
    "SPIBB": "poela.learners.safe_improvement",
    "SoftSPIBB": "poela.learners.safe_improvement",
    "DPRL": "poela.learners.safe_improvement",
    "load_policy": "poela.policies.storage",
    "plan_next": "poela.rounds.next_log",
    "watch": "poela.rounds.watch",
    "audit": "poela.studies.audit",
    "Candidate": "poela.studies.candidates",
    "learn": "poela.studies.learning",
    "Selection": "poela.studies.selection",
    "Study": "poela.studies.study",
    "simulate": "poela.simulators.registry",
    "Learner": "poela.learners.learner",
    "Checkpoint": "poela.learners.learner",
    "Behavior": "poela.behavior.model",
    "ClassifierBehavior": "poela.behavior.classifier",
    "TemperedBehavior": "poela.behavior.tempered",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'poela' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*sorted(_HOME), "__version__"]
