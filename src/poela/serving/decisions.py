"""What the server answers: decisions of a policy, and why they are so; many requests at once in one go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.draws import uniform_of
from poela.core.errors import InputError
from poela.data.decided import ABOUT, ACTION, DEFER, POLICY
from poela.data.decision_rows import RowRequirements, parts_to_decide
from poela.data.history import StepsToFollow
from poela.data.layout import PREFIX, LogLayout
from poela.data.receipts import NO_RECEIPTS, ReceiptKeys, Receipts, keys_for, receipts_of
from poela.eligibility.words import rule_in_words
from poela.policies.deciding import Deciding, decisions
from poela.policies.gaussian import RealPolicy
from poela.policies.ruled import RuledPolicy
from poela.serving.amounts import answered_amounts, explained_amounts
from poela.serving.compiled import CompiledPolicy, compiled
from poela.serving.direct import PROPENSITIES, answered_directly, is_direct
from poela.serving.line import SHARE
from poela.serving.requests import Case, DecisionRequest, Form
from poela.serving.source import PolicySource

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Explained:
    """A request whose case is to be explained."""

    request: DecisionRequest


@dataclass(frozen=True, eq=False)
class Answering:
    """A policy that answers requests."""

    source: PolicySource
    receipts: Receipts | None = None  # where decisions are written down before they are answered

    def __post_init__(self) -> None:
        if not isinstance(self.policy, RuledPolicy | RealPolicy):
            kind = type(self.policy).__name__
            raise InputError(f"{self.source.name} is a {kind}, which decides about no rows: serve a learned policy")
        if self.receipts is not None and self.is_about_amounts:
            raise InputError(NO_RECEIPTS)
        if self.receipts is not None:
            _ = self.receipt_keys  # which refuses columns that are called as those of receipts

    @property
    def policy(self) -> Any:
        """The policy."""
        return self.source.policy

    @cached_property
    def engine(self) -> "CompiledPolicy | str":
        """The policy run by ONNX Runtime, or why it is not."""
        if self.is_about_amounts:
            return "an amount that is rounded otherwise would be another one"
        if not is_direct(self.form):
            return "its cases hold times, or limits on actions, which are read as tables"
        return compiled(self.policy)

    @property
    def runs(self) -> str:
        """How it is run, to be said at the start."""
        if isinstance(self.engine, str):
            return f"The policy itself answers, not ONNX Runtime: {self.engine}"
        return "ONNX Runtime answers"

    @cached_property
    def form(self) -> Form:
        """What it needs to know of a case."""
        policy = self.policy
        return Form(policy.table_schema, policy.action_names, policy.needs, real_valued=self.is_about_amounts)

    @property
    def is_about_amounts(self) -> bool:
        """Whether actions are real-valued."""
        return isinstance(self.policy, RealPolicy)

    def answered(self, requests: Sequence["DecisionRequest | Explained"]) -> list[Any]:
        """What is asked in many requests: explanations one by one, then all decisions in one go.

        Decisions come last, since their receipts stay even where something else is wrong.
        """
        explained = [self.explanation_of(one.request) if isinstance(one, Explained) else None for one in requests]
        asked = [one for one in requests if isinstance(one, DecisionRequest)]
        decided = iter(self.decided(asked) if asked else ())
        return [next(decided) if one is None else one for one in explained]

    def decided(self, requests: Sequence[DecisionRequest]) -> list[list[dict[str, Any]]]:
        """Decisions for the cases of each request, as `decide` draws them, by their ids and steps; all in one go."""
        cases = [case for one in requests for case in one.cases]
        own = self.policy.short_hash
        seeds = [own if one.seed is None else one.seed for one in requests for _ in one.cases]
        lengths = np.array([len(case.steps) for case in cases])
        last = np.cumsum(lengths) - 1
        if isinstance(self.policy, RealPolicy):
            answers = iter(self._amounts(self.policy, cases, seeds))
            return [[next(answers) for _ in one.cases] for one in requests]
        drawn = [uniform_of(seed, *self.form.key(case)) for seed, case in zip(seeds, cases, strict=True)]
        uniform = np.array(drawn)
        steps = None if self.form.wants_history else np.array([case.step for case in cases])
        noted = self.receipts is not None
        source = self.source
        how = Deciding(
            outcomes=source.outcomes, lists=True, contexts=noted, uniform=uniform, steps=steps, leave=source.leave
        )
        if not noted and is_direct(self.form):
            engine = self.engine if isinstance(self.engine, CompiledPolicy) else None
            answers = iter(answered_directly(self.policy, self.form, cases, how, engine))
        else:
            by_row = replace(how, uniform=np.repeat(uniform, lengths))  # earlier steps are not looked at
            decided = decisions(self.policy, self.form.table(cases), by_row).take(last)
            if self.receipts is not None:
                self.receipts.append(self._receipts(decided, cases))
            answers = iter([self._answer(row) for row in decided.to_pylist()])
        return [[next(answers) for _ in one.cases] for one in requests]

    def _amounts(self, policy: RealPolicy, cases: Sequence[Case], seeds: Sequence[object]) -> list[dict[str, Any]]:
        keys = [self.form.key(case) for case in cases]
        columns = range(len(policy.action_names))
        drawn = [
            [uniform_of(seed, *key, str(column)) for column in columns] for seed, key in zip(seeds, keys, strict=True)
        ]
        how = Deciding(outcomes=self.source.outcomes, contexts=False, uniform=np.array(drawn))
        return answered_amounts(policy, self.form, cases, how)

    def _receipts(self, decided: "pa.Table", cases: Sequence[Case]) -> "pa.Table":
        keys = self.receipt_keys
        named: dict[str, Sequence[Any]] = {keys.case: [case.id for case in cases]}
        if keys.step is not None:
            first, distance = self.form.pace
            named[keys.step] = [first + distance * case.step for case in cases]
        return receipts_of(
            decided.drop_columns([n for n in named if n in decided.column_names]), keys, self.policy.action_names, named
        )

    @cached_property
    def receipt_keys(self) -> ReceiptKeys:
        """The columns of its receipts."""
        return keys_for(self.policy.table_schema)

    def _answer(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row of decisions as an answer, in which every field stands, null where the policy does not know it."""
        chances = {str(name): row[f"{PREFIX}{name}"] for name in self.policy.action_names}
        own = {ACTION: row[ACTION], PROPENSITIES: chances, DEFER: row[DEFER], POLICY: row[POLICY]}
        return {**own, **{name: row.get(name) for name in ABOUT}}

    def explanation_of(self, request: DecisionRequest) -> dict[str, Any]:
        """For the one case of a request and every action: whether it is eligible, why, and who was given it."""
        if len(request.cases) != 1:
            raise InputError("explain takes one case")
        if isinstance(self.policy, RealPolicy):
            return explained_amounts(self.policy, self.form, request.cases[0])
        (case,), policy, rule = request.cases, self.policy, self.policy.eligibility
        form = self.form
        wanted = RowRequirements(form.schema, form.action_names, form.reading)
        (rows,) = parts_to_decide(form.table([case]), wanted, LogLayout())
        contexts = rows.contexts.rows.contexts
        acted, whole = np.maximum(rows.actions, 0), np.array([0, len(contexts)])
        before = None if form.wants_history else np.array([case.step])
        steps = StepsToFollow(contexts, acted, whole, policy.feature_names, before=before)
        probabilities, eligible = policy.along(steps)[-1], rule.along(steps)
        measured = rule.settings.measures
        distances = rule.distances_along(steps)[-1] if measured else np.full(rule.n_actions, np.nan)
        counts = rule.counts_along(steps)[-1] if measured else np.full(rule.n_actions, np.nan)
        support = rule.support
        received = np.full(rule.n_actions, np.nan) if support is None else support.along(steps)[-1]
        usually = np.full(rule.n_actions, np.nan) if support is None else support.rates
        stranded, in_range = bool(eligible.stranded[-1]), rule.in_range(contexts[-1:])
        return {
            "defer": stranded,
            "distance": _number(distances.min()),
            "in_range": None if in_range is None else bool(in_range[0]),
            "rule": rule_in_words(rule),
            "actions": [
                {
                    "action": name,
                    "eligible": bool(eligible.mask[-1, place]) and not stranded,
                    "probability": None if stranded else float(probabilities[place]),
                    "distance": _number(distances[place]),
                    "similar": None if not measured else int(counts[place]),
                    "received": _number(received[place]),
                    "usually": _number(usually[place]),
                }
                for place, name in enumerate(policy.action_names)
            ],
        }

    @property
    def stored_numbers(self) -> int:
        """How many numbers of logged cases are looked at for each step."""
        rule = getattr(self.policy, "eligibility", None)
        stored = rule if self.is_about_amounts else getattr(rule, "logged", None)
        return 0 if stored is None else int(stored.contexts.size)

    def warm_up(self) -> None:
        """Make what is made at the first question: the graph, and trees of contexts, above all."""
        _ = self.engine
        if not self.is_about_amounts and self.policy.eligibility.settings.measures:
            contexts = self.policy.eligibility.logged.contexts[:1]
            self.policy.eligibility.distances(contexts, [0])
            self.policy.eligibility.counts(contexts, [0])


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def pieces_of(request: DecisionRequest) -> list[tuple[DecisionRequest, int]]:
    """A request in pieces of few steps each, with their numbers of steps: others come in between, and share goes.

    >>> long = Case(({},) * 20, ("wait",) * 19)
    >>> [(len(piece.cases), steps) for piece, steps in pieces_of(DecisionRequest((long, long, Case(({},), ()))))]
    [(1, 20), (2, 21)]
    """
    pieces: list[tuple[list[Case], int]] = []
    for case in request.cases:
        if not pieces or pieces[-1][1] + len(case.steps) > SHARE:
            pieces.append(([], 0))
        cases, steps = pieces[-1]
        pieces[-1] = ([*cases, case], steps + len(case.steps))
    return [(DecisionRequest(tuple(cases), request.seed), steps) for cases, steps in pieces]
