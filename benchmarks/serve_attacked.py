"""How long 32 clients wait for `poela serve`, alone and beside one attacker of each kind, in turns on one server.

OMP_NUM_THREADS=1 python benchmarks/serve_attacked.py --alone 120 --beside 120 --out build/attacked.jsonl

With 16 cores, four kinds at once, each with a server, clients and an attacker on four cores of their own; this call
takes 5 minutes, and three more, with `--skip 1`, `--skip 2` and `--skip 3`, do the other kinds:

export OMP_NUM_THREADS=1
for i in 0 1 2 3; do taskset -c $((4*i))-$((4*i+3)) python benchmarks/serve_attacked.py \\
  --part $i/4 --most 1 --skip 0 --out build/attacked.$i.jsonl & done; wait

A row of JSON for each kind, and one of how the server ended; exits with 1 where the 99th percentile beside an attacker
is more than three times that alone. Everything stays on this machine: clients and attackers have loopback addresses of
their own. Each attacker's requests are bounded in number, and all end with the script.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from export_speed import network_policy
from nearest_actions import logs_of
from stored_rows import commit

FEATURES = 8
HEAD = b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
MOST_TIMES = 3.0  # as long as alone
PAUSE = 0.2  # seconds between the requests of a client


def case(number: int, step: int = 0) -> dict[str, Any]:
    """One case."""
    return {"id": number, "step": step, "features": {f"x{place}": 0.1 * (number % 7) for place in range(FEATURES)}}


def posted(path: str, cases: int, step: int = 0) -> bytes:
    """A request as it is sent."""
    body = json.dumps({"cases": [case(number, step) for number in range(cases)]}).encode()
    return HEAD.replace(b"/v1/decide", path.encode()) + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def connected(port: int, kind: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of an attacker of this kind."""
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.2.{1 + kind}", 0))


async def repeated(port: int, kind: int, message: bytes, connections: int, read: bool = True) -> None:
    """Send the same again and again, over some connections."""

    async def one() -> None:
        for _ in range(2000):
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await connected(port, kind)
                for _ in range(2000):
                    writer.write(message)
                    await writer.drain()
                    if read and not await reader.read(1 << 20):
                        break
                writer.close()
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(connections)))


async def slowly(port: int, kind: int, message: bytes) -> None:
    """Send little, a byte at a time, over many connections."""

    async def one() -> None:
        for _ in range(1000):
            with suppress(OSError):
                _, writer = await connected(port, kind)
                writer.write(message)
                for _ in range(1000):
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.5)
            await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(150)))


async def flooded(port: int, kind: int) -> None:
    """Open connections and leave them alone, as many as one may, and begin again."""
    for _ in range(1000):
        writers = []
        for _ in range(400):
            with suppress(OSError):
                writers.append((await connected(port, kind))[1])
        await asyncio.sleep(0.5)
        for writer in writers:
            writer.close()


ODD_HOST = b"GET /v1/policy HTTP/1.1\r\nHost: [::1].evil.com\r\n\r\n"
TWICE = b'{"cases": [], "cases": [' + b'{"a": 1, "a": 2}, ' * 200 + b"{}]}"
REPEATED = HEAD + b"Content-Length: %d\r\n\r\n" % len(TWICE) + TWICE
UPGRADE = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ATTACKS: dict[str, Any] = {
    "large steps": lambda port, kind: repeated(port, kind, posted("/v1/decide", 100, 1000), 4),
    "large bodies": lambda port, kind: repeated(
        port, kind, HEAD + b"Content-Length: 1000000\r\n\r\n" + b"[" * 10**6, 4
    ),
    "explanations": lambda port, kind: repeated(port, kind, posted("/v1/explain", 1), 8),
    "unfinished headers": lambda port, kind: slowly(port, kind, HEAD + b"X-A: "),
    "unfinished bodies": lambda port, kind: slowly(port, kind, HEAD + b"Content-Length: 100000\r\n\r\n"),
    "upgrades": lambda port, kind: repeated(port, kind, UPGRADE, 4),
    "unread answers": lambda port, kind: repeated(port, kind, posted("/v1/decide", 100), 2, read=False),
    "many health checks": lambda port, kind: repeated(port, kind, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 8),
    "connection flood": lambda port, kind: flooded(port, kind),
    "odd hosts": lambda port, kind: repeated(port, kind, ODD_HOST, 8),
    "repeated keys": lambda port, kind: repeated(port, kind, REPEATED, 8),
    "no JSON": lambda port, kind: repeated(port, kind, HEAD + b"Content-Length: 4\r\n\r\n{{{{", 8),
}


def attack(port: int, name: str) -> None:
    """One attacker, in a process of its own."""
    with suppress(KeyboardInterrupt):
        asyncio.run(ATTACKS[name](port, list(ATTACKS).index(name)))


async def clients(port: int, seconds: float, count: int) -> list[float]:
    """Seconds that each request of each client took."""
    taken: list[float] = []
    # Without TLS, whose certificates would be read for every client.
    ways = [httpx.AsyncHTTPTransport(verify=False, local_address=f"127.0.1.{1 + number}") for number in range(count)]
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        transport = ways[number]
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            await asyncio.sleep(PAUSE * number / count)
            while time.perf_counter() < end:
                started = time.perf_counter()
                answer = await client.post("/v1/decide", json={"cases": [case(number)]})
                assert answer.status_code == 200, answer.text
                taken.append(time.perf_counter() - started)
                await asyncio.sleep(PAUSE)

    await asyncio.gather(*(one(number) for number in range(count)))
    return taken


def p99(taken: list[float]) -> float:
    """The slowest but one in a hundred, in milliseconds."""
    return 1000 * float(np.percentile(taken, 99))


def compare(port: int, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """The clients without an attacker of this kind, and beside one."""
    alone = asyncio.run(clients(port, asked.alone, asked.clients))
    attacker = multiprocessing.Process(target=attack, args=(port, name), daemon=True)
    attacker.start()
    try:
        beside = asyncio.run(clients(port, asked.beside, asked.clients))
    finally:
        attacker.terminate()
        attacker.join()
    row = {"kind": name, "commit": commit(), "receipts": asked.receipts, "clients": asked.clients}
    row |= {"cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1)}
    for what, taken in (("alone", alone), ("beside", beside)):
        row |= {f"{what}_requests": len(taken), f"{what}_p50_ms": round(1000 * float(np.median(taken)), 1)}
        row[f"{what}_p99_ms"] = round(p99(taken), 1)
    return {**row, "times": round(p99(beside) / p99(alone), 2)}


def asked_for() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", type=float, default=120, help="seconds of each kind without an attacker")
    parser.add_argument("--beside", type=float, default=120, help="seconds of each kind beside one")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--steps", type=int, default=13_000)
    parser.add_argument("--kinds", nargs="*", choices=ATTACKS, default=[*ATTACKS])
    parser.add_argument("--part", default="0/1", help="0/4: every fourth kind, from the first")
    parser.add_argument("--skip", type=int, default=0, help="kinds of that part")
    parser.add_argument("--most", type=int, default=None, help="kinds of that part")
    parser.add_argument("--receipts", action="store_true", help="with receipts of every decision")
    parser.add_argument("--out", type=Path, default=None, help="file that rows of JSON are added to")
    return parser.parse_args()


def noted(row: dict[str, Any], out: Path | None) -> None:
    """Print a row, and keep it."""
    print(json.dumps(row), flush=True)
    if out is not None:
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


@contextmanager
def served(folder: Path, asked: argparse.Namespace) -> Iterator[int]:
    """The port of a server of its own, which ends with the block."""
    network_policy(logs_of(asked.steps // 13 * 13, FEATURES, 5), "q100").save(folder / "policy")
    command = [sys.executable, "-m", "poela", "serve", f"{folder}/policy", "--port", "0", "--quiet"]
    command += ["--receipts", f"{folder}/receipts"] if asked.receipts else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = ""
        while "http://" not in told:
            told += server.stdout.readline()
        try:
            yield int(told.rpartition("127.0.0.1:")[2].split()[0])
        finally:
            started = time.perf_counter()
            server.terminate()
            server.wait(30)
            ended = {"kind": "SIGTERM", "commit": commit(), "seconds": round(time.perf_counter() - started, 1)}
            noted({**ended, "exit_code": server.returncode}, asked.out)


def main() -> int:
    """Each kind beside the clients, with a time without before it."""
    asked = asked_for()
    first, parts = map(int, asked.part.split("/"))
    kinds = asked.kinds[first::parts][asked.skip :][: asked.most]
    rows = []
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), asked) as port:
        asyncio.run(clients(port, 1, asked.clients))
        for name in kinds:
            rows.append(compare(port, name, asked))
            noted(rows[-1], asked.out)
    return int(any(row["times"] > MOST_TIMES for row in rows))


if __name__ == "__main__":
    sys.exit(main())
