"""A run as one file: safetensors, whose header holds the run's record and describes the policies of its path.

What several policies of a run have in common is stored once, and what differs as the rows of one array. Large arrays of
parts, such as the logged contexts of a radius rule, are common to many runs: they are set apart, by the hash of their
content.

Finished runs of one path may stand together in one file, each as the bytes of its own.

Studies of version 0.2 have the record in a JSON file of its own, and set the arrays of all parts apart; until the first
days of version 0.3 each policy was described by itself, and called its arrays by their hashes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError
from poela.core.files import sha256
from poela.core.paths import place
from poela.core.reading import LARGEST_JSON, parsed_json, regular_head, unpacked_arrays
from poela.core.storage import read_bytes
from poela.core.stored import Arrays, Reading, Stored, canonical, together

LARGE = 1 << 20  # bytes of a part's arrays from which on they are set apart
RECORD, POLICIES = "record", "policies"  # in the header's metadata
ALIGNMENT = 8
LENGTH = 8  # bytes that say how long the header is


@dataclass(frozen=True, eq=False)
class PackedPolicies:
    """The policies of one run as bytes: their own arrays, and the shared ones by content."""

    own: bytes  # safetensors; its metadata describe the policies
    shared: Mapping[str, bytes]  # safetensors by the hash of their bytes


def packed(policies: Sequence[Stored], beside: Arrays | None = None) -> PackedPolicies:
    """Policies as bytes, with further arrays beside them."""
    from safetensors.numpy import save

    shared: dict[str, bytes] = {}
    known: dict[tuple[tuple[str, int], ...], str] = {}  # checksums, by the very arrays

    def apart(part: Stored) -> str | None:
        """The checksum of a part's arrays, where they are large enough to be common to runs."""
        if sum(array.nbytes for array in part.arrays.values()) < LARGE:
            return None
        # The policies of a run mostly have the very same parts, which are read through once.
        same = tuple((name, id(array)) for name, array in part.arrays.items())
        if same not in known:
            content = save({name: np.ascontiguousarray(array) for name, array in sorted(part.arrays.items())})
            known[same] = sha256(content)
            shared[known[same]] = content
        return known[same]

    document, arrays = together(policies, apart)
    own = {name: np.ascontiguousarray(array) for name, array in {**arrays, **(beside or {})}.items()}
    return PackedPolicies(_safetensors(own, {POLICIES: json.dumps(document)}), shared)


def run_file(record: Mapping[str, Any], policies: PackedPolicies | None) -> bytes:
    """The file of a run, from its record as a document.

    >>> content = run_file({"status": "failed"}, None)
    >>> opened(content)[1]
    {'status': 'failed'}
    """
    own = _safetensors({}, {}) if policies is None else policies.own
    header, payload = _split(own)
    header["__metadata__"] = {**header.get("__metadata__", {}), RECORD: json.dumps(record)}
    return _joined(header, payload)


def opened(content: bytes) -> tuple[bytes, Any]:
    """The inverse of `run_file`: the packed policies, and the record as a document."""
    header, payload = _split(content)
    record = parsed_json(header["__metadata__"].pop(RECORD).encode())
    return _joined(header, payload), record


def record_in(path: Path) -> Any:
    """The record in the file of a run; None in a file of version 0.2, which has none."""
    header = _header(regular_head(path, LENGTH, LARGEST_JSON))
    metadata = header.get("__metadata__", {})
    return parsed_json(metadata[RECORD].encode()) if RECORD in metadata else None


def gathered(runs: Mapping[str, bytes]) -> bytes:
    """One file of several runs, from their own files by their ids.

    >>> content = run_file({"status": "failed"}, None)
    >>> gathered({"a-5": content}).count(content)
    1
    """
    from safetensors.numpy import save

    return save({run_id: np.frombuffer(content, np.uint8) for run_id, content in runs.items()})


def runs_in(path: Path) -> dict[str, tuple[int, int]]:
    """The ids of the runs in a file of several, and where each begins and ends in it."""
    head = regular_head(path, LENGTH, LARGEST_JSON)
    try:
        places = {run_id: entry["data_offsets"] for run_id, entry in _header(head).items() if run_id != "__metadata__"}
        return {run_id: (len(head) + int(start), len(head) + int(end)) for run_id, (start, end) in places.items()}
    except (KeyError, TypeError, AttributeError):
        raise ValueError("its header is not valid") from None


def run_among(path: Path, ends: tuple[int, int]) -> bytes:
    """The file of one run, out of one of several."""
    with path.open("rb") as file:
        file.seek(ends[0])
        return file.read(ends[1] - ends[0])


class Run:
    """What the bytes of a run hold beside its record.

    >>> policies = packed([Stored("policy", {"dial": 1})], {"weights": np.ones(2)})
    >>> Run(policies.own).arrays["weights"]
    array([1., 1.])
    >>> Run(policies.own).policy(0, shared=Path()).settings
    {'dial': 1}
    """

    def __init__(self, own: bytes) -> None:
        self.arrays = unpacked_arrays(own)
        self._header = _split(own)[0]

    def policy(self, number: int, shared: Path) -> Stored:
        """One of its policies, whose shared arrays are in this folder."""

        def apart(key: str) -> Arrays:
            return _shared_arrays(shared_path(shared, key), key)

        document = json.loads(self._header["__metadata__"][POLICIES])
        objects, parts = (document, ()) if isinstance(document, list) else (document["objects"], document["parts"])
        return Reading(self.arrays.__getitem__, parts, apart).stored(objects[number])


def _shared_arrays(path: Path, checksum: str) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load

    content = read_bytes(path)
    if sha256(content) != checksum:
        raise InputError(f"{place(path)} is damaged or was changed: its checksum does not match")
    return load(content)


def shared_path(folder: Path, key: str) -> Path:
    """The file of shared arrays with this checksum."""
    if len(key) != 64 or set(key) - set("0123456789abcdef"):
        raise ValueError("no checksum")
    return folder / f"{key}.safetensors"


def _safetensors(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Arrays as the bytes of a file; its header is written in one way only, so that `opened` can undo `run_file`."""
    from safetensors.numpy import save

    # safetensors needs one array at least.
    return _joined(*_split(save(dict(arrays) or {"none": np.zeros(1)}, dict(metadata))))


def _header(head: bytes) -> dict[str, Any]:
    header = parsed_json(head[LENGTH:])
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
        raise ValueError("its header is not valid")
    return header


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    end = LENGTH + int.from_bytes(content[:LENGTH], "little")
    return _header(content[:end]), content[end:]


def _joined(header: Mapping[str, Any], payload: bytes) -> bytes:
    text = canonical(header)
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH, "little") + text + payload
