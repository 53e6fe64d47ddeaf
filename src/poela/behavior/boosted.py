"""Behavior as gradient-boosted trees."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np

from poela.behavior.model import (
    SETTINGS,
    Behavior,
    BehaviorModel,
    HeldOut,
    LoadPart,
    Schema,
    held_out_split,
    mean_log_likelihood,
)
from poela.core.arrays import Float32Array, FloatArray
from poela.core.errors import PoelaError
from poela.core.interruption import safe_point
from poela.core.storage import Stored
from poela.core.typed import Count, Positive, Range, from_plain
from poela.core.validation import expect_contents
from poela.data.trajectories import Trajectories
from poela.regression.forest import ARRAYS, MAX_LEAVES, Forest

ROUNDS_AT_A_TIME = 10


@dataclass(frozen=True)
class BoostedBehavior(Behavior):
    """Histogram gradient boosting by scikit-learn, stopped by the likelihood of held-out episodes.

    >>> contexts = np.random.default_rng(0).normal(size=(400, 2))
    >>> logs = Trajectories(contexts, contexts[:, 0] > 0, np.zeros(400), np.arange(0, 401, 4))
    >>> BoostedBehavior(max_rounds=40).fit(logs).probabilities([[-1.0, 0.0], [1.0, 0.0]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    max_rounds: Count = 200  # one round: one tree for each action
    learning_rate: Positive = 0.1  # how much each tree counts
    leaves: Annotated[int, Range(least=2, most=MAX_LEAVES)] = 15  # of each tree, at most
    steps_per_leaf: Count = 20  # decisions in a leaf, at least
    held_out: HeldOut = 0.1  # the share of episodes that tells when to stop; 0: all rounds, on all episodes

    def fit_quietly(self, train: Trajectories, seed: int) -> "BoostedModel":
        """The fitted model; the seed chooses the held-out episodes."""
        schema = Schema.of(train)
        if len(schema.seen) == 1:
            return BoostedModel(self, schema, Forest.of([], np.zeros(1)))
        return BoostedModel(self, schema, self._grown(train, schema, seed))

    def fit_shares(self, train: Trajectories, shares: FloatArray, seed: int) -> "BoostedModel":
        """The model of known probabilities [N, A], all rounds: each row counts for every action by its share."""
        schema = replace(Schema.of(train), seen=tuple(np.flatnonzero(shares.any(axis=0)).tolist()))
        if len(schema.seen) == 1:
            return BoostedModel(self, schema, Forest.of([], np.zeros(1)))
        rows, codes = np.nonzero(shares[:, schema.seen])
        weights = shares[:, schema.seen][rows, codes]
        classifier = self._classifier(seed).set_params(max_iter=self.max_rounds)
        classifier.fit(train.contexts[rows], codes, sample_weight=weights)
        return BoostedModel(self, schema, _exported(classifier, self.max_rounds, train.contexts))

    def _grown(self, train: Trajectories, schema: Schema, seed: int) -> Forest:
        learn, judge = held_out_split(train, self.held_out, seed)
        codes = schema.codes(learn.actions)
        classifier = self._classifier(seed)
        if judge is None:
            classifier.set_params(max_iter=self.max_rounds).fit(learn.contexts, codes)
            return _exported(classifier, self.max_rounds, learn.contexts)
        judged = schema.codes(judge.actions)
        frequencies = np.bincount(codes) / len(codes)
        best_rounds, best = 0, float(np.log(frequencies[judged]).mean())
        for start in range(0, self.max_rounds, ROUNDS_AT_A_TIME):
            safe_point()
            rounds = min(start + ROUNDS_AT_A_TIME, self.max_rounds)
            classifier.set_params(max_iter=rounds).fit(learn.contexts, codes)
            likelihood = mean_log_likelihood(classifier.predict_proba(judge.contexts), judged)
            if likelihood <= best:
                break
            best_rounds, best = rounds, likelihood
        return _exported(classifier, best_rounds, learn.contexts)

    def _classifier(self, seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.steps_per_leaf,
            early_stopping=False,
            warm_start=True,
            random_state=seed,
        )


def _exported(classifier: Any, rounds: int, contexts: Float32Array) -> Forest:
    """The first rounds of a fitted classifier as plain arrays."""
    grown, baseline = classifier._predictors, classifier._baseline_prediction[0]
    whole = Forest.of([tree.nodes for trees in grown for tree in trees], baseline)
    # scikit-learn has no public way to its boosted histograms (`tree_` and `export_text` are of single trees alone), so
    # private fields are read: make sure that they still mean what is read from them.
    if not np.allclose(_softmax(whole.scores(contexts[:100])), classifier.predict_proba(contexts[:100])):
        raise PoelaError("this scikit-learn keeps boosted trees in an unknown form: use another behavior model")
    return Forest.of([tree.nodes for trees in grown[:rounds] for tree in trees], baseline)


def _softmax(scores: FloatArray) -> FloatArray:
    from scipy.special import softmax

    # Of two actions only the second one's score is kept; the first one's is 0.
    both = np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores
    return np.asarray(softmax(both, axis=1))


@dataclass(frozen=True, eq=False)
class BoostedModel(BehaviorModel):
    """Fitted boosted trees, as plain arrays."""

    settings: BoostedBehavior
    schema: Schema
    forest: Forest

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        """Softmax of the trees' scores."""
        return _softmax(self.forest.scores(contexts))

    def after(self, rounds: int) -> "BoostedModel":
        """The model as it was after its first rounds."""
        return replace(self, forest=self.forest.beginning(rounds * len(self.forest.baseline)))

    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
        settings = {"settings": asdict(self.settings), **self.schema.to_settings()}
        return Stored("boosted_behavior", settings, self.forest.to_arrays())

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart | None = None) -> "BoostedModel":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("settings", *SETTINGS), arrays=ARRAYS)
        schema = Schema.from_stored(stored)
        n_scores = len(schema.seen) if len(schema.seen) > 2 else 1
        forest = Forest.from_stored(stored, n_scores, n_inputs=len(schema.feature_names))
        return cls(from_plain(BoostedBehavior, stored.settings["settings"], "settings"), schema, forest)
