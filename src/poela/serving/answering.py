"""What the server answers: decisions of a policy, and why they are so; many requests at once in one go."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.draws import uniform_of
from poela.core.errors import InputError, PoelaError
from poela.data.decided import ABOUT, ACTION, DEFER, POLICY
from poela.data.decision_rows import Wanted, parts_to_decide
from poela.data.history import StepsToFollow
from poela.data.layout import PREFIX, LogLayout
from poela.data.receipts import ReceiptKeys, Receipts, keys_for, receipts_of
from poela.eligibility.words import rule_in_words
from poela.policies.deciding import Deciding, decisions
from poela.policies.gaussian import GaussianPolicy
from poela.policies.ruled import RuledPolicy
from poela.serving.asking import Case, DecisionRequest, Form
from poela.serving.source import PolicySource

if TYPE_CHECKING:
    import pyarrow as pa

PROPENSITIES = "propensities"
MOST_TOGETHER = 512  # steps that are decided in one go
MOST_WAITING = 512  # requests


class TooBusy(PoelaError):
    """More requests are waiting than can be answered soon."""


@dataclass(frozen=True, eq=False)
class Answering:
    """A policy that answers requests."""

    source: PolicySource
    receipts: Receipts | None = None  # where decisions are written down before they are answered

    def __post_init__(self) -> None:
        if not isinstance(self.policy, RuledPolicy):
            kind = type(self.policy).__name__
            if isinstance(self.policy, GaussianPolicy):
                raise InputError(
                    f"{self.source.name} decides about real-valued actions, which is not served: use poela decide"
                )
            raise InputError(f"{self.source.name} is a {kind}, which decides about no rows: serve a learned policy")
        if self.receipts is not None:
            _ = self.receipt_keys  # which refuses columns that are called as those of receipts

    @property
    def policy(self) -> Any:
        """The policy."""
        return self.source.policy

    @cached_property
    def form(self) -> Form:
        """What it needs to know of a case."""
        return Form(self.policy.table_schema, self.policy.action_names, self.policy.needs)

    def decided(self, requests: Sequence[DecisionRequest]) -> list[list[dict[str, Any]]]:
        """Decisions for the cases of each request, as `decide` draws them, by their ids and steps; all in one go."""
        cases = [case for one in requests for case in one.cases]
        own = self.policy.short_hash
        seeds = [own if one.seed is None else one.seed for one in requests for _ in one.cases]
        lengths = np.array([len(case.steps) for case in cases])
        last = np.cumsum(lengths) - 1
        drawn = [uniform_of(seed, *self.form.key(case)) for seed, case in zip(seeds, cases, strict=True)]
        uniform = np.repeat(np.array(drawn), lengths)  # earlier steps are not looked at
        noted = self.receipts is not None
        how = Deciding(outcomes=self.source.outcomes, lists=True, contexts=noted, uniform=uniform)
        decided = decisions(self.policy, self.form.table(cases), how).take(last)
        if self.receipts is not None:
            self.receipts.append(self._receipts(decided, cases))
        answers = iter([self._answer(row) for row in decided.to_pylist()])
        return [[next(answers) for _ in one.cases] for one in requests]

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

    def explained(self, request: DecisionRequest) -> dict[str, Any]:
        """For the one case of a request and every action: whether it is eligible, why, and who was given it."""
        if len(request.cases) != 1:
            raise InputError("explain takes one case")
        (case,), policy, rule = request.cases, self.policy, self.policy.eligibility
        form = self.form
        wanted = Wanted(form.schema, form.action_names, form.needs)
        (rows,) = parts_to_decide(form.table([case]), wanted, LogLayout())
        contexts = rows.contexts.rows.contexts
        steps = StepsToFollow(contexts, np.maximum(rows.actions, 0), np.array([0, len(contexts)]), policy.feature_names)
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

    def warm_up(self) -> None:
        """Make what is made at the first question: trees of contexts, above all."""
        if self.policy.eligibility.settings.measures:
            contexts = self.policy.eligibility.logged.contexts[:1]
            self.policy.eligibility.distances(contexts, [0])


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


Answer = list[dict[str, Any]] | BaseException


class Together:
    """Gathers requests that come while others are worked on, and has them answered in one go, by one thread.

    A policy takes hardly longer for many cases than for one; so more requests at once wait little longer.
    """

    def __init__(self, decide: Callable[[Sequence[DecisionRequest]], list[list[dict[str, Any]]]]) -> None:
        self._decide = decide
        self._waiting: list[tuple[DecisionRequest, asyncio.Future[list[dict[str, Any]]]]] = []
        self._worker = ThreadPoolExecutor(1)
        self._task: asyncio.Task[None] | None = None

    async def ask(self, request: DecisionRequest) -> list[dict[str, Any]]:
        """The decisions for one request."""
        if len(self._waiting) >= MOST_WAITING:
            raise TooBusy("too many requests are waiting: try again in a second")
        future: asyncio.Future[list[dict[str, Any]]] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    async def alone(self, work: Callable[[], Any]) -> Any:
        """Any other work, by the same thread: policies are asked by one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def _work(self) -> None:
        while self._waiting:
            batch = self._next()
            answers = await self.alone(partial(self._answers, [request for request, _ in batch]))
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():  # whoever asked has gone
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _next(self) -> list[tuple[DecisionRequest, asyncio.Future[list[dict[str, Any]]]]]:
        steps, count = 0, 0
        for request, _ in self._waiting:
            steps += sum(len(case.steps) for case in request.cases)
            if count and steps > MOST_TOGETHER:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _answers(self, requests: Sequence[DecisionRequest]) -> list[Answer]:
        try:
            return list(self._decide(requests))
        except Exception:
            # Something is wrong with one of them, which the others must not suffer from.
            return [self._answer(one) for one in requests]

    def _answer(self, request: DecisionRequest) -> Answer:
        try:
            return self._decide([request])[0]
        except Exception as error:
            return error
