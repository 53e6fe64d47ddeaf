"""One way of measuring for all benchmarks of speed: each case in a process of its own, processor seconds, peak memory.

A script says what is measured by a `SPEED` (see `read_logs.py`); `bench.py` runs all of them.
"""

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

Work = Callable[[], object]
Prepared = Callable[[int], Work]  # from a size to the work that is timed; what comes before it is not
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Speed:
    """What is measured: our way, a named alternative and the least that any way must do, at growing sizes."""

    case: str  # in words, with what the size counts
    ours: Prepared
    alternative: Prepared | None = None
    alternative_name: str = ""
    alternative_part: int = 1  # of the work, of which the alternative does one; its seconds count so many times
    floor: Prepared | None = None
    floor_name: str = ""
    sizes: tuple[int, ...] = ()  # three of them
    large: tuple[int, ...] = ()


def measure(script: str, way: str, size: int) -> dict[str, float]:
    """Processor seconds and peak MB of one way at one size, in a process of its own with one thread."""
    command = [sys.executable, str(HERE / "measuring.py"), script, way, str(size)]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, env=os.environ | one_thread, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def growth(sizes: list[float], seconds: list[float]) -> float | None:
    """The exponent e of seconds ~ size^e, by least squares of logarithms; None below two sizes.

    >>> round(growth([10, 100, 1000], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    x, y = [log(size) for size in sizes], [log(max(second, 1e-9)) for second in seconds]
    if len(set(x)) < 2:
        return None
    middle, level = sum(x) / len(x), sum(y) / len(y)
    above = sum((one - middle) * (other - level) for one, other in zip(x, y, strict=True))
    return above / sum((one - middle) ** 2 for one in x)


def benchmark(script: str, large: bool = False, sizes: tuple[int, ...] = ()) -> dict[str, Any]:
    """All sizes of one script, as its file holds them."""
    speed = speed_of(script)
    rows = []
    for size in sizes or (speed.large if large else speed.sizes):
        ours = measure(script, "ours", size)
        others = {
            way: measure(script, way, size)["seconds"] * times if getattr(speed, way) else None
            for way, times in (("alternative", speed.alternative_part), ("floor", 1))
        }
        scaled = f" (on 1 of {speed.alternative_part} parts, scaled up)" if speed.alternative_part > 1 else ""
        names = {"alternative_name": speed.alternative_name + scaled, "floor_name": speed.floor_name}
        rows.append(
            {"case": speed.case, "size": size, "ours": ours["seconds"], **others, **names, "peak_mb": ours["peak_mb"]}
        )
    exponent = growth([row["size"] for row in rows], [row["ours"] for row in rows])
    return {"benchmark": script, "rows": rows, "exponent": exponent}


def speed_of(script: str) -> Speed:
    """The `SPEED` of a script."""
    sys.path[:0] = [] if str(HERE) in sys.path else [str(HERE)]
    found: Speed = importlib.import_module(script).SPEED
    return found


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _run_here(script: str, way: str, size: int) -> None:
    work = getattr(speed_of(script), way)(size)
    seconds: list[float] = []
    while len(seconds) < 2 and sum(seconds) < 5:  # the first pays for new memory: the shortest counts
        started = _processor_seconds()
        work()
        seconds.append(_processor_seconds() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": min(seconds), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    _run_here(sys.argv[1], sys.argv[2], int(sys.argv[3]))
