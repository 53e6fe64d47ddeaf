"""Behavior that looks back: another model, fitted on history features, for logging policies that remember."""

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.annotation import FLOOR
from poela.behavior.boosted import BoostedBehavior
from poela.behavior.model import SETTINGS, Behavior, BehaviorModel, LoadPart, Schema
from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError, PoelaWarning
from poela.core.policy import Actor, LoggedSteps
from poela.core.readable import plain
from poela.core.storage import Stored
from poela.core.typed import Count
from poela.core.validation import expect_contents, expect_part, expect_sizes
from poela.data.folds import fold_numbers
from poela.data.history import HistoryFeatures, WithHistory, history_of
from poela.data.trajectories import Trajectories

# Whether the logging policy remembers: does the last step tell its actions better than the context alone?

LAGS = 1
MOST_STEPS, MOST_NUMBERS = 6000, 5e5  # steps, and features of all of them: what is fitted in a few seconds
FEWEST_UNITS, STEPS_PER_ACTION = 10, 40  # with fewer, nothing can be told from luck
STANDARD_ERRORS = 3.0  # so far above zero a gain must be, and farther where few units tell its error
LEAST_GAIN = 0.01  # nats per step: less moves the weight of an episode of 30 steps by a third or so
# A model whose excess loss falls as 1/√n could still gain 1 / (√2 − 1) times what the last doubling of n has brought.
LEFT_TO_LEARN = 2.4
# The same on both sides: when to stop boosting would be told by a few episodes, and hence by luck.
ROUNDS = (14, 40)
LINEAR, BOOSTED = (
    MultinomialBehavior(),
    BoostedBehavior(max_rounds=ROUNDS[-1], learning_rate=0.15, leaves=6, held_out=0),
)


@dataclass(frozen=True)
class Memory:
    """Held-out log likelihoods of logged actions per step, given the context alone and given the last step too."""

    without: float
    with_history: float
    gain: float  # of the second over the first
    standard_error: float  # of the gain; both are paired by episode, or by cluster
    needed: float  # what the gain must exceed
    steps: int  # how many were judged; 0: these logs cannot tell

    @property
    def remembers(self) -> bool:
        """Whether the last step tells more than luck, and more than a better model of the context might."""
        return self.gain > self.needed

    def __str__(self) -> str:
        if not self.steps:
            return (
                "these logs cannot tell whether the logging policy remembers: that takes "
                f"{FEWEST_UNITS} episodes or clusters of several steps, two actions, {STEPS_PER_ACTION} steps for each "
                "action, and no history features yet"
            )
        size = f"{_nats(abs(self.gain))} nats per step {'higher' if self.gain > 0 else 'lower'}"
        finding = f"with the last action and context its held-out likelihood is {size}"
        if not self.remembers:
            return f"the logging policy does not seem to remember: {finding}, and {_nats(self.needed)} would count"
        errors = f"{self.gain / self.standard_error:.0f} standard errors" if self.standard_error else "in all episodes"
        return f"the logging policy remembers: {finding} ({errors}); add history (with_history) or log propensities"


def _nats(number: float) -> str:
    return plain(float(f"{number:.2g}"))


def memory_of(logs: Trajectories, seed: int = 0) -> Memory:
    """Whether the logging policy remembers more than the contexts show.

    Held-out episodes (clusters whole) tell how likely the logged actions are under a model of the context, and under
    one of the context, the last context and action, and the number of steps so far. Both are the best of logistic
    regression and of few or more boosted trees. Under a logging policy without memory the last step may still help a
    model that has seen too little: so it must help more than any number of further episodes is likely to help the model
    of the context, by what the last doubling of their number has brought.

    >>> rng = np.random.default_rng(0)
    >>> actions = np.cumsum(rng.random((200, 5)) < 0.1, axis=1) % 2  # nine times in ten the last one again
    >>> logs = Trajectories(rng.normal(size=(1000, 1)), actions.ravel(), np.zeros(1000), np.arange(0, 1001, 5))
    >>> print(memory_of(logs))
    the logging policy remembers: with the last action and context its held-out likelihood is 0.23 nats per step higher
    (11 standard errors); add history (with_history) or log propensities
    """
    sample = _sample(logs, seed)
    if sample is None:
        return Memory(math.nan, math.nan, math.nan, math.nan, math.inf, steps=0)
    plain = sample[0]
    quarters = fold_numbers(plain, 4, seed)
    fewer = held_out_likelihoods(plain, quarters, quarters < 2, seed)
    every = np.ones(plain.n_episodes, np.bool_)
    without, with_history = (held_out_likelihoods(side, quarters, every, seed) for side in sample)
    gain, error = mean_and_error(with_history - without, plain)
    to_learn = LEFT_TO_LEARN * float((without - fewer).mean())
    needed = max(standard_errors(plain.n_units) * error, LEAST_GAIN, to_learn)
    return Memory(float(without.mean()), float(with_history.mean()), gain, error, needed, plain.n_steps)


def _sample(logs: Trajectories, seed: int) -> tuple[Trajectories, Trajectories] | None:
    """Random units with no more steps than can be fitted quickly, as they are and with history; None: too few."""
    sample = sample_to_fit(logs, 2 * logs.n_features + logs.n_actions + 2, seed)
    if sample is None or sample.lengths.max() == 1:
        return None
    try:
        return sample, sample.with_history(LAGS)
    except InputError:  # there are history features already
        return None


def sample_to_fit(logs: Trajectories, width: float, seed: int) -> Trajectories | None:
    """Random units with no more steps than models of so many features fit quickly; None: too few to tell anything."""
    order = np.random.default_rng(seed).permutation(logs.n_units)
    steps = np.bincount(logs.units, logs.lengths)[order]
    units = order[np.cumsum(steps) <= min(MOST_STEPS, MOST_NUMBERS / width)]
    sample = logs.take(np.isin(logs.units, units)) if len(units) >= FEWEST_UNITS else None
    taken = 0 if sample is None else len(np.unique(sample.actions))
    return sample if sample is not None and taken > 1 and sample.n_steps >= STEPS_PER_ACTION * taken else None


def held_out_likelihoods(logs: Trajectories, quarters: IntArray, seen: BoolArray, seed: int) -> FloatArray:
    """Log likelihoods [N] of the logged actions, by the better model; each half from one fitted on the other half.

    Only episodes that are `seen` are fitted on.
    """
    likelihoods = np.empty((1 + len(ROUNDS), logs.n_steps))
    for half in (0, 1):
        held = quarters % 2 == half
        judged, rows = logs.take(held), np.flatnonzero(held[logs.episode_of_step])
        train = logs.take(~held & seen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PoelaWarning)  # of a fit that has not converged
            linear, boosted = LINEAR.fit_quietly(train, seed), BOOSTED.fit_quietly(train, seed)
        for place, model in enumerate([linear, *map(boosted.after, ROUNDS)]):
            chances = model.along(judged)[np.arange(len(rows)), judged.actions]
            likelihoods[place, rows] = np.log(np.maximum(chances, FLOOR))
    return np.asarray(likelihoods[likelihoods.mean(axis=1).argmax()])


def mean_and_error(differences: FloatArray, logs: Trajectories) -> tuple[float, float]:
    """The mean of differences [N], and its standard error where steps of one unit may depend on each other."""
    mean = float(differences.mean())
    of_unit = np.bincount(logs.units[logs.episode_of_step], differences - mean)
    variance = np.square(of_unit).sum() * len(of_unit) / (len(of_unit) - 1)
    return mean, float(np.sqrt(variance)) / logs.n_steps


def standard_errors(units: int, known: float = STANDARD_ERRORS) -> float:
    """How many standard errors that few units tell are as rare, by Student's t, as so many of a known one."""
    from scipy.stats import norm, t

    return float(t.isf(norm.sf(known), units - 1))


@dataclass(frozen=True)
class HistoryBehavior(Behavior):
    """Another behavior model that sees the contexts and actions of the last steps, and how many there were so far.

    >>> import numpy as np
    >>> from poela.behavior.multinomial import MultinomialBehavior
    >>> logs = Trajectories(np.zeros((40, 1)), [0, 1] * 20, np.zeros(40), np.arange(0, 41, 4))
    >>> HistoryBehavior(MultinomialBehavior(penalty=0.01)).fit(logs).along(logs.take([0]))[1:].round(1)
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    behavior: Behavior  # the model that sees earlier steps, too
    steps: Count = 1  # how far it looks back

    def fit_quietly(self, train: Trajectories, seed: int) -> "HistoryModel":
        """The inner model, fitted on the logs with history."""
        return self.around(self.behavior.fit_quietly(train.with_history(self.steps), seed), train)

    def around(self, inner: BehaviorModel, train: Trajectories) -> "HistoryModel":
        """A model that was fitted on these logs with history, as one of the logs themselves."""
        features = HistoryFeatures(self.steps, train.n_features, train.n_actions)
        return HistoryModel(self, Schema.of(train), inner, features)


@dataclass(frozen=True, eq=False)
class HistoryModel(BehaviorModel):
    """A fitted model of history features: it follows whole episodes, not loose contexts."""

    settings: HistoryBehavior
    schema: Schema
    model: BehaviorModel
    features: HistoryFeatures

    @property
    def holds_logged_contexts(self) -> bool:
        """As the inner model does."""
        return self.model.holds_logged_contexts

    @property
    def _policy(self) -> WithHistory:
        return WithHistory(self.model, self.features, self.schema.feature_names, self.schema.action_names)

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """Refused: loose contexts have no history."""
        raise InputError(
            "this behavior model looks at earlier steps: use along(trajectories), annotate(trajectories) or actor(n), "
            "not loose contexts"
        )

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        self.schema.check_logs(trajectories)
        return self._policy.along(trajectories)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, with a record of their last steps."""
        return self._policy.actor(n)

    def stored(self) -> Stored:
        """As plain settings, with the inner model as a part."""
        settings: dict[str, Any] = {"history": asdict(self.features), **self.schema.to_settings()}
        return Stored("history_behavior", settings, parts={"model": self.model.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart) -> "HistoryModel":
        """The inverse of `stored`."""
        expect_contents(stored, settings=("history", *SETTINGS), parts=("model",))
        schema = Schema.from_stored(stored)
        features = history_of(stored.settings["history"], len(schema.feature_names), schema.n_actions)
        model = expect_part(stored, "model", load_part, BehaviorModel, "a behavior model")
        expect_sizes("model", model, features.width, features.n_actions)
        return cls(HistoryBehavior(model.settings, features.steps), schema, model, features)
