"""Run as a script: processes save different objects into one folder, so many times each, while others read it.

Prints one line of JSON: how often was saved and read, what went wrong, and what is in the folder at the end.
"""

import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from poela.core.storage import Stored, load_stored, save_stored

WRITERS, READERS = 3, 2


def save(folder: Path, number: int) -> None:
    stored = Stored("thing", {"number": number}, {"x": np.full(1000, float(number))})
    save_stored(folder, stored, file_format="test", version=1, notes={}, overwrite=True)


def read(folder: Path, number: int) -> None:
    stored, _ = load_stored(folder, file_format="test", version=1)
    assert (stored.arrays["x"] == stored.settings["number"]).all()


def repeat(work: Callable[[int], None], is_over: Callable[[int], bool], pipe: int) -> None:
    done, problem = 0, ""
    try:
        while not is_over(done):
            work(done)
            done += 1
    except BaseException as error:
        problem = repr(error)
    os.write(pipe, json.dumps([done, problem]).encode() + b"\n")
    os._exit(0)


def main(folder: Path, times: int) -> None:
    """Readers go on until no writer is left: none holds the other end of their pipe any longer."""
    save(folder, 0)
    ours, theirs = os.pipe()
    left, held = os.pipe()
    for child in range(WRITERS + READERS):
        if os.fork() == 0:
            if child < WRITERS:
                repeat(lambda turn, child=child: save(folder, 10 * turn + child), lambda done: done == times, theirs)  # type: ignore[misc]
            os.close(held)
            repeat(
                lambda turn: read(folder, turn),
                lambda done: done > 0 and bool(select.select([left], [], [], 0)[0]),
                theirs,
            )
    os.close(held)
    for _ in range(WRITERS + READERS):
        os.wait()
    os.close(theirs)
    with os.fdopen(ours) as answers:
        told = [json.loads(line) for line in answers]
    read(folder, 0)
    print(json.dumps({"told": told, "left": sorted(os.listdir(folder))}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
