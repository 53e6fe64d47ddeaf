"""A run as one file: safetensors, whose header holds the run's record and describes the policies of its path.

Arrays that several policies of a run have in common are stored once. Large arrays of parts, such as the logged contexts
of a radius rule, are common to many runs: they are set apart, by the hash of their content.

Finished runs of one path may stand together in one file, each as the bytes of its own.

Studies of version 0.2 have the record in a JSON file of its own, and set the arrays of all parts apart.
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
from poela.core.reading import LARGEST_JSON, parsed_json, regular_head
from poela.core.storage import Stored, canonical, read_bytes

DEEPEST = 20  # parts within parts of a policy
LARGE = 1 << 18  # bytes of a part's arrays from which on they are set apart
RECORD, POLICIES = "record", "policies"  # in the header's metadata
ALIGNMENT = 8
LENGTH = 8  # bytes that say how long the header is
Known = dict[tuple[tuple[str, int], ...], str]  # checksums of parts, by the very arrays that they are made of


@dataclass(frozen=True, eq=False)
class PackedPolicies:
    """The policies of one run as bytes: their own arrays, and the shared ones by content."""

    own: bytes  # safetensors; its metadata describe the policies
    shared: Mapping[str, bytes]  # safetensors by the hash of their bytes


def packed(policies: Sequence[Stored], beside: Mapping[str, NDArray[Any]] | None = None) -> PackedPolicies:
    """Policies as bytes, with further arrays beside them."""
    own: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(array) for name, array in (beside or {}).items()}
    shared: dict[str, bytes] = {}
    known: Known = {}
    documents = [_pack(policy, own, shared, known, outermost=True) for policy in policies]
    return PackedPolicies(_safetensors(own, {POLICIES: json.dumps(documents)}), shared)


def _pack(
    stored: Stored,
    own: dict[str, NDArray[Any]],
    shared: dict[str, bytes],
    known: Known,
    *,
    outermost: bool = False,
) -> dict[str, Any]:
    from safetensors.numpy import save

    document: dict[str, Any] = {"kind": stored.kind, "settings": dict(stored.settings)}
    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(stored.arrays.items())}
    if not outermost and sum(array.nbytes for array in arrays.values()) >= LARGE:
        # The policies of a run mostly have the very same parts, which are read through once.
        same = tuple((name, id(array)) for name, array in stored.arrays.items())
        if same not in known:
            content = save(arrays)
            known[same] = sha256(content)
            shared[known[same]] = content
        document["shared"] = known[same]
    else:
        keys = {name: _key(array) for name, array in arrays.items()}
        own.update({keys[name]: array for name, array in arrays.items()})
        document["arrays"] = keys
    return {**document, "parts": {name: _pack(part, own, shared, known) for name, part in stored.parts.items()}}


def _key(array: NDArray[Any]) -> str:
    return sha256(array.tobytes() + repr((array.dtype.str, array.shape)).encode())


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


def together(runs: Mapping[str, bytes]) -> bytes:
    """One file of several runs, from their own files by their ids.

    >>> content = run_file({"status": "failed"}, None)
    >>> together({"a-5": content}).count(content)
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


class RunArrays:
    """The arrays of a run and what describes them, from bytes: as an open safetensors file has them."""

    def __init__(self, content: bytes) -> None:
        from safetensors.numpy import load

        self._arrays, self._header = load(content), _split(content)[0]

    def keys(self) -> list[str]:
        """The names of the arrays."""
        return list(self._arrays)

    def metadata(self) -> dict[str, str]:
        """What describes them."""
        found: dict[str, str] = self._header["__metadata__"]
        return found

    def get_tensor(self, name: str) -> NDArray[Any]:
        """One of them."""
        found: NDArray[Any] = self._arrays[name]
        return found


def policy_in(file: Any, number: int, shared: Path) -> Stored:
    """A policy of an open safetensors file, whose shared arrays are in this folder."""
    document = json.loads(file.metadata()[POLICIES])[number]
    return _unpacked(document, file, shared, 0)


def _unpacked(document: Mapping[str, Any], file: Any, shared: Path, depth: int) -> Stored:
    if depth > DEEPEST:
        raise ValueError("parts within parts without end")
    arrays = {name: file.get_tensor(key) for name, key in document.get("arrays", {}).items()}
    if document.get("shared") is not None:
        arrays = _shared_arrays(shared_path(shared, document["shared"]), document["shared"])
    parts = {name: _unpacked(inner, file, shared, depth + 1) for name, inner in document["parts"].items()}
    return Stored(document["kind"], document["settings"], arrays, parts)


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
