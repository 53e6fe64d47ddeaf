"""Records on disk: a dataclass as one JSON document with a checksum, every value checked as it is read."""

from pathlib import Path
from typing import TypeVar

from poela.core.errors import InputError
from poela.core.files import sha256, write_json
from poela.core.paths import place
from poela.core.storage import canonical, read_json
from poela.core.typed import from_plain, shown, to_plain

T = TypeVar("T")


def write_record(path: Path, record: T, *, file_format: str, version: int) -> T:
    """Write a dataclass as one JSON document with a checksum, atomically; returned is what `read_record` would give."""
    plain = to_plain(record)
    body = {"format": file_format, "format_version": version, **plain}
    write_json(path, {**body, "checksum": sha256(canonical(body))})
    return from_plain(type(record), plain, place(path))


def read_record(kind: type[T], path: Path, *, file_format: str, version: int) -> T:
    """Read what `write_record` wrote, after checking format, version, checksum and every value."""
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") != file_format:
        raise InputError(f"{place(path)} is no {file_format}: its format field is missing or different")
    stored = document.get("format_version")
    if stored != version:
        raise InputError(f"{place(path)} has format version {shown(stored)}; this poela reads version {version}")
    if document.pop("checksum", None) != sha256(canonical(document)):
        raise InputError(f"{place(path)} is damaged or was changed: its checksum does not match")
    body = {name: value for name, value in document.items() if name not in ("format", "format_version")}
    return from_plain(kind, body, place(path))
