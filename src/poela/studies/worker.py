"""A worker process: reads tasks from standard input, writes results to standard output, until the input ends.

Messages are frames: eight bytes of length, then the bytes. The first holds the objects of the parent that no file can
hold (see `core.live`), if the study has any. A task is one frame of JSON; a result is a frame of JSON followed by
frames of safetensors, and of such objects as its policies are made of.
"""

import json
import os
import struct
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from poela.core.errors import InputError
from poela.core.live import packed, unpack
from poela.core.typed import from_plain, to_plain
from poela.studies.records import RunRecord, Task
from poela.studies.run_files import PackedPolicies
from poela.studies.runs import Result, failed

LENGTH = struct.Struct(">Q")


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write one frame."""
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes:
    """Read one frame; EOFError where the other side has gone."""
    header = stream.read(LENGTH.size)
    if len(header) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(header)
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


def write_result(stream: BinaryIO, result: Result) -> None:
    """Write one result."""
    try:
        objects = packed(result.objects) if result.objects else b""
    except InputError as error:
        result, objects = failed(result, str(error)), b""
    shared = {} if result.policies is None else result.policies.shared
    head = {"record": to_plain(result.record), "policies": result.policies is not None, "shared": list(shared)}
    write_frame(stream, json.dumps(head).encode())
    if result.policies is not None:
        for content in (objects, result.policies.own, *shared.values()):
            write_frame(stream, content)


def read_result(stream: BinaryIO) -> Result:
    """Read one result."""
    head = json.loads(read_frame(stream))
    record = from_plain(RunRecord, head["record"], "a worker's answer")
    if not head["policies"]:
        return Result(record, None)
    if objects := read_frame(stream):
        unpack(objects)
    own = read_frame(stream)
    return Result(record, PackedPolicies(own, {key: read_frame(stream) for key in head["shared"]}))


def main() -> None:
    """Serve until the input ends or the parent dies."""
    # Whatever prints to standard output must not get between the frames.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    from poela.studies.fold_data import Folds
    from poela.studies.runs import carry_out

    folds = Folds(Path(sys.argv[1]))
    try:
        objects = read_frame(sys.stdin.buffer)
        known = unpack(objects) if objects else set[str]()
        while True:
            task = from_plain(Task, json.loads(read_frame(sys.stdin.buffer)), "a task")
            result = carry_out(task, folds.of(task))
            write_result(replies, replace(result, objects=result.objects - known))
    except EOFError:
        return


def _leave_with_parent(parent: int) -> None:
    """A killed parent cannot close its workers, so each looks for itself."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
