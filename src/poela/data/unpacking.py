"""How much a compressed file may unpack to: far more than it is itself is no log, but a trap for memory and time."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.paths import place
from poela.core.readable import readable

if TYPE_CHECKING:
    import pyarrow as pa

SMALL = 1 << 28  # bytes that are always fine
MOST_TIMES = 300  # as much as the file; tables of numbers and text take 5 to 50 times as much
LARGEST = 1 << 38  # bytes; more is no log for one machine
CHUNK = 1 << 20


def refuse_swollen(path: Path, size: int) -> None:
    """Refuse a file whose content is this many bytes, where that is too much for what the file is."""
    packed = path.stat().st_size
    if size > SMALL and (size > LARGEST or size > MOST_TIMES * packed):
        raise InputError(
            f"{place(path)} unpacks to more than {readable(SMALL / 2**20)} MiB and {MOST_TIMES} times its size: "
            "if that is right, unpack it yourself, or split it"
        )


def refuse_bomb(path: Path) -> None:
    """Unpack a gzip file without keeping anything, and refuse it as soon as it is too much."""
    size, unpacker = 0, zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            while chunk:
                safe_point()
                try:
                    size += len(unpacker.decompress(chunk, CHUNK))
                except zlib.error:
                    return  # whoever reads it says what is wrong
                refuse_swollen(path, size)
                chunk = unpacker.unconsumed_tail
                if unpacker.eof:  # one member may follow another
                    chunk, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)


def text_bytes(column: "pa.ChunkedArray | pa.Array") -> int:
    """How many bytes the texts of a column take that are stored once each, once every row has its own.

    >>> import pyarrow as pa
    >>> text_bytes(pa.array(["long", "long", "x"]).dictionary_encode()), text_bytes(pa.array([1, 2]))
    (9, 0)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if pa.types.is_dictionary(chunk.type) and _is_text(chunk.type.value_type):
            lengths = pc.cast(pc.binary_length(chunk.dictionary), pa.int64())
            size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return size


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def refuse_swollen_messages(path: Path, file: Any) -> None:
    """Refuse an Arrow stream by what its batches say that they unpack to, before any of them is unpacked."""
    import pyarrow as pa

    size = 0
    for message in pa.ipc.MessageReader.open_stream(file):
        if message.type in ("record batch", "dictionary"):
            safe_point()
            try:
                size += sum(_unpacked_sizes(message))
            except (struct.error, IndexError):
                raise pa.ArrowInvalid("a message that points outside of itself") from None
            refuse_swollen(path, size)


def _unpacked_sizes(message: Any) -> Iterator[int]:
    """What the buffers of a batch take: the first eight bytes of a compressed one tell (−1: it is not compressed)."""
    body, batch = message.body, Flat(message.metadata.to_pybytes()).table(2)
    if message.type == "dictionary":
        batch = batch.table(1)
    yield batch.number(0)  # at least a byte for each row, also of columns without buffers
    compressed = batch.field(3) is not None
    for offset, length in batch.pairs(2):
        if compressed and length >= 8:
            told = struct.unpack_from("<q", body, offset)[0]
            yield length if told < 0 else told
        else:
            yield length


class Flat:
    """As much of a FlatBuffers table as is needed to read the numbers that describe a batch."""

    def __init__(self, content: bytes, at: int | None = None) -> None:
        self.content = content
        self.at = self._of("<I", 0) if at is None else at

    def _of(self, kind: str, place: int) -> int:
        if place < 0:
            raise IndexError
        return int(struct.unpack_from(kind, self.content, place)[0])

    def field(self, number: int) -> int | None:
        """Where a field stands; None: it has its usual value."""
        slots = self.at - self._of("<i", self.at)
        inside = 4 + 2 * number < self._of("<H", slots)
        offset = self._of("<H", slots + 4 + 2 * number) if inside else 0
        return self.at + offset if offset else None

    def table(self, number: int) -> "Flat":
        """A table inside of this one."""
        place = self.field(number)
        if place is None:
            raise IndexError
        return Flat(self.content, place + self._of("<I", place))

    def number(self, number: int) -> int:
        """A whole number; never below zero."""
        place = self.field(number)
        return 0 if place is None else max(self._of("<q", place), 0)

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """A list of two whole numbers each."""
        place = self.field(number)
        if place is None:
            return
        start = place + self._of("<I", place)
        for one in range(self._of("<I", start)):
            offset, length = struct.unpack_from("<qq", self.content, start + 4 + 16 * one)
            if offset < 0 or length < 0:
                raise IndexError
            yield offset, length
