"""`audit`: what speaks against logs before anything is learned from them, or evaluated on them."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poela.behavior.gaussian import least_squares
from poela.behavior.history import LINEAR
from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import PoelaWarning
from poela.core.readable import plain
from poela.data.action_space import Box, Finite
from poela.data.context_columns import selected
from poela.data.encoding import ADVICE, late_columns
from poela.data.encoding import ADVICE as LATE
from poela.data.folds import fold_numbers
from poela.data.tables import warn_of
from poela.data.trajectories import Trajectories
from poela.studies.doubted_propensities import doubted_propensities, known_propensities
from poela.studies.findings_of_audit import SWITCHED_OFF, Audit, Finding, named
from poela.studies.telling_columns import (
    MOSTLY,
    Column,
    Sample,
    columns_of,
    filled_for_some,
    ids,
    row_of_each_unit,
    told_actions,
    told_outcomes,
    without,
)
from poela.studies.unnamed_clusters import may_be_cluster, unnamed_clusters

# Outcomes that stand in a table otherwise than they happened: once for each row, or as a code for "not known".

CODES = tuple(sign * float(digit * length) for digit in "789" for length in (2, 3, 4, 5) for sign in (1, -1))
FEWEST_CODED = 3
FEWEST_EPISODES = 20  # of several steps, with an outcome that is not 0
REPEATED = 0.95  # of these episodes


def outcome_slips(logs: Trajectories) -> list[Finding]:
    """What speaks against the outcomes of logs by themselves.

    >>> stay = Trajectories(np.zeros((60, 1)), np.zeros(60, int), np.repeat(np.arange(30.0), 2), np.arange(0, 61, 2))
    >>> print(outcome_slips(stay)[0].sentence)
    the outcome is the same in all rows of 29 of 29 episodes of several rows, and differs between episodes
    """
    return [*_repeated(logs), *_coded(logs.rewards)]


def _repeated(logs: Trajectories) -> list[Finding]:
    """An outcome of the episode that stands in each of its rows, where it would count once for each row."""
    starts = logs.offsets[:-1]
    lowest, highest = np.minimum.reduceat(logs.rewards, starts), np.maximum.reduceat(logs.rewards, starts)
    several = logs.lengths > 1
    something = several & ((lowest != 0) | (highest != 0))
    same = something & (lowest == highest)
    # What each step earns alike in all episodes, such as another month alive, is no outcome of the episode.
    if same.sum() < max(FEWEST_EPISODES, REPEATED * something.sum()) or np.ptp(highest[several]) == 0:
        return []
    sentence = (
        f"the outcome is the same in all rows of {same.sum():,} of {something.sum():,} episodes of several rows, and "
        "differs between episodes"
    )
    advice = (
        "returns are sums over rows, so it counts once for each row: leave it blank but in the last row of each "
        "episode; if each row did earn it, say --no-audit"
    )
    return [Finding("repeated", (), sentence, advice, voids_weights=True)]


def _coded(rewards: FloatArray) -> list[Finding]:
    """A value such as -999 far beyond all others, which surely stands for an outcome that is not known."""
    for code in CODES:
        coded = rewards == code
        others = rewards[~coded]
        if coded.sum() < FEWEST_CODED or not others.size:
            continue
        lowest, highest = float(others.min()), float(others.max())
        reach = highest - lowest
        if reach > 0 and not lowest - reach <= code <= highest + reach:
            sentence = f"the outcome is {plain(code)} in {coded.sum():,} rows and far from that in all others"
            advice = (
                "if it stands for outcomes that are not known, leave these cells blank and say --missing censored; "
                "if it is a real outcome, say --no-audit"
            )
            return [Finding("code", (), sentence, advice, voids_weights=True)]
    return []


# Dates among the context of single decisions that may lie after them: by their names, and beside other dates.

NEARLY_ALL, FEWEST = 0.95, 20  # of the rows that have both dates
AFTER = re.compile(
    r"(?:^|_)(?:outcomes?|results?|discharged?|end(?:ed)?|deaths?|died|deceased|follow_?up|relapsed?|readmi\w*|censor\w*"
    r"|clos(?:ed|ing)|complet(?:ed|ion)|finish(?:ed)?|returned|response)(?:_|$)"
)
# Dates that a decision may well have: what lies before them says nothing.
DECISION = re.compile(
    r"(?:^|_)(?:deci\w*|visit\w*|admi\w*|index|treat\w*|random\w*|enrol\w*|inclu\w*|start\w*|order\w*|contact\w*|sent"
    r"|prescri\w*|today|now|date|day|time|when)(?:_|$)"
)
BIRTH = re.compile(r"(?:^|_)(?:birth\w*|born|dob|since|last|previous|prior|first|diagnos\w*)(?:_|$)")  # long before


def dates_to_check(logs: Trajectories, columns: Sequence[Column]) -> list[Finding]:
    """Dates that are called what comes after decisions, or that lie after another date in nearly all rows.

    Of logs of single decisions, whose own time nobody named.

    >>> import pyarrow as pa
    >>> from poela.data.tables import read_logs
    >>> day = np.datetime64("2024-01-01") + np.arange(60)
    >>> table = {"visit": day, "outcome_date": day + 30, "action": np.arange(60) % 2, "reward": np.zeros(60)}
    >>> logs = read_logs(pa.table(table), context=["visit", "outcome_date"])
    >>> from poela.studies.telling_columns import columns_of
    >>> [(finding.kind, finding.columns) for finding in dates_to_check(logs, columns_of(logs))]
    [('date', ('outcome_date',))]
    """
    if logs.schema is None or logs.n_steps > logs.n_episodes:
        return []
    times = {variable.name for variable in logs.schema.variables if variable.kind == "time"}
    dates = [column for column in columns if column.name in times]
    found = []
    for column in dates:
        said = _words(column.name)
        if AFTER.search(said):
            found.append(_finding(column, "is called a date of what comes after a decision"))
        elif not DECISION.search(said) and (earlier := _earlier(column, dates)):
            found.append(_finding(column, f"lies after {named([earlier])} in nearly all rows"))
    return found


def _finding(column: Column, what: str) -> Finding:
    return Finding("date", (column.name,), f"{named([column.name])} {what}", ADVICE)


def _words(name: str) -> str:
    """A name in lower case, its words apart.

    >>> _words("OutcomeDate"), _words("date of discharge")
    ('outcome_date', 'date_of_discharge')
    """
    return re.sub(r"[^0-9a-z]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _earlier(column: Column, dates: Sequence[Column]) -> str:
    """The name of another date, not of birth or the like, that lies before this one in nearly all rows; or empty."""
    for other in dates:
        if other is not column and not BIRTH.search(_words(other.name)):
            later, both = column.values - other.values, ~column.empty & ~other.empty
            if _nearly_always(later, both):
                return other.name
    return ""


def _nearly_always(later: FloatArray, both: BoolArray) -> bool:
    return bool(both.sum() >= FEWEST and np.mean(later[both] > 0) >= NEARLY_ALL)


MOST_STEPS = 20_000  # of random episodes: more would tell hardly more
MOST_UNITS = 10_000
FEWEST_UNITS = 50
NARROW = 1.5  # nats by which logged log densities may exceed those of the amounts by themselves


def audit(logs: Trajectories, seed: int = 0) -> Audit:
    """What speaks against logs: columns that tell the action or the outcome, ids, wrong propensities, lost clusters.

    Findings that void weights say that no estimate by weights can be believed until they are seen to.

    >>> rng = np.random.default_rng(0)
    >>> from poela.data.trajectories import Trajectories
    >>> age, arm = rng.normal(size=1000), rng.integers(0, 2, 1000)
    >>> rows, half = np.arange(1001), np.full((1000, 2), 0.5)
    >>> amount = np.where(arm == 1, rng.uniform(50, 90, 1000), 0)
    >>> trial = Trajectories(np.column_stack([age, amount]), arm, age + rng.normal(size=1000), rows, propensities=half)
    >>> [(finding.kind, finding.columns) for finding in audit(trial).findings]
    [('filled', ('x1',))]
    """
    rng = np.random.default_rng(seed)
    logs = _sampled(logs, rng)
    columns = columns_of(logs)
    late = [Finding("date", (name,), sentence, LATE) for name, sentence in late_columns(logs)]
    late += dates_to_check(logs, columns)
    findings = outcome_slips(logs) + list(ids([column.take(logs.offsets[:-1]) for column in columns]))
    if logs.n_units < FEWEST_UNITS:
        return Audit((*findings, *late), skipped=f"{FEWEST_UNITS} episodes or clusters are the fewest that can tell")
    columns = without(columns, _names(findings))
    findings += _telling(logs, columns, logs.units, rng)
    columns = without(columns, _names(findings))
    clusters = list(_clusters(logs, columns, seed))
    findings += [finding for finding, _ in clusters]
    columns = without(columns, _names(findings))
    if columns:
        own = _with(logs, columns)
        levels: Any = clusters[0][1].take(logs.offsets[:-1]).levels if clusters else logs.clusters
        findings += doubted_propensities(replace(own, clusters=levels), columns, seed)
    # What may well be in order keeps no column from what voids weights.
    findings += late + _to_check(logs, without(columns_of(logs), _names(findings + late)), rng)
    return Audit(tuple(sorted(findings, key=lambda finding: not finding.voids_weights)))


def audited(logs: Trajectories, no_audit: bool, seed: int = 0) -> Audit:
    """The audit of logs, unless somebody wants none; its findings are said as warnings."""
    result = Audit(skipped=SWITCHED_OFF) if no_audit else audit(logs, seed)
    # What was noted when the table was read has been said then.
    warn_of([said for finding in result.findings if (said := str(finding)) not in logs.notes])
    return result


def _names(findings: Sequence[Finding]) -> set[str]:
    return {name for finding in findings for name in finding.columns}


def _sampled(logs: Trajectories, rng: np.random.Generator) -> Trajectories:
    """Random episodes with so many steps at most, where that leaves enough of them."""
    if logs.n_steps <= MOST_STEPS:
        return logs
    order = rng.permutation(logs.n_episodes)
    enough = max(int((np.cumsum(logs.lengths[order]) <= MOST_STEPS).sum()), 4 * FEWEST_UNITS)
    return logs.take(np.sort(order[:enough]))


def _with(logs: Trajectories, columns: Sequence[Column]) -> Trajectories:
    """The logs with the features of these columns alone."""
    names = {column.name for column in columns}
    schema = logs.schema
    if schema is not None and schema.feature_names == logs.feature_names:
        names = {feature for variable in schema.variables if variable.name in names for feature in variable.features}
    return selected(logs, [place for place, name in enumerate(logs.feature_names) if name in names], None, ())


def _telling(logs: Trajectories, columns: Sequence[Column], units: IntArray, rng: np.random.Generator) -> list[Finding]:
    """Columns that tell actions or outcomes."""
    known = known_propensities(logs)
    returns = logs.returns()[logs.episode_of_step]

    def sample(first: bool, some: Sequence[Column]) -> Sample:
        rows = row_of_each_unit(logs, units, rng, first=first, most=MOST_UNITS)
        chances = None if known is None else known[rows]
        taken = [column.take(rows) for column in some]
        return Sample(taken, logs.action_space, logs.actions[rows], returns[rows], chances)

    findings = list(filled_for_some(sample(False, columns)))
    left = without(columns, _names(findings))
    if told := [] if _narrow(logs) else told_actions(sample(False, left), rng):
        advice = (
            "if it was recorded after the decision, leave it out of the context; if it is the id of a group of rows, "
            "name it as the cluster (--cluster); if decisions follow from it, these logs allow no comparison"
        )
        sentence = f"{named(told)} almost determines which action was taken"
        findings.append(Finding("action", tuple(told), sentence, advice, voids_weights=True))
        left = without(left, set(told))
    if told := told_outcomes(sample(True, left), rng):
        sentence = f"{named(told)} almost determines the outcome"
        advice = "if it was recorded after the outcome, or is part of it, leave it out of the context"
        findings.append(Finding("outcome", tuple(told), sentence, advice, voids_weights=True))
    return findings


def _to_check(logs: Trajectories, columns: Sequence[Column], rng: np.random.Generator) -> list[Finding]:
    """Columns that tell most of the outcome, as what was measured before may, and what came after does."""
    rows = row_of_each_unit(logs, logs.units, rng, first=True, most=MOST_UNITS)
    returns = logs.returns()[logs.episode_of_step]
    sample = Sample([column.take(rows) for column in columns], logs.action_space, logs.actions[rows], returns[rows])
    told = told_outcomes(sample, rng, given=MOSTLY, without=0.0)
    advice = "check that it was known before the decision, and leave it out of the context if not"
    return [Finding("prognosis", tuple(told), f"{named(told)} predicts most of the outcome", advice)] if told else []


def _narrow(logs: Trajectories) -> bool:
    """Whether logged chances themselves say that the context all but determines what is done."""
    if not logs.knows_logging_policy or logs.estimated:
        return False
    return MADE[logs.action_space.kind].narrow(logs)


def _narrow_choices(logs: Trajectories) -> bool:
    return known_propensities(logs) is None and bool(np.median(logs.log_propensities) > np.log(0.9))


def _narrow_amounts(logs: Trajectories) -> bool:
    spread = np.linalg.slogdet(np.atleast_2d(np.cov(logs.actions.T)))[1]
    alone = -0.5 * (logs.actions.shape[1] * np.log(2 * np.pi * np.e) + spread)
    return bool(logs.log_propensities.mean() - alone > NARROW)


def _clusters(logs: Trajectories, columns: Sequence[Column], seed: int) -> Sequence[tuple[Finding, Column]]:
    units = logs.units[logs.episode_of_step]
    known = known_propensities(logs)
    if not any(may_be_cluster(column, units, known=known is not None) for column in columns):
        return []
    if known is not None:
        residuals = (logs.actions[:, None] == np.arange(known.shape[1])) - known
    else:
        residuals = _beyond_context(logs, seed)
    return list(unnamed_clusters(logs, columns, residuals, known=known is not None))


def _beyond_context(logs: Trajectories, seed: int) -> FloatArray:
    """What was done, less what a linear model of the context expects that was fitted on other units."""
    half, expected = fold_numbers(logs, 2, seed), MADE[logs.action_space.kind].linear
    residuals = np.array(logs.action_space.columns(logs.actions))
    for held in (0, 1):
        train, rows = logs.take(half != held), (half == held)[logs.episode_of_step]
        residuals[rows] -= expected(train, logs.contexts[rows], seed)
    return residuals


def _linear_choices(train: Trajectories, contexts: Float32Array, seed: int) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)  # of a fit that has not converged
        return LINEAR.fit_quietly(train, seed).probabilities(contexts)


def _linear_amounts(train: Trajectories, contexts: Float32Array, seed: int) -> FloatArray:
    return least_squares(train).moments(contexts)[0]


@dataclass(frozen=True)
class Made:
    """How actions of one kind were come by: whether all but determined, and what a linear model expects."""

    narrow: Callable[[Trajectories], bool]
    linear: Callable[[Trajectories, Float32Array, int], FloatArray]


MADE: Mapping[str, Made] = {
    Finite.kind: Made(_narrow_choices, _linear_choices),
    Box.kind: Made(_narrow_amounts, _linear_amounts),
}
