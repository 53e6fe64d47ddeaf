"""Decisions for the rows of a table: what is drawn, by which probabilities, what else may be done, who was like it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.draws import Key, uniforms
from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.policy import Actor, LoggedSteps, actions_at
from poela.core.typed import Seed, parsed
from poela.data.action_space import Finite
from poela.data.decided import ABOUT, ACTION, DEFER, POLICY, ROW
from poela.data.decision_rows import PART_ROWS, RowRequirements, Rows, parts_to_decide
from poela.data.history import StepsToFollow
from poela.data.layout import PREFIX, LogLayout
from poela.data.words import quoted
from poela.policies.continuous_decisions import columns_of_amounts, decided_amounts
from poela.policies.decision_cells import (
    FEWEST_CASES,
    LEFT,
    NEAREST_CASES,
    columns_before,
    eligible_lists,
    eligible_texts,
    notes_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import TypeIs

    from poela.policies.gaussian import RealPolicy
    from poela.policies.ruled import RuledPolicy

# The likeliest action instead of a drawn one: another policy, which is judged as one.


def likeliest_alone(probabilities: FloatArray) -> FloatArray:
    """All probability on the likeliest action, the first of equals.

    >>> likeliest_alone(np.array([[0.2, 0.8], [0.5, 0.5]]))
    array([[0., 1.],
           [1., 0.]])
    """
    alone = np.zeros(probabilities.shape)
    alone[np.arange(len(alone)), probabilities.argmax(axis=1)] = 1.0
    return alone


@dataclass(frozen=True, eq=False)
class LikeliestActions:
    """A learned policy's likeliest actions; along logged episodes it falls back as before where nothing was near."""

    policy: Any

    def probabilities(self, contexts: Any) -> FloatArray:
        """[N, A] of loose contexts."""
        return likeliest_alone(self.policy.probabilities(contexts))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        drawn = self.policy.along(trajectories)
        # Deferred cases are left to those who decide, whichever way actions are handed out.
        return np.where(self.stranded(trajectories)[:, None], drawn, likeliest_alone(drawn))

    def stranded(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] had nothing eligible nearby."""
        found: BoolArray = self.policy.stranded(trajectories)
        return found

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _LikeliestActor(self.policy.actor(n))


class _LikeliestActor:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return likeliest_alone(self._actor.probabilities(contexts))

    def record(self, actions: IntArray) -> None:
        self._actor.record(actions)


LIKELIEST = "-likeliest"  # after the hash of a policy: its likeliest actions are another one
ALLOTTED = "-allotted"  # and so is what it allots to a batch
USED_UP = "another action has more value for its cost here, but it is used up"
NONE_LEFT = "only actions that are used up are eligible: decide as before"


@dataclass(frozen=True, eq=False)
class Allotted:
    """What cases [n] of a batch get, in the order of the table: known before any of them is decided about."""

    chosen: IntArray  # −1: none
    probabilities: FloatArray  # [n, A] given the batch: 1 or 0, but where cases of equal worth drew lots
    left_out: BoolArray  # which would have got more, had there been more
    unserved: BoolArray  # to which nothing could be given, since all that is eligible is used up


@dataclass(frozen=True)
class Deciding:
    """How decisions are made, and what is reported beside them.

    Actions are drawn by the probabilities of the policy. A draw depends on the seed (None: the policy's own hash), the
    case and its step alone.
    """

    seed: int | None = None
    similar: bool = True
    keep: tuple[str, ...] = ()
    outcomes: Any = None  # [rows of the training log], what came of each; None: not known
    lists: bool = False  # eligible actions as a list of names and distances, for programs, in place of one text
    case: str | None = None  # the column that names cases; None: the episode's, or one called "case", or row numbers
    likeliest: bool = False  # all probability on the likeliest action, which is another policy
    contexts: bool = True  # whether what was known of a case is kept beside its decision
    uniform: FloatArray | None = None  # by row (and column of amounts), in the order of the table: drawn already
    steps: IntArray | None = None  # by row: how many came before, for rows that stand for themselves
    allotted: Allotted | None = None  # by row: what a batch gets within limits, which is another policy
    leave: bool = False  # no action where a policy only bars some and leaves a choice: people make it

    def __post_init__(self) -> None:
        if self.seed is not None:
            parsed("seed", Seed, self.seed)
        if self.leave and (self.likeliest or self.allotted is not None):
            raise InputError("choices are left to people, or each case gets an action by the policy: say one of them")

    def name_of(self, policy: Any) -> str:
        """The policy that acts, as it is written beside each decision: sixteen digits of its hash."""
        another = LIKELIEST if self.likeliest else "" if self.allotted is None else ALLOTTED
        return f"{policy.short_hash}{another}"


def decided_parts(
    policy: "RuledPolicy | RealPolicy", source: Any, how: Deciding, layout: LogLayout | None = None
) -> "Iterator[pa.Table]":
    """Tables of decisions, in the order of the rows; each is made before the next rows are read."""
    wanted = rows_wanted(policy, how)
    seed, start, seen = policy.short_hash if how.seed is None else how.seed, 0, Counter[str]()
    for rows in parts_to_decide(source, wanted, layout or LogLayout()):
        undrawn = how.uniform is not None or how.likeliest or how.allotted is not None
        keys = () if undrawn else rows.keys(start, seen)
        if _draws_amounts(policy):
            drawn = how.uniform[start : start + rows.n] if how.uniform is not None else np.zeros(0)
            if how.uniform is None and not how.likeliest:
                drawn = uniform_by_column(seed, keys, len(policy.action_names))
            table = decided_amounts(policy, rows, how, start, drawn)
        else:
            drawn = uniforms(seed, keys) if how.uniform is None else how.uniform[start : start + rows.n]
            drawn = drawn if how.allotted is None else np.zeros(rows.n)
            table = _decided(policy, rows, how, start, drawn)
        start += table.num_rows
        yield table


def _draws_amounts(policy: "RuledPolicy | RealPolicy") -> "TypeIs[RealPolicy]":
    """Whether actions are real numbers; told by the policy, since policies are made of what is here."""
    return policy.real_valued


def rows_wanted(policy: "RuledPolicy | RealPolicy", how: Deciding) -> RowRequirements:
    """The rows that the policy needs; refuses columns to keep that are called as those of the decisions."""
    schema, names, given = policy.table_schema, policy.action_names, False
    if _draws_amounts(policy):
        results, names = columns_of_amounts(policy), ()
    else:
        results, given = columns_of(policy), policy.builds_on_propensities
    clashes = [name for name in (schema.episode, schema.step, how.case, *how.keep) if name in results]
    if clashes:
        raise InputError(f"column {quoted(clashes)} is called as a column of the decisions: rename it")
    beside = tuple(name for name in schema.columns if name not in results) if how.contexts else ()
    needs = policy.needs if how.steps is None else "context"
    return RowRequirements(schema, names, needs, how.keep, given, how.case, beside)


def uniform_by_column(seed: object, keys: Iterable[Key], n_columns: int) -> FloatArray:
    """A number for each row and column of a real-valued action [N, m]."""
    every = list(keys)
    return np.stack([uniforms(seed, ((*key, str(column)) for key in every)) for column in range(n_columns)], axis=1)


def columns_of(policy: "RuledPolicy") -> tuple[str, ...]:
    """What decisions say beside each case, in this order."""
    return (ROW, ACTION, *(f"{PREFIX}{name}" for name in policy.action_names), DEFER, POLICY, *ABOUT)


def decisions(
    policy: "RuledPolicy | RealPolicy", source: Any, how: Deciding, layout: LogLayout | None = None
) -> "pa.Table":
    """All decisions in one table."""
    import pyarrow as pa

    return pa.concat_tables(decided_parts(policy, source, how, layout))


@dataclass(frozen=True, eq=False)
class DecidedSteps:
    """Decisions about the steps of some episodes, in their order."""

    chosen: IntArray
    probabilities: FloatArray  # [N, A], by which they were drawn
    stranded: BoolArray
    left: BoolArray  # to those who decide, within what is not barred
    mask: BoolArray
    barred: BoolArray  # what must not be done: by a policy that says *never*, or since similar cases did not receive it
    distances: FloatArray | None
    in_range: BoolArray | None
    similar: IntArray | None
    outcome: FloatArray | None

    @property
    def undecided(self) -> BoolArray:
        """Where the policy hands out no action [N]."""
        return np.asarray(self.stranded | self.left)


def _decided(policy: "RuledPolicy", rows: Rows, how: Deciding, start: int, uniform: FloatArray) -> "pa.Table":
    order, contexts = rows.order, rows.contexts.rows
    drawn = np.zeros(len(contexts.contexts)) if how.likeliest else order.place(uniform)
    given = None
    if how.allotted is not None:
        part = slice(start, start + rows.n)
        given = order.place(how.allotted.chosen[part]), order.place(how.allotted.probabilities[part])
    blocks = []
    for first, last, offsets in _blocks(order.offsets):
        safe_point()
        actions = np.maximum(rows.actions[first:last], 0)
        own = None if rows.propensities is None else rows.propensities[first:last]
        before = None if how.steps is None else how.steps[start + first : start + last]
        steps = StepsToFollow(contexts.contexts[first:last], actions, offsets, policy.feature_names, own, before)
        here = None if given is None else (given[0][first:last], given[1][first:last])
        blocks.append(decide_steps(policy, steps, drawn[first:last], how, here))
    return _table(policy, rows, how, start, blocks)


def _table(policy: "RuledPolicy", rows: Rows, how: Deciding, start: int, blocks: Sequence[DecidedSteps]) -> "pa.Table":
    import pyarrow as pa

    def whole(name: str) -> Any:
        parts = [getattr(block, name) for block in blocks]
        return None if parts[0] is None else rows.order.in_file(np.concatenate(parts))

    stranded, left, similar, outcome = (whole(name) for name in ("stranded", "left", "similar", "outcome"))
    undecided = stranded | left
    distances, in_range, probabilities = whole("distances"), whole("in_range"), whole("probabilities")
    columns = columns_before(rows, start)
    columns[ACTION] = pa.array(policy.action_names).take(pa.array(whole("chosen"), mask=undecided))
    for name, column in zip(policy.action_names, probabilities.T, strict=True):
        columns[f"{PREFIX}{name}"] = pa.array(np.ascontiguousarray(column), mask=undecided)
    columns[DEFER] = undecided
    columns[POLICY] = pa.repeat(how.name_of(policy), len(stranded))
    if distances is not None:
        nearest = distances.min(axis=1)
        columns["distance"] = pa.array(nearest, mask=np.isinf(nearest))
    if in_range is not None:
        columns["in_range"] = in_range
    written = eligible_lists if how.lists else eligible_texts
    columns["eligible"] = written(policy.action_names, whole("mask") & ~stranded[:, None], distances)
    columns["barred"] = eligible_texts(policy.action_names, whole("barred") & ~stranded[:, None], None)
    if similar is not None:
        columns["similar"] = pa.array(similar, mask=undecided)
    if outcome is not None:
        columns["outcome"] = pa.array(outcome, mask=undecided | np.isnan(outcome))
    columns["note"] = notes_of(rows, stranded, {LEFT: left, **_of_allotted(how.allotted, start, rows.n)})
    return pa.table(columns, metadata=Finite(policy.action_names).metadata)


def _of_allotted(allotted: Allotted | None, start: int, n: int) -> dict[str, BoolArray]:
    """What is to be said of rows in an allotted batch."""
    if allotted is None:
        return {}
    part = slice(start, start + n)
    return {NONE_LEFT: allotted.unserved[part], USED_UP: allotted.left_out[part]}


def _left(policy: "RuledPolicy", steps: StepsToFollow, probabilities: FloatArray) -> BoolArray:
    """Where a policy only says what is barred, and more than one action is left [N]."""
    refuse_without_choice(policy)
    leaves: BoolArray = policy.leaves_along(steps)  # type: ignore[attr-defined]
    return np.asarray(leaves & ((probabilities > 0).sum(axis=1) > 1))


def refuse_without_choice(policy: Any) -> None:
    """Refuse to leave choices to people where a policy draws every action."""
    if not hasattr(policy, "leaves_along"):
        raise InputError(
            "this policy draws every action, so that no choice is left to people: decide without leave, or learn a "
            "policy that says never (--learners rules)"
        )


def _blocks(offsets: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """Whole episodes of about `PART_ROWS` rows together: first row, end, and offsets from there."""
    episode = 0
    while episode < len(offsets) - 1:
        end = max(int(np.searchsorted(offsets, offsets[episode] + PART_ROWS, side="right")) - 1, episode + 1)
        yield int(offsets[episode]), int(offsets[end]), offsets[episode : end + 1] - offsets[episode]
        episode = end


@dataclass(frozen=True, eq=False)
class KnownSteps:
    """What a policy and its rule say of steps [N], before anything is drawn."""

    probabilities: FloatArray  # [N, A]
    mask: BoolArray  # [N, A], eligible
    stranded: BoolArray
    bars: BoolArray | None  # [N, A], by a policy that says *never*
    distances: FloatArray | None  # [N, A]

    def take(self, rows: IntArray) -> "KnownSteps":
        """The same of some of them."""
        return self._each(lambda part: part[rows], self)

    def with_rows(self, rows: IntArray, others: "KnownSteps") -> "KnownSteps":
        """The same, but for some rows."""

        def put(part: Any, other: Any) -> Any:
            changed = np.array(part)
            changed[rows] = other
            return changed

        return self._each(put, self, others)

    @staticmethod
    def _each(change: Callable[..., Any], *several: "KnownSteps") -> "KnownSteps":
        parts: dict[str, Any] = {}
        for name in vars(several[0]):
            own = [getattr(one, name) for one in several]
            parts[name] = None if own[0] is None else change(*own)
        return KnownSteps(**parts)


def known_of(policy: "RuledPolicy", steps: StepsToFollow, probabilities: FloatArray | None = None) -> KnownSteps:
    """What the policy says of steps; its probabilities may be given."""
    rule, bars = policy.eligibility, getattr(policy, "barred_along", None)
    eligible = rule.along(steps)
    return KnownSteps(
        probabilities=policy.along(steps) if probabilities is None else probabilities,
        mask=eligible.mask,
        stranded=eligible.stranded,
        bars=None if bars is None else bars(steps),
        distances=rule.distances_along(steps) if rule.settings.measures else None,
    )


def decide_steps(
    policy: "RuledPolicy",
    steps: StepsToFollow,
    uniform: FloatArray,
    how: Deciding,
    given: tuple[IntArray, FloatArray] | None = None,
    known: KnownSteps | None = None,
) -> DecidedSteps:
    """Decisions about steps, by a number in [0, 1) for each: what tables and servers alike say of them.

    In an allotted batch the actions (−1: none) and their probabilities are `given`; what is `known` of steps already is
    not asked again.
    """
    rule = policy.eligibility
    known = known or known_of(policy, steps, None if given is None else given[1])
    probabilities = likeliest_alone(known.probabilities) if how.likeliest else known.probabilities
    chosen = actions_at(probabilities, uniform) if given is None else np.maximum(given[0], 0)
    similar = rule.counts_of(steps, chosen) if rule.settings.measures and how.similar else None
    outcome = None
    if similar is not None and how.outcomes is not None:
        outcome = rule.outcomes_of(steps, chosen, how.outcomes, NEAREST_CASES)
        outcome[similar < FEWEST_CASES] = np.nan
    mask = np.asarray(probabilities > 0) if policy.acts_beyond_rule else known.mask
    left = _left(policy, steps, probabilities) & ~known.stranded if how.leave else np.zeros(len(chosen), np.bool_)
    return DecidedSteps(
        chosen=chosen,
        probabilities=probabilities,
        stranded=known.stranded if given is None else known.stranded | (given[0] < 0),
        left=left,
        mask=mask,
        barred=~mask if known.bars is None else ~mask | known.bars,
        distances=known.distances,
        in_range=rule.in_range(steps.contexts),
        similar=similar,
        outcome=outcome,
    )
