"""Policy files changed at random, with the right checksums: each loads and works, or is refused in one sentence.

`python -m tests.robustness.fuzz_policies --seconds 600 --seed 1` looks for more than the test has time for.
"""

import argparse
import copy
import math
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.robustness.forging import SLOWEST, Forged, at_most, base, bases, check_works, checked_words

from poela.core.errors import InputError
from poela.policies.storage import load_policy

ODD_VALUES: list[Any] = [
    *(None, True, False, "", "x", "nan", "inf", "-1", "0", "../x", "\ud800", "1e999", "standard", "gru", "mlp"),
    *(0, 1, -1, 2, 3, 7, 10**9, 2**31, 2**63, -(2**63), 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1e-300, 1e-30, 1e30, 1e300, -1e300, 5e-324),
    *([], [None], [1, "a"], [[]], ["a", "a"], {}, {"a": {}}, [0], [1, 0], [10**9], [1.5]),
]
ODD_NUMBERS = [math.nan, math.inf, -math.inf, -1, 0, 1, 2, 1e-45, 1e-300, 1e30, 3e38, 1e60, 1e300, 2**31 - 1, 2**62]
TYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint32, np.uint8, np.bool_]


def fuzz(seconds: float, seed: int, most: float = math.inf) -> Counter[str]:
    """How many files were refused, how many refused to act on a log, and how many worked."""
    rng = np.random.default_rng(seed)
    bases()  # made before the clock starts
    end, counts = time.monotonic() + seconds, Counter[str]()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        while time.monotonic() < end and counts.total() < most:
            # Each case has a seed of its own, so that it can be made again alone.
            case = int(rng.integers(2**62))
            try:
                counts[tried(case, Path(folder) / "policy")] += 1
            except BaseException as error:
                error.add_note(f"this was case {case}, number {counts.total()} of seed {seed}")
                raise
    return counts


def tried(case: int, directory: Path) -> str:
    """What became of one changed file."""
    rng = np.random.default_rng(case)
    forged = changed(rng)
    forged.write(directory, _odd_document(rng) if rng.random() < 0.1 else None)
    with at_most(SLOWEST):
        policy, said = _loaded(directory)
        if policy is None:
            checked_words(said, directory)
            return "refused"
        try:
            check_works(policy)
        except InputError:
            return "refused to act"
    return "worked"


def _loaded(directory: Path) -> tuple[Any, str]:
    try:
        return load_policy(directory), ""
    except InputError as error:
        return None, str(error)


def changed(rng: np.random.Generator) -> Forged:
    """A policy of any kind with a few changes anywhere."""
    forged = base(str(rng.choice(bases())))
    for _ in range(rng.integers(1, 4)):
        node = _any_part(forged, rng)
        changes: list[Callable[[Forged, np.random.Generator], None]] = [_odd_setting, _odd_array, _other_parts]
        changes[rng.choice(3, p=[0.45, 0.4, 0.15])](node, rng)
    return forged


def _any_part(forged: Forged, rng: np.random.Generator) -> Forged:
    found = [forged]
    for part in found:
        found += part.parts.values()
    return found[rng.integers(len(found))]


def _any_place(container: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A dictionary or list within this one, and one of its keys."""
    while True:
        keys: list[Any] = list(container) if isinstance(container, dict) else list(range(len(container)))
        key = keys[rng.integers(len(keys))]
        inner = container[key]
        if not (isinstance(inner, dict | list) and inner) or rng.random() < 0.3:
            return container, key
        container = inner


def _odd_value(container: Any, rng: np.random.Generator) -> None:
    """Replace, delete, scale, repeat, grow or shrink one value, or put another one in its place."""
    holder, key = _any_place(container, rng)
    elsewhere, other = _any_place(container, rng)
    value, another = holder[key], copy.deepcopy(elsewhere[other])
    choice = rng.integers(6)
    if choice == 0:
        del holder[key]
    elif choice == 1:
        holder[key] = another
    elif choice == 2 and isinstance(value, int | float):
        holder[key] = value * rng.choice([-1, 2, 0.5]) if isinstance(value, float) else value + int(rng.integers(-2, 3))
    elif choice == 3 and isinstance(value, list) and value:
        holder[key] = value[:-1] if rng.random() < 0.5 else [*value, value[0]]
    elif choice == 4 and isinstance(value, dict):
        value[str(rng.choice(["x", "steps", "kind"]))] = another
    else:
        holder[key] = copy.deepcopy(ODD_VALUES[rng.integers(len(ODD_VALUES))])


def _odd_setting(node: Forged, rng: np.random.Generator) -> None:
    if isinstance(node.settings, dict) and node.settings and rng.random() < 0.98:
        _odd_value(node.settings, rng)
    elif node.arrays and rng.random() < 0.9:
        _odd_array(node, rng)
    else:
        node.settings = copy.deepcopy(ODD_VALUES[rng.integers(len(ODD_VALUES))])


def _odd_array(node: Forged, rng: np.random.Generator) -> None:
    if not node.arrays:
        return _odd_setting(node, rng)
    name = str(rng.choice(list(node.arrays)))
    array, choice = node.arrays.pop(name), rng.integers(8)
    if choice == 0:
        return None
    if choice == 1:
        node.arrays[str(rng.choice(["x", "a/b", "mean", *node.arrays]))] = array
    elif choice == 2 and node.arrays:
        other = str(rng.choice(list(node.arrays)))
        node.arrays[name], node.arrays[other] = node.arrays[other], array
    else:
        node.arrays[name] = _odd_numbers(array, int(choice), rng)
    return None


def _odd_numbers(array: NDArray[Any], choice: int, rng: np.random.Generator) -> NDArray[Any]:
    """Another type or shape, or some odd numbers."""
    with np.errstate(all="ignore"):
        if choice == 3:
            return array.astype(TYPES[rng.integers(len(TYPES))])
        if choice == 4:
            shapes = [array[:-1], array[:0], np.concatenate([array, array]), array.T, array[None], array.ravel()]
            return shapes[rng.integers(len(shapes))]
        odd = np.array(ODD_NUMBERS[rng.integers(len(ODD_NUMBERS))])
        found = array.copy()
        where = rng.random(array.shape) < rng.choice([1 / max(array.size, 1), 0.3, 1.0])
        if choice == 5:
            return np.where(where, rng.permutation(found.ravel()).reshape(found.shape), found)
        found[where] = odd.astype(array.dtype)
        return found


def _other_parts(node: Forged, rng: np.random.Generator) -> None:
    """Another kind, or parts lost, gained, renamed or taken from elsewhere."""
    elsewhere = _any_part(base(str(rng.choice(bases()))), rng)
    names = list(node.parts)
    choice = rng.integers(5)
    if choice == 0 or not names:
        node.kind = elsewhere.kind if rng.random() < 0.8 else ODD_VALUES[rng.integers(len(ODD_VALUES))]
    elif choice == 1:
        del node.parts[str(rng.choice(names))]
    elif choice == 2:
        node.parts[str(rng.choice(["x", "behavior", "step_2", "a/b", ""]))] = elsewhere
    elif choice == 3:
        first, second = rng.choice(names, 2)
        node.parts[first], node.parts[second] = node.parts[second], node.parts[first]
    else:
        node.parts[str(rng.choice(names))] = elsewhere if rng.random() < 0.7 else copy.deepcopy(node)


def _odd_document(rng: np.random.Generator) -> Callable[[dict[str, Any]], None]:
    return lambda body: _odd_value(body, rng)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--seed", type=int, default=0)
    chosen = arguments.parse_args()
    counts = fuzz(chosen.seconds, chosen.seed)
    print(f"{counts.total()} files: " + ", ".join(f"{number} {what}" for what, number in counts.items()))


if __name__ == "__main__":
    main()
