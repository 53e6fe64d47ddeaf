"""Requests per second, and how long they take, of `poela serve` at the size of the sepsis cohort.

OMP_NUM_THREADS=1 python benchmarks/serve_load.py

The server is one process; a second one asks at a steady rate over some open connections, one case in each request, and
measures from the moment at which a request was due (so that a server that falls behind cannot hide it). Two servers
take turns, one with ONNX Runtime and one without, so that their ratio holds on a busy machine. All of it stays on this
machine and ends by itself.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
from export_speed import network_policy
from nearest_actions import logs_of


async def ask(address: str, bodies: list[bytes], rate: float, connections: int) -> list[float]:
    """Seconds from when each request was due until it was answered."""
    taken: list[float] = []
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=30, headers=headers) as client:
        await client.post("/v1/decide", content=bodies[0])  # the first one builds the searches
        started = time.perf_counter()

        async def one(number: int, body: bytes) -> None:
            due = started + number / rate
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            answer = await client.post("/v1/decide", content=body)
            assert answer.status_code == 200, answer.text
            taken.append(time.perf_counter() - due)

        await asyncio.gather(*(one(number, body) for number, body in enumerate(bodies)))
        print(f"  {len(bodies) / (time.perf_counter() - started):.0f} requests per second were answered")
    return taken


def generate(address: str, rate: float, seconds: float, features: int, connections: int) -> None:
    """The process that asks."""
    contexts = logs_of(13 * 400, features, 5).contexts
    bodies = []
    for row in np.random.default_rng(1).integers(len(contexts), size=int(rate * seconds)):
        named = {f"x{place}": float(value) for place, value in enumerate(contexts[row])}
        bodies.append(json.dumps({"cases": [{"id": len(bodies), "step": 0, "features": named}]}).encode())
    milliseconds = 1000 * np.array(asyncio.run(ask(address, bodies, rate, connections)))
    median, most = np.percentile(milliseconds, [50, 99])
    longest = milliseconds.max()
    print(f"  asked at {rate:.0f} per second: median {median:.1f} ms, p99 {most:.1f} ms, longest {longest:.1f} ms")


def main() -> None:
    """Serve policies of growing size, by ONNX Runtime and by the policy itself in turn, and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=117_000)
    parser.add_argument("--features", type=int, nargs="+", default=[8, 44])
    parser.add_argument("--actions", type=int, default=25)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--ask", help="the address of a running server (for the process that asks)")
    asked = parser.parse_args()
    if asked.ask:
        generate(asked.ask, asked.rate, asked.seconds, asked.features[0], asked.connections)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers end, too
    for features in asked.features:
        policy = network_policy(logs_of(asked.steps // 13 * 13, features, asked.actions), "q100")
        print(f"{features} features, {asked.steps:,} logged steps, {asked.actions} actions", flush=True)
        with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
            policy.save(Path(folder) / "policy")
            running = {name: servers.enter_context(served(f"{folder}/policy", name, features)) for name in WAYS}
            used: dict[str, list[float]] = {name: [] for name in WAYS}
            for _ in range(asked.repeats):
                for name, (address, pid) in running.items():
                    print(f" {name}", flush=True)
                    used[name].append(_used(asked, features, address, pid))
        for name, spent in used.items():
            print(
                f" {name}: {np.median(spent):.2f} ms of processor time for each ({min(spent):.2f} to {max(spent):.2f})"
            )
        ratios = np.array(used["runtime"]) / np.array(used["policy"])
        print(
            f" ratio {np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f}), at load "
            f"{os.getloadavg()[0]:.1f}",
            flush=True,
        )


WAYS = {  # how a server is started: as users do, and as where ONNX Runtime is not installed
    "runtime": "",
    "policy": "import poela.serving.runtime as runtime; runtime.PACKAGES = ('no_such_package',); ",
}


@contextmanager
def served(folder: str, way: str, features: int) -> Iterator[tuple[str, int]]:
    """The address and the process of a server, which ends with the block."""
    start = f"{WAYS[way]}from poela.cli import main; main(['serve', {folder!r}, '--port', '0', '--quiet'])"
    server = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        told = ""
        while "http://" not in told:
            line = server.stdout.readline()
            assert line, told
            told += line
        address = "http://127.0.0.1:" + told.rpartition("127.0.0.1:")[2].split()[0]
        httpx.post(f"{address}/v1/decide", json=_case(features)).raise_for_status()  # which builds the searches
        yield address, server.pid
    finally:
        server.terminate()
        server.wait()


def _used(asked: argparse.Namespace, features: int, address: str, pid: int) -> float:
    """Milliseconds of processor time that the server used for each case."""
    before = _processor_seconds(pid)
    given = ["--rate", asked.rate, "--seconds", asked.seconds, "--connections", asked.connections]
    subprocess.run(
        [sys.executable, __file__, "--ask", address, "--features", str(features), *map(str, given)], check=True
    )
    return 1000 * (_processor_seconds(pid) - before) / (asked.rate * asked.seconds)


def _case(features: int) -> dict[str, object]:
    return {"cases": [{"id": 0, "step": 0, "features": {f"x{place}": 0.0 for place in range(features)}}]}


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
