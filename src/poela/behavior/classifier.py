"""Behavior by any classifier with `fit` and `predict_proba`, such as scikit-learn's."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

import numpy as np

from poela.behavior.model import Behavior, BehaviorModel, Schema
from poela.behavior.normal import NormalBehavior, RegressorBehavior
from poela.behavior.tempered import TemperedBehavior
from poela.core.arrays import Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.live import stored_live, unfitted
from poela.core.references import described, description, is_reference, reference, referred
from poela.core.storage import Stored
from poela.core.typed import shown
from poela.data.trajectories import Trajectories
from poela.regression.step_foreign import Predictor


@runtime_checkable
class Classifier(Protocol):
    """What scikit-learn's classifiers, and those that follow them, have."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn classes `y` [N] from features `X` [N, d]."""

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, [N, classes], in the order of `classes_`."""


@dataclass(frozen=True, eq=False)
class ClassifierBehavior(Behavior):
    """Somebody's classifier as a model of the logging policy; each fit is that of an unfitted copy.

    >>> from sklearn.linear_model import LogisticRegression
    >>> contexts = np.random.default_rng(0).normal(size=(400, 2))
    >>> logs = Trajectories(contexts, contexts[:, 0] > 0, np.zeros(400), np.arange(0, 401, 4))
    >>> ClassifierBehavior(LogisticRegression(C=100)).fit(logs).probabilities([[-1.0, 0.0], [1.0, 0.0]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    classifier: Classifier  # with fit and predict_proba, as scikit-learn has them

    def fit_quietly(self, train: Trajectories, seed: int) -> "ClassifierModel":
        """The fitted model; a classifier that takes a `random_state` and has none gets the seed."""
        schema = Schema.of(train)
        fitted = unfitted(self.classifier, seed)
        if len(schema.seen) > 1:
            fitted.fit(np.asarray(train.contexts, np.float64), schema.codes(train.actions))
        model = ClassifierModel(self, schema, fitted, b"")
        evidence = sha256(model.along(train).tobytes() + repr(schema).encode()).digest()
        return ClassifierModel(self, schema, fitted, evidence)


@dataclass(frozen=True, eq=False)
class ClassifierModel(BehaviorModel):
    """A fitted classifier of somebody's, which lives in this process."""

    settings: ClassifierBehavior
    schema: Schema
    classifier: Classifier
    evidence: bytes  # what tells it from others

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        """As the classifier gives them, checked."""
        rows = np.asarray(self.classifier.predict_proba(np.asarray(contexts, np.float64)), np.float64)
        expected = (len(contexts), len(self.schema.seen))
        name = type(self.classifier).__name__
        if rows.shape != expected:
            raise InputError(f"{name}.predict_proba gives an array of shape {rows.shape}, but {expected} is expected")
        if not (np.isfinite(rows).all() and (rows >= 0).all() and (rows.sum(axis=1) > 0).all()):
            raise InputError(f"{name}.predict_proba gives probabilities that are negative, NaN, or 0 of every action")
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def stored(self) -> Stored:
        """A reference: no file can hold the object itself."""
        return stored_live(self, self.evidence)

    def __repr__(self) -> str:
        return description(self.classifier)


def behavior_reference(behavior: Any) -> Any:
    """What stands for a behavior in plain settings: names as they are; objects as references, checked.

    A classifier's probabilities get a temperature, fitted on a fifth of the episodes that it does not see.
    """
    if isinstance(behavior, str):
        return behavior
    if isinstance(behavior, type):
        raise InputError(f"behavior is the class {behavior.__name__}: give an object, {behavior.__name__}()")
    if not isinstance(behavior, Behavior | NormalBehavior | Classifier | Predictor):
        raise InputError(
            f"behavior is {shown(behavior)}: give a name, a behavior model such as poela.KNNBehavior(), a classifier "
            "with fit and predict_proba or, for real-valued actions, a regressor with fit and predict"
        )
    return reference(behavior)


def behavior_of(text: str) -> Behavior:
    """The behavior that a reference stands for."""
    thing = referred(text)
    if isinstance(thing, Behavior | Classifier):
        return thing if isinstance(thing, Behavior) else TemperedBehavior(ClassifierBehavior(thing))
    raise InputError(f"behavior {description(thing)} is a model of real-valued actions, and these are a finite set")


def behavior_of_amounts(text: str) -> NormalBehavior:
    """The same where actions are real numbers: a Gaussian model, or a regressor."""
    thing = referred(text) if is_reference(text) else None
    if isinstance(thing, NormalBehavior):
        return thing
    if isinstance(thing, Predictor) and not isinstance(thing, Classifier):
        return RegressorBehavior(thing)
    raise InputError(
        f"behavior {described(text)!r} is a model of a finite set of actions, and these logs have real-valued ones: "
        "leave it at auto, which fits a Gaussian, or give poela.GaussianBehavior(...) or a regressor"
    )
