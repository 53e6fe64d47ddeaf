"""A server that is killed (−9) while it answers: whoever was told a decision has a receipt of it."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
from tests.serving.episodes import FEATURES, logs
from tests.serving.running import running

from poela.data.receipts import read_receipts
from poela.learners.consensus import Consensus


def test_every_answer_has_a_receipt_after_a_kill(tmp_path: Path) -> None:
    Consensus().fit(logs()).save(tmp_path / "policy")
    told: dict[str, str] = {}
    enough = threading.Event()

    def ask(address: str, who: int) -> None:
        with httpx.Client(base_url=address, timeout=60) as client:
            for number in range(10_000):
                case: dict[str, Any] = {"id": f"c{who}-{number}", "step": 0, "features": dict.fromkeys(FEATURES, 1.0)}
                try:
                    answer = client.post("/v1/decide", json={"cases": [case]})
                except httpx.HTTPError:
                    return  # the server is gone
                told[case["id"]] = answer.json()["decisions"][0]["action"]
                if len(told) >= 20:
                    enough.set()

    with running(tmp_path / "policy", "--receipts", str(tmp_path / "receipts"), python=sys.executable) as server:
        clients = [threading.Thread(target=ask, args=(server.address, who)) for who in range(2)]
        for client in clients:
            client.start()
        assert enough.wait(300)
        os.kill(server.process.pid, signal.SIGKILL)
        for client in clients:
            client.join(30)
    read = read_receipts(tmp_path / "receipts")
    assert read.notes == ()  # nothing is torn
    written = dict(zip(read.table[read.keys.case].to_pylist(), read.table["action"].to_pylist(), strict=True))
    assert len(told) >= 20
    assert {name: written.get(name) for name in told} == told
    assert len(written) <= len(told) + len(clients)  # at most the answers that were on their way
