"""Processor seconds of one study by one thread: 17 candidates of six learners, two restarts, 2000 tumor episodes.

    OMP_NUM_THREADS=1 python benchmarks/study_cpu.py [--cross]

For two commits: the same with PYTHONPATH set to the other one's src. `--cross`: five folds instead of one split.
"""

import argparse
import tempfile
import time
from pathlib import Path

import poela
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate
from poela.studies.learning import learn

SPLIT = {"shares": (0.5, 0.3, 0.2)}


def candidates() -> list[Candidate]:
    """What a default study tried before paths from cautious to bold."""
    return [
        *(Candidate("fittedq", {"history": h, "backup": b}) for h in (0, 2) for b in ("max", "soft")),
        Candidate("clone", {}),
        *(Candidate("poela", {"radius": r, "variance_penalty": v}) for r in ("q75", "q90", "q97") for v in (0.1, 1.0)),
        *(Candidate("pocrm", {"variance_penalty": v}) for v in (0.1, 1.0)),
        *(Candidate("bcq", {"threshold": t}) for t in (0.1, 0.3)),
        *(Candidate("pql", {"threshold": t, "density": "nearest"}) for t in (0.1, 0.3)),
    ]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cross", action="store_true")
    how = {} if parser.parse_args().cross else SPLIT
    logs = simulate("tumor", episodes=2000, seed=0)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as home:
        learn(logs, candidates=candidates(), restarts=2, out=Path(home) / "study", jobs=1, backend="inline", **how)
    print(f"{time.process_time() - started:.1f} s of the processor, {Path(poela.__file__).parent}")


if __name__ == "__main__":
    main()
