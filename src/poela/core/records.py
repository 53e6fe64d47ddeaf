"""Records on disk: a dataclass as one JSON document with a checksum, every value checked as it is read."""

from pathlib import Path
from typing import Any, TypeVar

from poela.core.errors import InputError
from poela.core.files import Lasting, sha256, write_json
from poela.core.paths import place
from poela.core.storage import read_json
from poela.core.stored import canonical
from poela.core.typed import from_plain, shown, to_plain

T = TypeVar("T")


def document_of(record: Any, *, file_format: str, version: int) -> dict[str, Any]:
    """A dataclass as one JSON document with a checksum."""
    body = {"format": file_format, "format_version": version, **to_plain(record)}
    return {**body, "checksum": sha256(canonical(body))}


def record_of(kind: type[T], document: Any, where: str, *, file_format: str, version: int) -> T:
    """The inverse of `document_of`, after checking format, version, checksum and every value."""
    if not isinstance(document, dict) or document.get("format") != file_format:
        raise InputError(f"{where} is no {file_format}: its format field is missing or different")
    stored = document.get("format_version")
    if stored != version:
        raise InputError(f"{where} has format version {shown(stored)}; this poela reads version {version}")
    body = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != sha256(canonical(body)):
        raise InputError(f"{where} is damaged or was changed: its checksum does not match")
    return from_plain(kind, {name: body[name] for name in body if name not in ("format", "format_version")}, where)


def write_record(path: Path, record: T, *, file_format: str, version: int, lasting: Lasting = "named") -> T:
    """Write a dataclass as one JSON document with a checksum, atomically; returned is what `read_record` would give."""
    document = document_of(record, file_format=file_format, version=version)
    write_json(path, document, lasting=lasting)
    return record_of(type(record), document, place(path), file_format=file_format, version=version)


def read_record(kind: type[T], path: Path, *, file_format: str, version: int) -> T:
    """Read what `write_record` wrote."""
    return record_of(kind, read_json(path), place(path), file_format=file_format, version=version)
