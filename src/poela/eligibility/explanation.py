"""Why an action is eligible or barred at a context, with the nearest logged cases, in words."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.boosted import BoostedModel
from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.readable import plain, readable, share_in_words
from poela.data.action_space import ActionName
from poela.data.limits import FORBIDDEN
from poela.eligibility.foreign import OwnRule, OwnScale
from poela.eligibility.support_model import SupportModel

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility
    from poela.eligibility.rules import Eligibility

# Logged cases that the trees of a support model treat like the one in question: a learned distance.
# Two cases are alike as far as trees put them into the same leaf; what their tests ask about counts, in the units
# that the model found to matter, and nothing else does.

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


# In what a logged case is like the one in question, by the parts of their distance.

ALIKE = 0.05  # of what two random cases differ by, squared
MOST_NAMES = 3


@dataclass(frozen=True)
class Likeness:
    """Columns in which two cases are alike, and the one in which they differ most.

    >>> print(Likeness(("lactate", "ward"), "age"))
    alike in lactate and ward; differs most in age
    """

    alike: tuple[str, ...] = ()
    differs: str | None = None  # None: in nothing

    def __str__(self) -> str:
        *others, last = self.alike or ("",)
        names = f"{', '.join(others)} and {last}" if others else last
        told = (f"alike in {names}" if names else "", f"differs most in {self.differs}" if self.differs else "")
        return "; ".join(filter(None, told))


def likenesses(
    rule: "FittedEligibility", context: Float32Array, cases: IntArray, shared: SharedLeaves | None = None
) -> list[Likeness]:
    """For one context [d] and the positions of logged ones; without words where there is one column, or no difference.

    Features of one column, such as the indicators of a category, count together. With `shared` leaves, columns are told
    by the tests of trees that the cases pass alike, instead of by parts of distances.
    """
    assert rule.logged is not None
    if shared is None and isinstance(rule.logged.scale, OwnScale):
        return [Likeness()] * len(cases)  # whose features have no names
    names, column_of = _columns(rule)
    if shared is None:
        features, logged = rule.logged.features(context[None]), rule.logged.features(rule.logged.contexts[cases])
        differing, spread = np.square(logged - features), 2 * rule.logged.spread
    else:
        differing, spread = shared.differing, shared.tests
    parts = np.stack([np.bincount(column_of, row, len(names)) for row in differing])
    usual = np.asarray(np.bincount(column_of, spread, len(names)), np.float64)
    return [Likeness() if len(names) == 1 or not row.any() else _likeness(names, row, usual) for row in parts]


def _columns(rule: "FittedEligibility") -> tuple[list[str], IntArray]:
    """The columns of the table, and the place of each feature's column among them; else features stand for columns."""
    if rule.schema is None or rule.schema.feature_names != rule.feature_names:
        return list(rule.feature_names), np.arange(rule.n_features)
    names = [variable.name for variable in rule.schema.variables]
    widths = [len(variable.features) for variable in rule.schema.variables]
    if rule.schema.limits is not None:
        names, widths = [*names, *rule.schema.limits.features], [*widths, *(1 for _ in rule.schema.limits.features)]
    return names, np.repeat(np.arange(len(widths)), widths)


def _likeness(names: list[str], parts: FloatArray, usual: FloatArray) -> Likeness:
    """Of columns that tell cases apart; those first in which cases usually differ most.

    >>> _likeness(["age", "ward", "year"], np.array([1.0, 0.0, 0.0]), np.array([2.0, 1.0, 0.0]))
    Likeness(alike=('ward',), differs='age')
    """
    alike = (usual > 0) & (parts <= ALIKE * usual)
    order = np.argsort(-usual, kind="stable")
    most = int(parts.argmax())
    return Likeness(
        alike=tuple(names[place] for place in order[alike[order]][:MOST_NAMES]),
        differs=None if alike[most] else names[most],
    )


HEADER = ("action", "eligible", "distance", "why", "nearest logged cases")


@dataclass(frozen=True)
class LoggedCase:
    """A logged context near the one in question."""

    row: int  # in the training log
    episode: ActionName  # its id, or its position where ids were left out
    step: int
    distance: float
    likeness: Likeness
    shared: float | None = None  # the share of the support model's trees that put both into one leaf, where it has any

    def __str__(self) -> str:
        likeness = str(self.likeness)
        where = f"row {self.row} (episode {self.episode}, step {self.step}) at {readable(self.distance)}"
        where += "" if self.shared is None else f", alike for {share_in_words(self.shared)} of trees"
        return f"{where} ({likeness})" if likeness else where


@dataclass(frozen=True)
class ActionExplanation:
    """One action: whether it may be taken, and why."""

    action: ActionName
    eligible: bool
    why: str
    distance: float | None  # None: never logged, or the logged contexts are not at hand
    probability: float | None  # under the logging policy, where the rule asks for it
    received: float | None  # the share of similar past cases that received it, where the rule asks for support
    usually: float | None  # the share of all past cases
    cases: tuple[LoggedCase, ...]


@dataclass(frozen=True)
class Explanation:
    """What may be done at one context, action by action; prints as a table."""

    stranded: bool  # nothing passed the rule: the fallback acted
    actions: tuple[ActionExplanation, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers, for JSON."""
        return asdict(self)

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                str(action.action),
                "yes" if action.eligible else "no",
                "-" if action.distance is None else readable(action.distance),
                action.why,
                "; ".join(map(str, action.cases)),
            )
            for action in self.actions
        ]

    def __str__(self) -> str:
        lines = self._cells()
        widths = [max(len(line[column]) for line in (HEADER, *lines)) for column in range(len(HEADER))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (HEADER, *lines)
        )

    def _repr_html_(self) -> str:
        from poela.core.readable import table

        return table(HEADER, self._cells())


def explain(fitted: "FittedEligibility", context: ArrayLike, k: int, step: int | None) -> Explanation:
    """The explanation for one context."""
    row = np.asarray(context, np.float32)
    if row.ndim != 1:
        raise InputError(f"explain takes one context of {len(fitted.feature_names)} features, not shape {row.shape}")
    if k < 0:
        raise InputError(f"k is {k}: it must be 0 or more")
    steps = None if step is None else [step]
    eligible = fitted.resolve(row[None], steps)
    distances = None if fitted.logged is None else fitted.distances(row[None], steps)[0]
    probabilities = None if fitted.behavior is None else fitted.behavior_probabilities(row[None])[0]
    support = [None] * fitted.n_actions if fitted.support is None else _received(fitted.support, row)
    stranded = bool(eligible.stranded[0])
    reached = distances is None or fitted.reach is None or float(distances.min()) <= fitted.reach
    actions, forbidden = [], _forbidden(fitted, row)
    rule = fitted.settings.allows
    own = rule.mask(row[None])[0] if isinstance(rule, OwnRule) else None
    for action in range(fitted.n_actions):
        distance = None if distances is None else float(distances[action])
        probability = None if probabilities is None else float(probabilities[action])
        allowed = bool(eligible.mask[0, action])
        highest = 0.0 if probabilities is None else float(probabilities.max())
        received = support[action]
        # Without a past case within reach none is similar, and there is nothing to count.
        barred = [] if received is None or received.supported or not reached else [str(received)]
        barred += forbidden.get(action, [])
        barred += _why_barred(fitted.settings, distance, probability, highest)
        if own is not None and not own[action]:
            barred.append(f"not allowed by {fitted.settings.allows!r}")
        if not reached and fitted.reach is not None:
            barred.append(f"no case was logged within the reach {plain(fitted.reach)}")
        actions.append(
            ActionExplanation(
                action=fitted.action_names[action],
                eligible=allowed,
                why=_why_allowed(fitted.settings, stranded, received) if allowed else "; ".join(barred),
                distance=None if distance is None or np.isinf(distance) else distance,
                probability=probability,
                received=None if received is None else received.share,
                usually=None if received is None else received.usual,
                cases=_cases(fitted, row, action, k, step),
            )
        )
    return Explanation(stranded, tuple(actions))


def _forbidden(fitted: "FittedEligibility", row: Any) -> dict[int, list[str]]:
    """Why actions are forbidden at a context, by their numbers."""
    if fitted.limits is None:
        return {}
    limits = None if fitted.schema is None else fitted.schema.limits
    values = {action: float(row[feature]) for feature, action in fitted.limits.places if row[feature] > 0}
    return {
        action: [
            ("" if value >= FORBIDDEN else "perhaps ")
            + ("forbidden" if limits is None else f"forbidden ({limits.why(str(fitted.action_names[action]))})")
        ]
        for action, value in values.items()
    }


@dataclass(frozen=True)
class _Received:
    """How many cases like this one received an action."""

    share: float
    usual: float
    supported: bool

    def __str__(self) -> str:
        return f"received by {share_in_words(self.share)} of similar past cases, usually {share_in_words(self.usual)}"


def _received(support: SupportModel, row: Any) -> list[_Received | None]:
    shares = support.probabilities(row[None])
    columns = shares[0].tolist(), support.rates.tolist(), support.supported(shares)[0].tolist()
    return [_Received(*one) for one in zip(*columns, strict=True)]


def _why_barred(rule: "Eligibility", distance: float | None, probability: float | None, highest: float) -> list[str]:
    reasons = []
    if rule.radius is not None and distance is not None:
        if np.isinf(distance):
            reasons.append("never logged at this step" if rule.neighbours == "same_step" else "never logged")
        elif distance > float(rule.radius):
            reasons.append(f"logged beyond the radius {plain(float(rule.radius))}")
    if rule.minimum_probability is not None and probability is not None:
        if probability == 0:
            reasons.append("the logging policy never takes it here")
        elif probability < rule.minimum_probability:
            reasons.append(f"probability {probability:.3g} is below {rule.minimum_probability:g}")
    share = rule.relative_probability
    if share is not None and probability is not None and probability <= share * highest:
        reasons.append(f"probability {probability:.3g} is not above {share:g} of the most probable action's")
    return reasons


def _why_allowed(rule: "Eligibility", stranded: bool, received: _Received | None) -> str:
    if stranded:
        nearest = "nearest" if rule.measures else "most probable"
        return "fallback: " + {"nearest": nearest, "behavior": "as the logging policy", "all": "all"}[rule.fallback]
    passed = []
    if received is not None:
        passed.append(str(received) + (": not barred, but at a price" if not received.supported else ""))
    if rule.radius is not None:
        passed.append(f"logged within the radius {plain(float(rule.radius))}")
    asked = rule.minimum_probability if rule.support is not None else rule.minimum_probability is not None
    if asked or rule.relative_probability is not None:
        passed.append("probable enough")
    if rule.support is not None and not passed:
        passed.append("every action was taken in all kinds of cases")
    if rule.allows is not None:
        passed.append(f"allowed by {rule.allows!r}")
    if rule.reach is not None and not passed:
        passed.append(f"a case was logged within the reach {plain(float(rule.reach))}")
    return " and ".join(passed) or "no rule"


def _cases(fitted: "FittedEligibility", row: Any, action: int, k: int, step: int | None) -> tuple[LoggedCase, ...]:
    logged = fitted.logged
    if logged is None or k == 0:
        return ()
    learned = fitted.support is not None
    members, squared = logged.cases(row, action, max(k, MOST_CANDIDATES) if learned else k, step)
    found = most_alike(fitted, row, members, k) if learned and len(members) else None
    order, shared = (np.arange(len(members))[:k], None) if found is None else found
    members, distances = members[order], fitted.on_metric_scale(squared[order])
    ids = fitted.episode_ids
    alike = likenesses(fitted, row, members, shared) if len(members) else []
    shares = [None] * len(members) if shared is None else shared.shares.tolist()
    return tuple(
        LoggedCase(
            row=int(logged.rows[member]),
            episode=int(logged.episodes[member]) if ids is None else ids[logged.episodes[member]],
            step=int(logged.steps[member]),
            distance=float(distance),
            likeness=likeness,
            shared=share,
        )
        for member, distance, likeness, share in zip(members, distances, alike, shares, strict=True)
    )
