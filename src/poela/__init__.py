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
    from poela.behavior.history import memory_of as memory_of
    from poela.behavior.model import Behavior as Behavior
    from poela.behavior.multinomial import MultinomialBehavior as MultinomialBehavior
    from poela.behavior.propensities import KNNBehavior as KNNBehavior
    from poela.behavior.tempered import TemperedBehavior as TemperedBehavior
    from poela.core.errors import InputError as InputError
    from poela.core.errors import PoelaError as PoelaError
    from poela.core.errors import PoelaWarning as PoelaWarning
    from poela.core.errors import TrainingError as TrainingError
    from poela.core.policy import DensityPolicy as DensityPolicy
    from poela.core.policy import Policy as Policy
    from poela.data.action_space import Box as Box
    from poela.data.action_space import Finite as Finite
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
    from poela.evaluation.estimate import Estimate as Estimate
    from poela.evaluation.evaluate import evaluate as evaluate
    from poela.evaluation.evidence import Evidence as Evidence
    from poela.evaluation.rollouts import true_value as true_value
    from poela.evaluation.scoring import Scoring as Scoring
    from poela.learners.clone import Clone as Clone
    from poela.learners.consensus import Consensus as Consensus
    from poela.learners.continuous import ContinuousClone as ContinuousClone
    from poela.learners.continuous import ContinuousPOELA as ContinuousPOELA
    from poela.learners.fitted_q import FittedQ as FittedQ
    from poela.learners.implicit_q import IQL as IQL
    from poela.learners.learner import Checkpoint as Checkpoint
    from poela.learners.learner import Learner as Learner
    from poela.learners.learner import eligible_in_training as eligible_in_training
    from poela.learners.learner import logging_policy as logging_policy
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
    from poela.policies.blended import SharpenedPolicy as SharpenedPolicy
    from poela.policies.gaussian import GaussianPolicy as GaussianPolicy
    from poela.policies.storage import load_policy as load_policy
    from poela.report.page import PageOptions as PageOptions
    from poela.rounds.looks import WatchPlan as WatchPlan
    from poela.rounds.next_log import plan_next as plan_next
    from poela.rounds.watch import watch as watch
    from poela.serving.pyfunc import save_mlflow as save_mlflow
    from poela.simulators.doses import Dosing as Dosing
    from poela.simulators.doses import Titration as Titration
    from poela.simulators.episodes import run as run
    from poela.simulators.registry import simulate as simulate
    from poela.simulators.tumor import Schedule as Schedule
    from poela.simulators.tumor import TumorBehavior as TumorBehavior
    from poela.simulators.tumor import TumorGrowth as TumorGrowth
    from poela.stats.bounds import Bounds as Bounds
    from poela.stats.bounds import Interval as Interval
    from poela.stats.bounds import Sample as Sample
    from poela.stats.contributions import Contributions as Contributions
    from poela.stats.contributions import standard_error as standard_error
    from poela.stats.gain import Gain as Gain
    from poela.stats.verdict import TrustThresholds as TrustThresholds
    from poela.studies.audit import audit as audit
    from poela.studies.candidates import Candidate as Candidate
    from poela.studies.groups import Groups as Groups
    from poela.studies.learning import learn as learn
    from poela.studies.planning import plan as plan
    from poela.studies.selection import Point as Point
    from poela.studies.selection import Selection as Selection
    from poela.studies.study import Study as Study

__version__ = "0.3.0"

# Where each public name lives; a test holds this table and the imports above (for type checkers) together.
_HOME = {
    "BoostedBehavior": "poela.behavior.boosted",
    "ClassifierBehavior": "poela.behavior.classifier",
    "CloneBehavior": "poela.behavior.clone",
    "RecurrentCloneBehavior": "poela.behavior.clone",
    "GaussianBehavior": "poela.behavior.gaussian",
    "HistoryBehavior": "poela.behavior.history",
    "memory_of": "poela.behavior.history",
    "Behavior": "poela.behavior.model",
    "MultinomialBehavior": "poela.behavior.multinomial",
    "KNNBehavior": "poela.behavior.propensities",
    "TemperedBehavior": "poela.behavior.tempered",
    "DensityPolicy": "poela.core.policy",
    "InputError": "poela.core.errors",
    "PoelaError": "poela.core.errors",
    "PoelaWarning": "poela.core.errors",
    "TrainingError": "poela.core.errors",
    "Policy": "poela.core.policy",
    "Box": "poela.data.action_space",
    "Finite": "poela.data.action_space",
    "from_bandit": "poela.data.bandits",
    "to_bandit": "poela.data.bandits",
    "read_mimic_sepsis": "poela.data.cohorts",
    "LogLayout": "poela.data.layout",
    "from_minari": "poela.data.minari",
    "to_minari": "poela.data.minari",
    "read_logs": "poela.data.tables",
    "Trajectories": "poela.data.trajectories",
    "ContinuousEligibility": "poela.eligibility.continuous",
    "AnyAction": "poela.eligibility.rules",
    "Eligibility": "poela.eligibility.rules",
    "MinimumProbability": "poela.eligibility.rules",
    "Radius": "poela.eligibility.rules",
    "Bounds": "poela.stats.bounds",
    "Interval": "poela.stats.bounds",
    "Sample": "poela.stats.bounds",
    "Contributions": "poela.stats.contributions",
    "standard_error": "poela.stats.contributions",
    "Estimate": "poela.evaluation.estimate",
    "evaluate": "poela.evaluation.evaluate",
    "Evidence": "poela.evaluation.evidence",
    "Gain": "poela.stats.gain",
    "true_value": "poela.evaluation.rollouts",
    "Scoring": "poela.evaluation.scoring",
    "TrustThresholds": "poela.stats.verdict",
    "Clone": "poela.learners.clone",
    "Consensus": "poela.learners.consensus",
    "ContinuousClone": "poela.learners.continuous",
    "ContinuousPOELA": "poela.learners.continuous",
    "eligible_in_training": "poela.learners.learner",
    "FittedQ": "poela.learners.fitted_q",
    "IQL": "poela.learners.implicit_q",
    "Checkpoint": "poela.learners.learner",
    "Learner": "poela.learners.learner",
    "logging_policy": "poela.learners.learner",
    "POCRM": "poela.learners.policy_gradient",
    "POELA": "poela.learners.policy_gradient",
    "POMu": "poela.learners.policy_gradient",
    "BCQ": "poela.learners.q_learning",
    "CQL": "poela.learners.q_learning",
    "PQL": "poela.learners.q_learning",
    "Rules": "poela.learners.rules",
    "DPRL": "poela.learners.safe_improvement",
    "SPIBB": "poela.learners.safe_improvement",
    "SoftSPIBB": "poela.learners.safe_improvement",
    "SharpenedPolicy": "poela.policies.blended",
    "GaussianPolicy": "poela.policies.gaussian",
    "load_policy": "poela.policies.storage",
    "PageOptions": "poela.report.page",
    "WatchPlan": "poela.rounds.looks",
    "plan_next": "poela.rounds.next_log",
    "watch": "poela.rounds.watch",
    "save_mlflow": "poela.serving.pyfunc",
    "Dosing": "poela.simulators.doses",
    "Titration": "poela.simulators.doses",
    "run": "poela.simulators.episodes",
    "simulate": "poela.simulators.registry",
    "Schedule": "poela.simulators.tumor",
    "TumorBehavior": "poela.simulators.tumor",
    "TumorGrowth": "poela.simulators.tumor",
    "audit": "poela.studies.audit",
    "Candidate": "poela.studies.candidates",
    "Groups": "poela.studies.groups",
    "learn": "poela.studies.learning",
    "plan": "poela.studies.planning",
    "Point": "poela.studies.selection",
    "Selection": "poela.studies.selection",
    "Study": "poela.studies.study",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'poela' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*sorted(_HOME), "__version__"]
