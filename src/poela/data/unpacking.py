"""How much a compressed file may unpack to: far more than it is itself is no log, but a trap for memory and time."""

import zlib
from pathlib import Path

from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.paths import place
from poela.core.readable import readable

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
