"""When a default study says first what is shown so far: seconds to the first line and to the end, and their ratio.

    python benchmarks/early_answer.py [--episodes 2000] [--jobs 2]

On tumor logs, by the command line in a process of its own, with all that it reads and imports.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POELA = (sys.executable, "-m", "poela")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        logs, study = str(Path(home) / "logs.parquet"), str(Path(home) / "study")
        simulated = [*POELA, "simulate", "tumor", "--episodes", str(options.episodes), "--seed", "0", "--out", logs]
        subprocess.run(simulated, check=True, stdout=subprocess.DEVNULL)
        learned, first = [*POELA, "learn", logs, "--out", study, "--jobs", str(options.jobs)], 0.0
        started = time.monotonic()
        with subprocess.Popen(learned, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr or ():
                now = time.monotonic() - started
                first = first or now * ("So far" in line)
                print(f"{now:7.1f} s  {line.rstrip()}", flush=True)
        whole = time.monotonic() - started
    print(f"first answer after {first:.1f} s of {whole:.1f} s: {first / whole:.2f}")


if __name__ == "__main__":
    main()
