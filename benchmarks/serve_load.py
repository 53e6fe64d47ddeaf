"""Requests per second, and how long they take, of `poela serve` at the size of the sepsis cohort.

OMP_NUM_THREADS=1 python benchmarks/serve_load.py

The server is one process; a second one asks at a steady rate over some open connections, one case in each request, and
measures from the moment at which a request was due (so that a server that falls behind cannot hide it).
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
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
    """Serve policies of growing size, and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=117_000)
    parser.add_argument("--features", type=int, nargs="+", default=[8, 44])
    parser.add_argument("--actions", type=int, default=25)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--ask", help="the address of a running server (for the process that asks)")
    asked = parser.parse_args()
    if asked.ask:
        generate(asked.ask, asked.rate, asked.seconds, asked.features[0], asked.connections)
        return
    for features in asked.features:
        policy = network_policy(logs_of(asked.steps // 13 * 13, features, asked.actions), "q100")
        with tempfile.TemporaryDirectory() as folder:
            policy.save(Path(folder) / "policy")
            server = subprocess.Popen(
                [sys.executable, "-m", "poela", "serve", f"{folder}/policy", "--port", "0", "--quiet"],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert server.stdout is not None
            told = ""
            while "http://" not in told:
                told += server.stdout.readline()
            address = "http://127.0.0.1:" + told.rpartition("127.0.0.1:")[2].split()[0]
            print(f"{features} features, {asked.steps:,} logged steps, {asked.actions} actions", flush=True)
            httpx.post(f"{address}/v1/decide", json=_case(features)).raise_for_status()  # which builds the searches
            before = _processor_seconds(server.pid)
            given = ["--rate", asked.rate, "--seconds", asked.seconds, "--connections", asked.connections]
            subprocess.run(
                [sys.executable, __file__, "--ask", address, "--features", str(features), *map(str, given)], check=True
            )
            used = 1000 * (_processor_seconds(server.pid) - before) / (asked.rate * asked.seconds)
            print(
                f"  the server used {used:.2f} ms of processor time for each, at load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            server.terminate()
            server.wait()


def _case(features: int) -> dict[str, object]:
    return {"cases": [{"id": 0, "step": 0, "features": {f"x{place}": 0.0 for place in range(features)}}]}


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
