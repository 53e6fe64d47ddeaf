"""The line in which work waits: counted by steps and turns, since clocks tell of the machine."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.serving.episodes import logs
from tests.serving.policies import GRADIENT, POLICIES, last
from tests.serving.test_serve import FINE, apart, asked, case, served

from poela.learners.policy_gradient import POCRM
from poela.serving.decisions import Answering, pieces_of
from poela.serving.limits import EXPLAINED_COST
from poela.serving.line import MOST_OF_ONE, MOST_TOGETHER, SHARE, SHARE_ALONE, FairLine, TooBusy, together_at
from poela.serving.source import PolicySource

PATIENCE = 60  # seconds until a test gives up: what is waited for comes much sooner


@pytest.fixture(scope="module")
def plain() -> Any:
    return last(POCRM(**GRADIENT), logs())


@contextmanager
def held_line() -> Iterator[tuple[FairLine, list[list[str]], threading.Event, threading.Event]]:
    """A line whose goes are written down, and wait until they may be done."""
    goes: list[list[str]] = []
    begun, free = threading.Event(), threading.Event()

    def work(items: Any) -> Any:
        goes.append(list(items))
        begun.set()
        free.wait(PATIENCE)
        return items

    yield FairLine(work), goes, begun, free


def test_clients_take_turns_and_none_has_more_than_a_share_of_a_go() -> None:
    """By steps and turns: 30 clients come while one has much; all are in the next go, beside 32 steps of that one."""
    with held_line() as (line, goes, begun, free):

        async def ask() -> None:
            first = asyncio.create_task(line.ask("greedy", [(f"greedy {n}", 16) for n in range(42)]))
            await asyncio.to_thread(begun.wait, PATIENCE)
            others = [asyncio.create_task(line.ask(f"other {n}", [(f"other {n}", 1)])) for n in range(30)]
            await asyncio.sleep(0.05)
            free.set()
            await asyncio.gather(first, *others)

        apart(ask())
    steps = [16 * sum(item.startswith("greedy") for item in go) for go in goes]
    assert steps[0] == SHARE_ALONE  # nobody else was there, and still who came next waited for few steps
    assert {f"other {n}" for n in range(30)} <= set(goes[1])  # all of them in the next go
    assert steps[1] == SHARE
    assert set(steps[2:]) == {SHARE_ALONE}
    assert sorted(item for go in goes for item in go if item.startswith("g")) == sorted(
        f"greedy {n}" for n in range(42)
    )
    assert sum(map(len, goes)) == 72


def test_many_who_ask_for_much_share_goes_of_a_bounded_size() -> None:
    """Whoever is left out of a go is first in the next one; a piece that cannot be split has a go of its own."""
    with held_line() as (line, goes, begun, free):

        async def ask() -> None:
            before = asyncio.create_task(line.ask("before", [("before", 1)]))
            await asyncio.to_thread(begun.wait, PATIENCE)
            many = [
                asyncio.create_task(line.ask(f"{n:02}", [(f"{n:02} {turn}", SHARE) for turn in range(3)]))
                for n in range(20)
            ]
            long = asyncio.create_task(line.ask("long", [("long", 10 * MOST_TOGETHER), ("long too", 1)]))
            await asyncio.sleep(0.05)
            free.set()
            await asyncio.gather(before, long, *many)

        apart(ask())
    at_once = MOST_TOGETHER // SHARE
    turns = [item for go in goes[1:] for item in go]
    assert ["long"] in goes
    assert all(len(go) <= at_once for go in goes if "long too" not in go)
    everyone = [f"{n:02} 0" for n in range(20)]
    assert turns[:21] == [*everyone, "long"]  # one turn each before anybody has a second
    assert turns[21:42] == [*(f"{n:02} 1" for n in range(20)), "long too"]


def test_too_many_requests_of_one_client_leave_room_for_others() -> None:
    async def ask() -> str:
        free = threading.Event()
        line = FairLine(lambda items: items if free.wait(PATIENCE) else [])
        many = [asyncio.create_task(line.ask("greedy", [(n, 1)])) for n in range(MOST_OF_ONE + 50)]
        await asyncio.sleep(0)
        other = asyncio.create_task(line.ask("other", [("other", 1)]))
        await asyncio.sleep(0)
        free.set()
        refused = [one for one in await asyncio.gather(*many, return_exceptions=True) if isinstance(one, TooBusy)]
        assert len(refused) >= 49
        return str((await other)[0])

    assert apart(ask()) == "other"


def test_answers_do_not_depend_on_who_else_asks(plain: Any) -> None:
    """A request of 100 cases, whole and in the goes that it has beside others: equal field by field.

    Numbers may differ in their last bits, since those of a matrix product depend on how many rows it has.
    """
    answering = Answering(PolicySource(plain, "a policy"))
    body = json.dumps({"cases": [case({**FINE, "age": 20.0 + n}, id=n, step=n % 7) for n in range(100)]}).encode()
    asked_for = answering.form.parsed(body)
    pieces = pieces_of(asked_for)
    assert [steps for _, steps in pieces] == [SHARE, SHARE, SHARE, 4]
    other = answering.form.parsed(json.dumps({"cases": [case(id="other")]}).encode())
    goes = [answering.answered([piece, other]) for piece, _ in pieces]
    (whole,) = answering.answered([asked_for])
    for one, other_way in zip(whole, [answer for piece, _ in goes for answer in piece], strict=True):
        assert one["propensities"] == pytest.approx(other_way["propensities"], abs=1e-9)
        assert [named["action"] for named in one["eligible"]] == [named["action"] for named in other_way["eligible"]]
        drawn = {"propensities", "eligible"}
        assert {name: one[name] for name in one.keys() - drawn} == {
            name: other_way[name] for name in other_way.keys() - drawn
        }
    assert all(told == goes[0][1] for _, told in goes)


def test_an_explanation_is_more_work_than_a_step(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    ask = FairLine.ask

    async def noted(self: FairLine, client: str, items: Any) -> Any:
        seen.extend(steps for _, steps in items)
        return await ask(self, client, items)

    monkeypatch.setattr(FairLine, "ask", noted)
    assert asked(served(plain), "POST", "/v1/explain", json={"cases": [case()]}).status_code == 200
    assert seen == [1 + EXPLAINED_COST]


def test_a_go_is_as_large_as_its_work_allows() -> None:
    """Where each step looks at many stored numbers, fewer go together, so that nobody waits long for one go."""
    train = logs()
    near = Answering(PolicySource(POLICIES["poela"](train), "a policy"))
    assert near.stored_numbers == train.contexts.size
    assert together_at(near.stored_numbers) == MOST_TOGETHER
    goes: list[int] = []

    def work(items: Any) -> Any:
        goes.append(len(items))
        return items

    async def ask() -> None:
        line = FairLine(work, together_at(10**7))
        await asyncio.gather(*(line.ask(str(client), [(client, 1)]) for client in range(60)))

    apart(ask())
    assert max(goes) == SHARE
    assert sum(goes) == 60
