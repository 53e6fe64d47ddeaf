"""The server: what `decide` says over HTTP, to those who may ask, and nothing about values in errors or logs."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import pyarrow as pa
import pytest
from tests.serving.episodes import ACTIONS, FEATURES, logs, mixed_logs, random_episodes
from tests.serving.policies import GRADIENT, NEAR, POLICIES, last
from tests.serving.running import Running, running

from poela.behavior.multinomial import MultinomialBehavior
from poela.cli import main
from poela.core.errors import InputError
from poela.data.receipts import Receipts, read_receipts
from poela.data.trajectories import Trajectories
from poela.learners.consensus import Consensus
from poela.learners.policy_gradient import POCRM
from poela.serving.application import application
from poela.serving.decisions import Answering
from poela.serving.line import FairLine, TooBusy
from poela.serving.middleware import LARGEST_BODY
from poela.serving.requests import DecisionRequest
from poela.serving.server import token_for
from poela.serving.source import PolicySource

TOKEN = "correct-horse-battery-staple"
HERE = "http://127.0.0.1"
T = TypeVar("T")


def apart(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: a browser that an earlier test has opened leaves a running event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def asked(app: Any, method: str, path: str, base: str = HERE, **request: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client:
            return await client.request(method, path, **request)

    return apart(ask())


def served(policy: Any, token: str | None = None) -> Any:
    return application(PolicySource(policy, "a policy"), token)


def named(row: Any) -> dict[str, float]:
    return dict(zip(FEATURES, map(float, row), strict=True))


def cases_of(episodes: Trajectories, n: int, kind: str) -> list[dict[str, Any]]:
    """The last steps of the first n episodes, with what the policy wants to know about earlier ones."""
    cases = []
    for start, end in zip(episodes.offsets[:n], episodes.offsets[1 : n + 1], strict=True):
        case: dict[str, Any] = {"id": f"episode {start}", "features": named(episodes.contexts[end - 1])}
        if kind != "history":
            case["step"] = int(end - start - 1)
        if kind == "history":
            case["history"] = [
                {"features": named(episodes.contexts[row]), "action": ACTIONS[episodes.actions[row]]}
                for row in range(start, end - 1)
            ]
        cases.append(case)
    return cases


@pytest.mark.parametrize(
    ("name", "kind"),
    [("poela", "context"), ("fittedq, no history", "step"), ("fittedq", "history"), ("bcq, mixed", "context")],
)
def test_decisions_are_those_of_the_policy(name: str, kind: str) -> None:
    train = logs()
    policy, episodes = POLICIES[name](train), random_episodes(train, 500)
    app, n = served(policy), 40
    answer = asked(app, "POST", "/v1/decide", json={"cases": cases_of(episodes, n, kind)})
    assert answer.status_code == 200, answer.text
    decisions = answer.json()["decisions"]
    ends = episodes.offsets[1 : n + 1] - 1
    expected, rule = policy.along(episodes)[ends], policy.eligibility
    mask, stranded = rule.along(episodes).mask[ends], rule.along(episodes).stranded[ends]
    assert [one["defer"] for one in decisions] == stranded.tolist()
    assert 0 < stranded.sum() < n or rule.radius is None
    for place, one in enumerate(decisions):
        assert one["policy"] == policy.content_hash[:16]
        if stranded[place]:
            assert one["action"] is None
            assert one["propensities"] == dict.fromkeys(ACTIONS)
            continue
        assert list(one["propensities"]) == list(ACTIONS)
        assert list(one["propensities"].values()) == pytest.approx(expected[place], abs=1e-6)
        may = expected[place] > 0 if name == "bcq, mixed" else mask[place]
        assert [entry["action"] for entry in one["eligible"]] == [ACTIONS[a] for a in np.flatnonzero(may)]


@pytest.mark.parametrize(
    ("name", "kind"), [("poela", "context"), ("fittedq, no history", "step"), ("fittedq", "history")]
)
def test_a_case_gets_the_action_that_decide_gives_it(name: str, kind: str) -> None:
    train = logs()
    policy, episodes, n = POLICIES[name](train), random_episodes(train, 500), 40
    rows, ends = episodes.offsets[n], episodes.offsets[1 : n + 1] - 1
    columns = {feature: episodes.contexts[:rows, place] for place, feature in enumerate(FEATURES)}
    table = pa.table(
        {
            "episode": [
                f"episode {start}" for start in np.repeat(episodes.offsets[:n], np.diff(episodes.offsets[: n + 1]))
            ],
            "step": episodes.step_numbers[:rows],
            "action": [ACTIONS[action] for action in episodes.actions[:rows]],
            **columns,
        }
    )
    app, cases = served(policy), cases_of(episodes, n, kind)
    for seed in (None, 5):
        decided = policy.decide(table, seed=seed)["action"].to_pylist()
        whole = asked(app, "POST", "/v1/decide", json={"cases": cases, "seed": seed}).json()["decisions"]
        assert [one["action"] for one in whole] == [decided[row] for row in ends]
        alone = [asked(app, "POST", "/v1/decide", json={"cases": [case], "seed": seed}) for case in cases[:5]]
        for one, among in zip([one.json()["decisions"][0] for one in alone], whole, strict=False):
            assert one["propensities"] == pytest.approx(among["propensities"], abs=1e-9)  # products of other sizes
            assert {**one, "propensities": None} == {**among, "propensities": None}
    assert len({one["action"] for one in whole}) > 2


def test_an_explanation_counts_what_similar_cases_were_given() -> None:
    train = logs()
    policy = POLICIES["poela"](train)
    answer = asked(
        served(policy), "POST", "/v1/explain", json={"cases": [{"features": named(train.contexts[3]), "step": 0}]}
    )
    told = {one["action"]: one for one in answer.json()["actions"]}
    scaled = train.contexts.astype(float) / train.contexts.std(axis=0, dtype=float)
    near = np.square(scaled - scaled[3]).mean(axis=1) <= policy.eligibility.radius
    for place, name in enumerate(ACTIONS):
        assert told[name]["similar"] == (near & (train.actions == place)).sum()
        assert told[name]["eligible"] == bool((near & (train.actions == place)).any())
    assert told[ACTIONS[train.actions[3]]]["distance"] == 0


def test_text_and_gaps_are_read_as_in_the_log() -> None:
    train = mixed_logs()
    policy = last(Consensus(rule=NEAR), train, MultinomialBehavior())
    features = {"age": None, "ward": "ICU", "risk": "low", "seen": "2020-01-01T00:00:00"}
    rows = {**features, "seen": np.datetime64("2020-01-01T00:00:00", "us"), "stay": 0, "hour": 0}
    table = pa.table({name: pa.array([value]) for name, value in rows.items()})
    expected = policy.decide(table).to_pylist()[0]
    request = {"cases": [{"id": 0, "features": features}]}
    (found,) = asked(served(policy), "POST", "/v1/decide", json=request).json()["decisions"]
    for name in ("action", "defer", "policy", "similar", "note"):
        assert found[name] == expected[name], name
    for name, chance in found["propensities"].items():
        assert chance == pytest.approx(expected[f"propensity_{name}"])
    assert "age: missing, filled in" in found["note"]
    new = {**features, "ward": "SECRET-WARD"}
    (found,) = asked(served(policy), "POST", "/v1/decide", json={"cases": [{"id": 0, "features": new}]}).json()[
        "decisions"
    ]
    assert "ward: a category that was not logged" in found["note"]
    assert "SECRET" not in found["note"]


FINE = named([0.1, 2, 1.0])


def case(features: Any = FINE, **more: Any) -> dict[str, Any]:
    return {"id": "p1", "step": 0, "features": features, **more}


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "no JSON document"),
    "not UTF-8": (b'{"cases": "\xff"}', "no JSON document"),
    "NaN": (b'{"cases": [{"features": {"age": NaN}}]}', "no JSON document"),
    "too deep": (b"[" * 100_000, "no JSON document"),
    "thousands of digits": (b'{"cases": ' + b"9" * 5000 + b"}", "no JSON document"),
    "a list": ([], "must be an object with the list 'cases'"),
    "no cases": ({"cases": []}, "list of 1 to 100"),
    "many cases": ({"cases": [case()] * 101}, "list of 1 to 100"),
    "a number": ({"cases": [5]}, "case 0 must be an object with features, id, step and nothing else"),
    "a history that is not asked for": ({"cases": [case(history=[])]}, "case 0 must be an object"),
    "no id": ({"cases": [{"features": FINE, "step": 0}]}, "case 0: id is missing: name the case"),
    "no step": ({"cases": [{"features": FINE, "id": 3}]}, "case 0: step is missing"),
    "an empty id": ({"cases": [case(id="")]}, "id must be a whole number, or text"),
    "an id that is not whole": ({"cases": [case(id=77.125)]}, "id must be a whole number, or text"),
    "a null for an id": ({"cases": [case(id=None)]}, "id must be a whole number, or text"),
    "a missing feature": ({"cases": [case({"age": 77.125})]}, "2 features are missing, first 'sofa'"),
    "an unknown feature": ({"cases": [case({**FINE, "x": 77.125})]}, "1 features are not known, first 'x'"),
    "text": ({"cases": [case({**FINE, "age": "SECRET"})]}, "'age' must be a number"),
    "null": ({"cases": [case({**FINE, "age": None})]}, "'age' must be a number: it may not be null"),
    "a truth value": ({"cases": [case({**FINE, "age": True})]}, "'age' must be a number"),
    "a list of values": ({"cases": [case({**FINE, "age": [77.125]})]}, "'age' must be a number"),
    "beyond all numbers": (
        b'{"cases": [{"id": 1, "step": 0, "features": {"age": 1e999, "sofa": 1, "dose so far": 1}}]}',
        "'age' must be",
    ),
    "a bad seed": ({"cases": [case()], "seed": -1}, "seed must be a whole number"),
    "something else": ({"cases": [case()], "more": 1}, "must be an object with the list 'cases'"),
}


@pytest.fixture(scope="module")
def plain() -> Any:
    return served(POLICIES["poela"](logs()))


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_a_sentence_without_values(name: str, plain: Any) -> None:
    content, words = BAD[name]
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    answer = asked(plain, "POST", "/v1/decide", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert words in " ".join(answer.json()["errors"])
    assert not any(secret in answer.text for secret in ("SECRET", "77.125"))


def test_a_policy_that_counts_steps_must_be_told_their_number() -> None:
    app = served(POLICIES["fittedq, no history"](logs()))
    answer = asked(app, "POST", "/v1/decide", json={"cases": [case(), {"id": 1, "features": FINE}]})
    assert answer.status_code == 422
    assert answer.json()["errors"] == ["case 1: step is missing: say how many steps of its episode came before"]


def test_other_refusals(plain: Any) -> None:
    text = asked(plain, "POST", "/v1/decide", content=b"{}", headers={"content-type": "text/plain"})
    assert text.status_code == 415
    assert asked(plain, "GET", "/v1/decide").status_code == 405
    assert asked(plain, "GET", "/v1/decide").headers["allow"] == "POST"
    assert asked(plain, "GET", "/nowhere/SECRET").json() == {"errors": ["Not Found"]}
    large = asked(plain, "POST", "/v1/decide", content=b" " * (LARGEST_BODY + 1))
    assert large.status_code == 413
    assert asked(plain, "GET", "/docs").status_code == asked(plain, "GET", "/redoc").status_code == 404


def test_only_names_of_this_machine_without_a_token(plain: Any) -> None:
    for name in ("localhost:8000", "127.0.0.1", "[::1]:8000", "127.0.0.2"):
        assert asked(plain, "GET", "/v1/policy", headers={"host": name}).status_code == 200, name
    for name in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "10.0.0.1", "localhost.evil"):
        assert asked(plain, "GET", "/v1/policy", headers={"host": name}).status_code == 421, name
    assert asked(plain, "GET", "/healthz", headers={"host": "evil.example"}).status_code == 200


def test_with_a_token_nothing_but_health_answers_without_it() -> None:
    app = served(POLICIES["pocrm"](logs()), TOKEN)
    routes = [("GET", path) for path in ("/", "/v1/policy", "/metrics", "/openapi.json", "/nowhere", "/healthz/")]
    for method, path in [*routes, ("POST", "/v1/decide"), ("POST", "/v1/explain"), ("PUT", "/v1/decide")]:
        for given in (None, TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", "Bearer é"):
            headers = {} if given is None else {"authorization": given.encode("latin-1")}
            answer = asked(app, method, path, headers=headers)
            assert answer.status_code == 401, (method, path, given)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert asked(app, method, path, headers={"authorization": f"Bearer {TOKEN}"}).status_code != 401
    assert asked(app, "GET", "/healthz").json() == {"status": "ok"}
    # A server with a token stands behind other names.
    elsewhere = asked(app, "GET", "/v1/policy", "http://doses.example", headers={"authorization": f"bearer {TOKEN}"})
    assert elsewhere.status_code == 200


def test_a_token_is_asked_for_off_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POELA_TOKEN", raising=False)
    assert token_for("127.0.0.1") is token_for("::1") is token_for("localhost") is None
    for host in ("0.0.0.0", "::", "10.0.0.5", "doses.example", ""):
        with pytest.raises(InputError, match="set POELA_TOKEN"):
            token_for(host)
    monkeypatch.setenv("POELA_TOKEN", "short")
    with pytest.raises(InputError, match="16 characters"):
        token_for("0.0.0.0")
    monkeypatch.setenv("POELA_TOKEN", TOKEN)
    assert token_for("0.0.0.0") == token_for("127.0.0.1") == TOKEN


def test_logs_and_counts_hold_no_values(plain: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        features = {**FINE, "age": 77.125}
        for path in ("/v1/decide", "/v1/explain", "/v1/decide?age=77.125", "/SECRET"):
            asked(plain, "POST", path, json={"cases": [case(features)]})
            asked(plain, "POST", path, json={"cases": [case({"SECRET": 77.125})]})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("poela")]
    assert any(line.startswith("POST /v1/decide 200") for line in ours)
    assert any(line.startswith("POST other 404") for line in ours)
    told = "\n".join(ours) + asked(plain, "GET", "/metrics").text
    assert not any(secret in told for secret in ("SECRET", "77.125"))
    assert 'poela_requests_total{path="/v1/decide",status="200"}' in told


def test_an_unforeseen_error_is_answered_and_logged_without_its_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("SECRET")

    monkeypatch.setattr("poela.serving.decisions.Answering.decided", broken)
    app = served(POLICIES["pocrm"](logs()))
    answer = asked(app, "POST", "/v1/decide", json={"cases": [case()]})
    assert (answer.status_code, answer.json()) == (500, {"errors": ["the server could not answer: its log says more"]})
    assert "unforeseen RuntimeError" in caplog.text
    assert "SECRET" not in caplog.text


def test_requests_that_come_together_are_answered_together_and_one_does_not_spoil_the_others() -> None:
    seen: list[int] = []

    def decide(requests: Any) -> Any:
        seen.append(len(requests))
        time.sleep(0.05)
        if any(request.seed == 13 for request in requests):
            raise InputError("13")
        return [[{"seed": request.seed}] for request in requests]

    async def ask() -> Any:
        together = FairLine(decide)
        return await asyncio.gather(
            *(together.ask("a", [(DecisionRequest((), seed), 1)]) for seed in (1, 2, 13, 4, 5)), return_exceptions=True
        )

    answers = apart(ask())
    assert [answers[place] for place in (0, 1, 3, 4)] == [[[{"seed": seed}]] for seed in (1, 2, 4, 5)]
    assert isinstance(answers[2], InputError)
    assert seen[0] in (1, 5)
    assert max(seen) > 1


def test_too_many_requests_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poela.serving.line.MOST_WAITING", 3)
    free = threading.Event()

    def decide(requests: Any) -> Any:
        free.wait(600)
        return [[] for _ in requests]

    async def ask() -> Any:
        together = FairLine(decide)
        waiting = [asyncio.create_task(together.ask("a", [(DecisionRequest((), seed), 1)])) for seed in range(8)]
        await asyncio.sleep(0.05)
        free.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    answers = apart(ask())
    assert sum(isinstance(answer, TooBusy) for answer in answers) >= 3
    assert answers[0] == [[]]


def test_the_page_is_one_document_that_asks_this_server_alone(plain: Any) -> None:
    page = asked(plain, "GET", "/")
    assert "http" not in page.text.replace("http-equiv", "")
    assert "innerHTML" not in page.text
    allowed = page.headers["content-security-policy"]
    assert "default-src 'none'" in allowed
    assert "connect-src 'self'" in allowed
    assert "unsafe" not in allowed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    policy = tmp_path_factory.mktemp("served") / "policy"
    last(POCRM(**GRADIENT), logs()).save(policy)
    with running(policy) as found:
        yield found


def test_a_running_server_outlives_malformed_slow_and_oversized_requests(server: Running) -> None:
    body = json.dumps({"cases": [case()]}).encode()
    head = b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

    def raw(content: bytes, patience: float = 60) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as found:
            found.settimeout(patience)
            try:
                found.sendall(content)
                return found.recv(1000)
            except OSError:
                return b""

    assert b" 400 " in raw(b"\x00\xff nonsense\r\n\r\n")
    assert b" 200 " in raw(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    raw(head + b"Content-Length: 1000\r\n\r\n" + body, patience=0.2)  # less than was promised
    raw(head + b"Content-Length: -5\r\n\r\n" + body)
    raw(head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    raw(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
    assert b" 413 " in raw(head + b"Content-Length: 9999999\r\n\r\n" + b" " * 2_000_000)
    slow = []
    for _ in range(50):  # who say little and wait
        one = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        one.sendall(head + b"Content-Length: 100\r\n\r\n{")
        slow.append(one)
    assert httpx.post(
        f"{server.address}/v1/decide", content=body, headers={"content-type": "application/json"}, timeout=60
    ).is_success
    for one in slow:
        one.close()
    assert httpx.get(f"{server.address}/healthz", timeout=60).json() == {"status": "ok"}
    assert server.process.poll() is None


def test_a_running_server_answers_many_at_once(server: Running) -> None:
    failed: list[Any] = []

    def ask(number: int) -> None:
        with httpx.Client(base_url=server.address, timeout=300) as client:
            for turn in range(10):
                features = {**FINE, "age": 0.1 * number} if turn % 3 else {"age": "x"}
                answer = client.post("/v1/decide", json={"cases": [case(features)] * (1 + turn)})
                expected = 200 if turn % 3 else 422
                if answer.status_code != expected:
                    failed.append(answer.text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    log = httpx.get(f"{server.address}/metrics", timeout=60).text
    assert 'path="/v1/decide",status="422"' in log


def test_a_running_server_off_loopback_wants_its_token(tmp_path: Path) -> None:
    last(POCRM(**GRADIENT), logs()).save(tmp_path / "policy")
    with running(tmp_path / "policy", "--host", "0.0.0.0", token=TOKEN) as found:
        assert httpx.get(f"{found.address}/v1/policy", timeout=60).status_code == 401
        assert httpx.get(f"{found.address}/healthz", timeout=60).status_code == 200
        right = httpx.get(f"{found.address}/v1/policy", timeout=60, headers={"authorization": f"Bearer {TOKEN}"})
        assert right.json()["actions"] == list(ACTIONS)
    log = (tmp_path / "server.log").read_text()
    assert "GET /v1/policy 401" in log
    assert TOKEN not in log


def test_what_is_not_served_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POELA_TOKEN", raising=False)
    last(POCRM(**GRADIENT), logs()).save(tmp_path / "policy")
    assert main(["serve", str(tmp_path / "policy"), "--host", "0.0.0.0"]) == 2
    assert "set POELA_TOKEN" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "nothing")]) == 2
    assert "is no directory of a study or a policy" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_in_one_line(
    server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POELA_TOKEN", raising=False)
    last(POCRM(**GRADIENT), logs()).save(tmp_path / "policy")
    assert main(["serve", str(tmp_path / "policy"), "--port", str(server.port)]) == 1
    assert "cannot be served on" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pocrm", "fittedq"])
def test_what_is_answered_was_written_down(name: str, tmp_path: Path) -> None:
    """Receipts of a server: the propensities and actions that clients were told, by case and step."""
    train = logs()
    source = PolicySource(POLICIES[name](train), "a policy")
    app, form = application(source, None, Receipts.to_append(tmp_path / "receipts")), Answering(source).form
    episodes, told = random_episodes(train, steps=12), {}
    rows = [named(row) for row in episodes.contexts]
    for number, (first, end) in enumerate(zip(episodes.offsets[:-1], episodes.offsets[1:], strict=True)):
        for row in range(first, end):
            case: dict[str, Any] = {"id": f"c{number}", "features": rows[row]}
            if form.wants_history:
                earlier = [{"features": rows[k], "action": ACTIONS[episodes.actions[k]]} for k in range(first, row)]
                case["history"] = earlier
            else:
                case["step"] = int(row - first)
            answers = asked(app, "POST", "/v1/decide", json={"cases": [case]}).json()
            told[f"c{number}", row - first] = answers["decisions"][0]
    read = read_receipts(tmp_path / "receipts")
    table, keys = read.table, read.keys
    assert table.num_rows == len(told) == 12
    for row in table.to_pylist():
        answer = told[row[keys.case], int(row[keys.step])]
        assert row["action"] == answer["action"]
        assert {action: row[f"propensity_{action}"] for action in ACTIONS} == answer["propensities"]
