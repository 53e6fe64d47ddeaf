"""Objects as documents and arrays: alone and together they come back as they were, and odd documents are refused."""

import json
import random
from typing import Any

import numpy as np
import pytest
from tests.robustness.fuzz_studies import tampered

from poela.core.stored import Reading, Stored, fingerprint_of_stored, together


def path() -> list[Stored]:
    """Four policies whose rule is the same, with weights of their own, one of them twice."""
    rule = Stored("rule", {"reach": 0.5}, {"contexts": np.arange(6, dtype=np.float32).reshape(3, 2)})
    steps = {f"step_{step}": Stored("ridge", {}, {"center": np.array(float(step))}) for step in range(3)}
    values = Stored("values", {}, {"none": np.zeros((0, 2)), "sure": np.array([True, False])}, steps)
    return [
        Stored("policy", {"dial": dial}, {"w": np.full(2, dial)}, {"rule": rule, "values": values}) for dial in DIALS
    ]


DIALS = (0.5, 1.0, 2.0, 1.0)


def reading(document: Any, arrays: Any) -> list[Stored]:
    document = json.loads(json.dumps(document))
    reader = Reading(arrays.__getitem__, document["parts"])
    return [reader.stored(number) for number in document["objects"]]


def test_a_path_comes_back_and_what_its_policies_share_stands_once() -> None:
    policies = path()
    document, arrays = together(policies)
    assert list(map(fingerprint_of_stored, reading(document, arrays))) == list(map(fingerprint_of_stored, policies))
    assert len(document["parts"]) == 3 + 5  # policies that differ, their rule, their values and its three steps
    shapes = sorted((name.partition(".")[0], array.shape) for name, array in arrays.items())
    assert shapes == [("center", (3,)), ("contexts", (1, 3, 2)), ("none", (1, 0, 2)), ("sure", (1, 2)), ("w", (3, 2))]


def test_what_is_kept_apart_is_asked_for_by_its_key() -> None:
    large = {"contexts": np.arange(6, dtype=np.float32).reshape(3, 2)}
    document, arrays = together(path(), lambda part: "key" if part.kind == "rule" else None)
    assert not any(name.startswith("contexts") for name in arrays)
    reader = Reading(arrays.__getitem__, document["parts"], {"key": large}.__getitem__)
    assert fingerprint_of_stored(reader.stored(document["objects"][0])) == fingerprint_of_stored(path()[0])


EMPTY = {"kind": "x", "settings": {}, "arrays": {}}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([{**EMPTY, "parts": {"a": 0}}], "nested more than"),
        (
            [*({**EMPTY, "parts": dict.fromkeys("abcdefgh", n + 1)} for n in range(19)), {**EMPTY, "parts": {}}],
            "too many",
        ),
        ([{**EMPTY, "parts": {"a": 1}}], "exactly the fields"),
        ([{**EMPTY, "parts": {"a": -1}}], "exactly the fields"),
        ([{**EMPTY, "parts": {"a": True}}], "exactly the fields"),
        ([{**EMPTY, "arrays": {"a": ["w.0", 3]}, "parts": {}}], "'a' is missing"),
        ([{**EMPTY, "arrays": {"a": ["w.0", -1]}, "parts": {}}], "'a' is missing"),
        ([{**EMPTY, "arrays": {"a": ["w.0", True]}, "parts": {}}], "'a' is missing"),
        ([{**EMPTY, "arrays": {"a": [["w.0"], 0]}, "parts": {}}], "'a' is missing"),
        ([{**EMPTY, "arrays": {"../a": ["w.0", 0]}, "parts": {}}], "is no name"),
    ],
)
def test_odd_documents_are_refused_in_a_moment(parts: list[Any], words: str) -> None:
    arrays = {"w.0": np.zeros((3, 2))}
    with pytest.raises(ValueError, match=words):
        Reading(arrays.__getitem__, parts).stored(0)


def test_tampered_paths_are_read_or_refused() -> None:
    document, arrays = together(path())
    rng = random.Random(0)
    refused = 0
    for _ in range(500):
        try:
            reading(tampered(json.loads(json.dumps(document)), rng), arrays)
        except (ValueError, KeyError, TypeError):  # as for the store
            refused += 1
    assert refused > 100
