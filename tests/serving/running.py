"""A server as users start it, in a process of its own."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.warm import warm


@dataclass(frozen=True)
class Running:
    process: "subprocess.Popen[str]"
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(policy: Path, *arguments: str, token: str | None = None, python: str | None = None) -> Iterator[Running]:
    """`poela serve`, until the block ends; what it logged is then in a file beside the policy.

    Forked from a process that has imported everything, unless a Python is named.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("POELA_TOKEN", None)
    if token is not None:
        environment["POELA_TOKEN"] = token
    with (policy.parent / "server.log").open("w") as log:
        process = subprocess.Popen(
            [python or str(warm().python), "-m", "poela", "serve", str(policy), "--port", "0", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        try:
            told = ""
            while not (found := re.search(r"http://\S+?:(\d+)", told)):
                line = process.stdout.readline()
                assert line, (policy.parent / "server.log").read_text()
                told += line
            yield Running(process, int(found.group(1)))
        finally:
            process.terminate()
            process.wait(120)
            process.stdout.close()
