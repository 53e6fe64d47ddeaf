"""Decisions for the rows of a table: what to do, how sure the policy is, what else may be done, and who was like it."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.policy import sample_actions
from poela.core.typed import Seed, parsed
from poela.data.decision_rows import PART_ROWS, Rows, Wanted, parts_to_decide
from poela.data.history import StepsToFollow
from poela.data.layout import LogLayout
from poela.data.words import quoted
from poela.policies.continuous_decisions import DEFERRED, FEWEST_CASES, NEAREST_CASES, clashing, decided_amounts
from poela.policies.gaussian import GaussianPolicy

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.policies.ruled import RuledPolicy

RESULTS = ("action", "probability", "defer", "distance", "in_range", "eligible", "barred", "similar", "outcome", "note")
INCOMPLETE = "earlier steps of its episode are missing, and the policy looks at them"


@dataclass(frozen=True)
class Deciding:
    """How decisions are made: the most likely action or, with a seed, a drawn one; what is reported beside it."""

    seed: int | None = None
    similar: bool = True
    keep: tuple[str, ...] = ()
    outcomes: Any = None  # [rows of the training log], what came of each; None: not known
    lists: bool = False  # eligible actions as a list of names and distances, for programs, in place of one text

    def __post_init__(self) -> None:
        if self.seed is not None:
            parsed("seed", Seed, self.seed)


def decided_parts(
    policy: "RuledPolicy | GaussianPolicy", source: Any, how: Deciding, layout: LogLayout | None = None
) -> "Iterator[pa.Table]":
    """Tables of decisions, in the order of the rows; each is made before the next rows are read."""
    if isinstance(policy, GaussianPolicy):
        yield from _amounts(policy, source, how, layout or LogLayout())
        return
    wanted = Wanted(policy.table_schema, policy.action_names, policy.needs, how.keep, policy.builds_on_propensities)
    clashes = [name for name in (wanted.schema.episode, wanted.schema.step, *how.keep) if name in RESULTS]
    if clashes:
        raise InputError(f"column {quoted(clashes)} is called as a column of the decisions: rename it")
    start = 0
    for rows in parts_to_decide(source, wanted, layout or LogLayout()):
        table = _decided(policy, rows, how, start)
        start += table.num_rows
        yield table


def _amounts(policy: GaussianPolicy, source: Any, how: Deciding, layout: LogLayout) -> "Iterator[pa.Table]":
    """The same of real-valued actions."""
    wanted = Wanted(policy.table_schema, (), policy.needs, how.keep)
    if clashes := clashing(policy, (wanted.schema.episode, wanted.schema.step, *how.keep)):
        raise InputError(f"column {clashes} is called as a column of the decisions: rename it")
    start = 0
    for rows in parts_to_decide(source, wanted, layout):
        table = decided_amounts(policy, rows, how, start)
        start += table.num_rows
        yield table


def decisions(
    policy: "RuledPolicy | GaussianPolicy", source: Any, how: Deciding, layout: LogLayout | None = None
) -> "pa.Table":
    """All decisions in one table."""
    import pyarrow as pa

    return pa.concat_tables(decided_parts(policy, source, how, layout))


@dataclass(frozen=True, eq=False)
class _Block:
    """Decisions for some episodes, in their order."""

    chosen: IntArray
    probability: FloatArray
    stranded: BoolArray
    mask: BoolArray
    barred: BoolArray | None  # of a policy that says what must no longer be done
    distances: FloatArray | None
    in_range: BoolArray | None
    similar: IntArray | None
    outcome: FloatArray | None


def _decided(policy: "RuledPolicy", rows: Rows, how: Deciding, start: int) -> "pa.Table":
    import pyarrow as pa

    order, contexts = rows.order, rows.contexts.rows
    uniform = None if how.seed is None else order.place(_uniform(rows, how.seed, start))
    blocks = []
    for first, last, offsets in _blocks(order.offsets):
        safe_point()
        actions = np.maximum(rows.actions[first:last], 0)
        own = None if rows.propensities is None else rows.propensities[first:last]
        steps = StepsToFollow(contexts.contexts[first:last], actions, offsets, policy.feature_names, own)
        blocks.append(_block(policy, steps, None if uniform is None else uniform[first:last], how))

    def whole(name: str) -> Any:
        parts = [getattr(block, name) for block in blocks]
        return None if parts[0] is None else order.in_file(np.concatenate(parts))

    stranded, similar, outcome = whole("stranded"), whole("similar"), whole("outcome")
    distances, in_range = whole("distances"), whole("in_range")
    names = pa.array(policy.action_names)
    columns: dict[str, Any] = {} if rows.is_named else {"row": np.arange(start + 1, start + len(stranded) + 1)}
    columns |= {name: rows.copied[name] for name in rows.copied.column_names}
    columns["action"] = names.take(pa.array(whole("chosen"), mask=stranded))
    columns["probability"] = pa.array(whole("probability"), mask=stranded)
    columns["defer"] = stranded
    if distances is not None:
        nearest = distances.min(axis=1)
        columns["distance"] = pa.array(nearest, mask=np.isinf(nearest))
    if in_range is not None:
        columns["in_range"] = in_range
    written = _eligible_lists if how.lists else _eligible
    columns["eligible"] = written(policy.action_names, whole("mask") & ~stranded[:, None], distances)
    if (barred := whole("barred")) is not None:
        columns["barred"] = _joined(
            list(zip(barred.T, map(pa.scalar, map(str, policy.action_names)), strict=True)), len(barred), ", "
        )
    if similar is not None:
        columns["similar"] = pa.array(similar, mask=stranded)
    if outcome is not None:
        columns["outcome"] = pa.array(outcome, mask=stranded | np.isnan(outcome))
    columns["note"] = _notes(rows, stranded)
    return pa.table(columns)


def _blocks(offsets: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """Whole episodes of about `PART_ROWS` rows together: first row, end, and offsets from there."""
    episode = 0
    while episode < len(offsets) - 1:
        end = max(int(np.searchsorted(offsets, offsets[episode] + PART_ROWS, side="right")) - 1, episode + 1)
        yield int(offsets[episode]), int(offsets[end]), offsets[episode : end + 1] - offsets[episode]
        episode = end


def _block(policy: "RuledPolicy", steps: StepsToFollow, uniform: FloatArray | None, how: Deciding) -> _Block:
    probabilities, rule = policy.along(steps), policy.eligibility
    eligible = rule.along(steps)
    chosen: IntArray = probabilities.argmax(axis=1) if uniform is None else _drawn(probabilities, uniform)
    bars = getattr(policy, "barred_along", None)
    measured = rule.settings.measures
    similar = rule.counts_of(steps, chosen) if measured and how.similar else None
    outcome = None
    if measured and how.similar and how.outcomes is not None:
        assert similar is not None
        outcome = rule.outcomes_of(steps, chosen, how.outcomes, NEAREST_CASES)
        outcome[similar < FEWEST_CASES] = np.nan
    return _Block(
        chosen=chosen,
        probability=probabilities[np.arange(len(chosen)), chosen],
        stranded=eligible.stranded,
        mask=probabilities > 0 if policy.acts_beyond_rule else eligible.mask,
        barred=None if bars is None else bars(steps),
        distances=rule.distances_along(steps) if measured else None,
        in_range=rule.in_range(steps.contexts),
        similar=similar,
        outcome=outcome,
    )


class _KnownDraws:
    """Numbers that were drawn already, where a generator is asked for some."""

    def __init__(self, uniform: FloatArray) -> None:
        self._uniform = uniform

    def random(self, n: int) -> FloatArray:
        return self._uniform


def _drawn(probabilities: FloatArray, uniform: FloatArray) -> IntArray:
    return sample_actions(probabilities, _KnownDraws(uniform))  # type: ignore[arg-type]


def _uniform(rows: Rows, seed: int, start: int) -> FloatArray:
    """A number in [0, 1) for each row of the file: by its episode and step where these name it, else by its place.

    So the same row gets the same draw wherever it stands in the table.
    """
    if rows.is_named:
        named = (map(str, rows.copied[name].to_pylist()) for name in rows.copied.column_names[:2])
        keys: Iterable[object] = map("|".join, zip(*named, strict=True))
    else:
        keys = range(start, start + int(rows.order.offsets[-1]))
    digests = (hashlib.blake2b(f"{seed}|{key}".encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), np.uint64) / 2.0**64 * (1 - 2.0**-53)


def _eligible(names: Sequence[Any], mask: BoolArray, distances: FloatArray | None) -> "pa.Array":
    """The eligible actions of each row with the distances to their nearest logged cases: 'wait:0.12; treat:0.4'."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = []
    for action, name in enumerate(names):
        texts: Any = pa.scalar(str(name))
        if distances is not None:
            far = pa.array(_three_digits(distances[:, action])).cast(pa.string())
            texts = pc.binary_join_element_wise(texts, far, pa.scalar(":"))
        parts.append((mask[:, action], texts))
    return _joined(parts, len(mask))


def _eligible_lists(names: Sequence[Any], mask: BoolArray, distances: FloatArray | None) -> "pa.Array":
    """The same as lists; distances are null where the rule measures none."""
    import pyarrow as pa

    rows, actions = np.nonzero(mask)
    far = pa.nulls(len(rows), pa.float64()) if distances is None else pa.array(distances[rows, actions])
    entries = pa.StructArray.from_arrays([pa.array(names).take(pa.array(actions)), far], ["action", "distance"])
    ends = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), entries)


def _joined(parts: "Sequence[tuple[BoolArray, Any]]", n: int, between: str = "; ") -> "pa.Array":
    """Texts, each where its mask says so, with semicolons between them (Arrow's own join loses rows without any)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar("")
    result = pa.repeat(nothing, n)
    for mask, texts in parts:
        if mask.any():
            comma = pc.if_else(pc.equal(result, nothing), nothing, pa.scalar(between))
            longer = pc.binary_join_element_wise(result, texts, comma)
            result = pc.if_else(pa.array(mask), longer, result)
    return result


def _three_digits(values: FloatArray) -> FloatArray:
    """Rounded to three digits.

    >>> _three_digits(np.array([0.123456, 1234.5, 0.0]))
    array([1.23e-01, 1.23e+03, 0.00e+00])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (2 - np.floor(np.log10(np.abs(values))))
        return np.asarray(np.where(np.isfinite(values) & (values != 0), np.round(values * scale) / scale, values))


def _notes(rows: Rows, stranded: BoolArray) -> "pa.Array":
    """What is to be known about a row: columns that were filled or are new to the policy, or that it defers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded, order = rows.contexts.rows, rows.order
    said: Mapping[str, BoolArray] = {
        DEFERRED: stranded,
        INCOMPLETE: rows.incomplete,
        **{f"{name}: a category that was not logged": order.in_file(bad) for name, bad in encoded.unseen.items()},
        **{f"{name}: missing, filled in": order.in_file(bad) for name, bad in encoded.filled.items()},
    }
    joined = _joined([(bad, pa.scalar(text)) for text, bad in said.items()], len(stranded))
    return pc.if_else(pc.equal(joined, pa.scalar("")), pa.scalar(None, pa.string()), joined)
