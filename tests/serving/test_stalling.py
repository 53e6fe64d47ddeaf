"""A server that cannot be stalled: who asks for much, sends slowly or reads nothing is slow for themselves alone."""

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serving.episodes import logs
from tests.serving.policies import GRADIENT, POLICIES, last
from tests.serving.running import running
from tests.serving.test_serve import FINE, TOKEN, apart, asked, case, served

from poela.eligibility.logged import LoggedContexts
from poela.learners.policy_gradient import POCRM
from poela.serving.application import Limits, application
from poela.serving.decisions import Answering
from poela.serving.limits import Credits
from poela.serving.line import MOST_OF_ONE, FairLine
from poela.serving.requests import Form
from poela.serving.server import listening, server_of
from poela.serving.source import PolicySource

HEAD = b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
PATIENCE = 600  # seconds until a test gives up: what is waited for comes much sooner


@pytest.fixture(scope="module")
def plain() -> Any:
    return last(POCRM(**GRADIENT), logs())


@contextmanager
def listening_server(policy: Any, **limits: Any) -> Iterator[int]:
    """A server in a thread, so that its deadlines can be changed; its port."""
    server = server_of(PolicySource(policy, "a policy"), None, limits=Limits(**limits))
    with listening("127.0.0.1", 0) as found:
        port = found.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [found]})
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def connected(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=(address, 0))


def answered(one: socket.socket) -> bool:
    """Whether decisions come, to their end."""
    answer = b""
    while not answer.endswith(b"]}"):
        part = one.recv(65536)
        assert part, answer
        answer += part
    return b" 200 " in answer


def is_shut(one: socket.socket) -> bool:
    """Whether the other side closes, after all that it has sent."""
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        pass
    return True  # a time-out is an error of its own


def test_a_step_is_a_number_and_not_copies_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, sizes = POLICIES["fittedq, no history"](logs()), list[int]()
    table = Form.table

    def counted(self: Form, cases: Any) -> Any:
        made = table(self, cases)
        sizes.append(made.num_rows)
        return made

    monkeypatch.setattr(Form, "table", counted)
    steps = [0, 1, 2, 5, 1000]
    request = {"cases": [case(step=step, id=step) for step in steps]}
    answers = asked(served(policy), "POST", "/v1/decide", json=request).json()["decisions"]
    assert sizes == []  # JSON becomes arrays of five rows, without a table
    contexts = np.array([list(FINE.values())] * 5, np.float32)
    expected = policy.probabilities(contexts, steps=steps)
    for answer, chances in zip(answers, expected, strict=True):
        if not answer["defer"]:
            assert list(answer["propensities"].values()) == pytest.approx(chances, abs=1e-9)
    explained = asked(served(policy), "POST", "/v1/explain", json={"cases": [case(step=2)]}).json()
    if not explained["defer"]:
        assert [one["probability"] for one in explained["actions"]] == pytest.approx(expected[2], abs=1e-9)
    assert sizes == [1]


def test_health_answers_while_all_else_waits_and_explanations_wait_in_the_same_line(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, answered, ask_line, came = threading.Event(), Answering.answered, FairLine.ask, list[str]()

    def slow(self: Answering, requests: Any) -> Any:
        free.wait(PATIENCE)
        return answered(self, requests)

    async def noted(self: FairLine, client: str, items: Any) -> Any:
        came.append(client)  # and goes into the line before anything else is done
        return await ask_line(self, client, items)

    monkeypatch.setattr(Answering, "answered", slow)
    monkeypatch.setattr(FairLine, "ask", noted)
    app = application(PolicySource(plain, "a policy"), limits=Limits(rate=1e9))

    async def ask() -> tuple[int, list[int]]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE) as client:
            ways = ("decide", "explain")
            many = [
                asyncio.create_task(client.post(f"/v1/{ways[n % 2]}", json={"cases": [case(id=n)]}))
                for n in range(MOST_OF_ONE + 20)
            ]
            while len(came) < len(many):
                await asyncio.sleep(0)
            health = await client.get("/healthz")
            free.set()
            return health.status_code, [one.status_code for one in await asyncio.gather(*many)]

    health, answers = apart(ask())
    assert health == 200
    assert set(answers) == {200, 503}
    assert answers.count(503) in (19, 20)  # one may have been taken from the line at once


def test_trees_are_made_before_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation of a large log once kept everybody waiting, while the first one made them."""
    policy = POLICIES["poela"](logs())
    made: list[int] = []
    search = LoggedContexts._by_action

    def counted(self: LoggedContexts, *given: Any) -> Any:
        made.append(len(given[0]))
        return search(self, *given)

    monkeypatch.setattr(LoggedContexts, "_by_action", counted)
    app = served(policy)
    assert made
    assert asked(app, "POST", "/v1/explain", json={"cases": [case(step=0)]}).status_code == 200


def test_who_asks_for_too_much_is_refused_on_every_route_but_health(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poela.serving.middleware.LONGEST_WAIT", 0.01)
    app = application(PolicySource(plain, "a policy"), TOKEN, limits=Limits(rate=5.0))
    app.credits.charge("127.0.0.1", 1000.0)
    for path in ("/", "/v1/policy", "/metrics", "/openapi.json", "/nowhere"):
        answer = asked(app, "GET", path)
        assert answer.status_code == 429, path
        assert int(answer.headers["retry-after"]) > 100
    assert asked(app, "GET", "/healthz").status_code == 200


def test_work_is_paid_for_by_its_steps(plain: Any) -> None:
    now = 0.0
    app = application(PolicySource(plain, "a policy"))
    app.credits.clock = lambda: now
    before = app.credits._credit("127.0.0.1", now)
    asked(app, "POST", "/v1/decide", json={"cases": [case(id=n) for n in range(100)]})
    spent = before - app.credits._credit("127.0.0.1", now)
    assert 101 < spent < 125  # one for the request, one for each step, and a little for its bytes
    asked(app, "GET", "/nowhere")
    assert before - app.credits._credit("127.0.0.1", now) - spent == pytest.approx(11)


def test_many_clients_are_not_remembered_for_ever() -> None:
    credits = Credits(clock=lambda: 0.0)
    for number in range(30_000):
        credits.charge(str(number), 1.0)
    credits.charge("debtor", 1e6)
    for number in range(30_000):
        credits.charge(str(number), 1.0)
    assert len(credits._accounts) <= 10_001
    assert credits.seconds_owed("debtor") > 0


REPEATED = (
    b'{"cases": [], "cases": [{"id": 1, "step": 0, "features": {}}]}',
    b'{"cases": [{"id": 1, "id": 2, "step": 0, "features": {"age": 1, "sofa": 1, "dose so far": 1}}]}',
    b'{"cases": [{"id": 1, "step": 0, "features": {"age": 1, "age": 77.125, "sofa": 1, "dose so far": 1}}]}',
    b'{"cases": [{"id": 1, "step": 0, "features": {"age": 1, "\\u0061ge": 2, "sofa": 1, "dose so far": 1}}]}',
)


@pytest.mark.parametrize("body", REPEATED)
def test_names_that_occur_twice_are_refused(body: bytes, plain: Any) -> None:
    answer = asked(served(plain), "POST", "/v1/decide", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "occurs twice" in answer.text
    assert "77.125" not in answer.text


ODD_HOSTS = (
    "[::1].evil.example",
    "[::1]evil",
    "[::1]:80.evil.example",
    "[::1",
    "::1]",
    "127.0.0.1:80:80",
    "127.0.0.1@evil.example",
    "evil.example@127.0.0.1",
    "127.0.0.1/evil",
    "localhost:port",
    "localhost.",
    "[127.0.0.1%evil]",
    "[::1%evil.example]",
    "127.1",
    "2130706433",
    "0x7f.1",
    "127.0.0.1, evil.example",
    "localhost\tevil",
)


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_odd_hosts_are_refused(host: str, plain: Any) -> None:
    assert asked(served(plain), "GET", "/v1/policy", headers={"host": host}).status_code == 421


def test_sockets_of_all_kinds_of_attackers(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not sent, sent twice, sent slowly or not read is closed, and others are served.

    Deadlines are short for those who are to miss them alone, and long while others are served: the machine may be busy.
    """

    def deadlines(seconds: float) -> None:
        for name in ("server.HEADER_SECONDS", "server.WRITE_SECONDS", "middleware.READ_SECONDS"):
            monkeypatch.setattr(f"poela.serving.{name}", seconds)

    body = json.dumps({"cases": [case()]}).encode()
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with listening_server(plain, connections=10, rate=1e9) as port:
        deadlines(PATIENCE)
        again, after = connected(port), connected(port)
        again.sendall(whole)
        assert answered(again)
        assert healthy(after, b"Content-Length: 1000\r\n")  # answered without the body that it promises
        deadlines(0.3)
        silent, unfinished = connected(port), connected(port)
        for one, content in ((unfinished, HEAD), (again, HEAD), (after, b"x")):  # a second request that never ends
            with suppress(ConnectionError):  # it was shut already
                one.sendall(content)
        assert is_shut(silent)
        assert is_shut(unfinished)
        assert is_shut(again)
        assert is_shut(after)
        deadlines(PATIENCE)
        monkeypatch.setattr("poela.serving.middleware.READ_SECONDS", 0.3)
        half = connected(port)
        half.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        assert b" 408 " in half.recv(65536)
        assert is_shut(half)
        monkeypatch.setattr("poela.serving.middleware.READ_SECONDS", PATIENCE)
        upgrade = connected(port)
        upgrade.sendall(
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b" 400 " in upgrade.recv(65536)
        assert is_shut(upgrade)
        for one in (silent, unfinished, half, again, after, upgrade):
            one.close()
        assert (
            httpx.post(f"http://127.0.0.1:{port}/v1/decide", json={"cases": [case()]}, timeout=PATIENCE).status_code
            == 200
        )


def test_who_reads_no_answer_is_shut_out(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poela.serving.server.WRITE_SECONDS", 0.5)
    body = json.dumps({"cases": [case(id=n) for n in range(100)]}).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with listening_server(plain, rate=1e9) as port, connected(port) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(20_000):  # more than any buffer holds
                deaf.sendall(request)
        assert (
            httpx.post(f"http://127.0.0.1:{port}/v1/decide", json={"cases": [case()]}, timeout=PATIENCE).status_code
            == 200
        )


def healthy(one: socket.socket, more: bytes = b"") -> bool:
    """Whether the server says so on this connection."""
    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + b"\r\n")
    answer = b""
    while b'"ok"}' not in answer:
        part = one.recv(65536)
        assert part, answer
        answer += part
    return b" 200 " in answer


def test_one_client_may_hold_few_connections(plain: Any) -> None:
    with ExitStack() as closing, listening_server(plain, connections=3) as port:

        def opened(address: str) -> socket.socket:
            return closing.enter_context(connected(port, address))

        held = [opened("127.0.0.7") for _ in range(3)]
        assert all(healthy(one) for one in held)
        assert is_shut(opened("127.0.0.7"))
        assert healthy(opened("127.0.0.8"))
        assert healthy(held[0], b"Connection: close\r\n")
        assert is_shut(held[0])
        assert healthy(opened("127.0.0.7"))


def test_a_server_that_is_told_to_end_finishes_its_answers(tmp_path: Path, plain: Any) -> None:
    """One answer is on its way, since its client has to wait for credit, and another request never comes to its end."""
    plain.save(tmp_path / "policy")
    body = json.dumps({"cases": [case(id=n) for n in range(100)]}).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with running(tmp_path / "policy", "--quiet", "--rate", "100") as server:
        one, never, other = (connected(server.port, address) for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"))
        never.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        one.sendall(request)
        assert answered(one)
        one.sendall(request)
        assert healthy(other)  # what was sent before is known to the server
        server.process.send_signal(signal.SIGTERM)
        assert answered(one)
        assert is_shut(one)
        assert is_shut(never)
        assert is_shut(other)
        assert server.process.wait(PATIENCE) == 0  # by itself: who kills it makes it another
        for each in (one, never, other):
            each.close()
    assert (tmp_path / "server.log").read_text() == ""


def test_a_server_that_is_told_to_end_under_load_leaves_no_half_answer(tmp_path: Path, plain: Any) -> None:
    plain.save(tmp_path / "policy")
    request = {"cases": [case(id=n) for n in range(50)]}
    kinds: list[str] = []
    with running(tmp_path / "policy", "--quiet", "--rate", "1e9") as server:
        begun = threading.Barrier(9)

        def ask() -> None:
            begun.wait(PATIENCE)
            for turn in range(1000):
                try:
                    answer = httpx.post(f"{server.address}/v1/decide", json=request, timeout=PATIENCE)
                except (
                    httpx.ConnectError,
                    httpx.ReadError,
                    httpx.RemoteProtocolError,
                    httpx.TimeoutException,
                ) as error:
                    kinds.append(type(error).__name__)  # nobody is there any longer
                    return
                kinds.append(str(answer.status_code) if len(answer.json()["decisions"]) == 50 else "half")
                assert turn < 999

        slow = connected(server.port)
        slow.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")  # which must not keep it from ending
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        begun.wait(PATIENCE)
        while kinds.count("200") < 8 and any(thread.is_alive() for thread in threads):
            threading.Event().wait(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0  # by itself
        for thread in threads:
            thread.join(PATIENCE)
        slow.close()
    assert "half" not in kinds
    assert {kind for kind in kinds if kind.isdigit()} == {"200"}
    assert "Traceback" not in (tmp_path / "server.log").read_text()
