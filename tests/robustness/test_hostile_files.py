"""Policy files that are no files, or are damaged on purpose: one sentence, at once, and nothing waits for ever."""

import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.robustness.forging import SLOWEST, at_most, base, check_works, refusal, write_files

from poela.core.errors import InputError
from poela.core.storage import read_json
from poela.policies.storage import load_policy

JSON, ARRAYS = "poela-policy.json", "arrays.safetensors"

Container = Callable[[Path], Any]


def text_of(change: Callable[[str], str]) -> Container:
    """A changed text of the document."""

    def edit(directory: Path) -> None:
        path = directory / JSON
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    return edit


def body_of(change: Callable[[dict[str, Any]], Any]) -> Container:
    """A changed document with the right checksums."""
    return lambda directory: base("any").write(directory, change)


def packed_as(change: Callable[[bytes], bytes]) -> Container:
    """Changed bytes of the arrays with the right checksums."""

    def edit(directory: Path) -> None:
        packed = (directory / ARRAYS).read_bytes()
        body = json.loads((directory / JSON).read_text(encoding="utf-8"))
        del body["checksums"]
        write_files(directory, body, change(packed))

    return edit


def header_as(**tensor: Any) -> Container:
    """One tensor with a header of our own."""
    plain = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **tensor}
    header = json.dumps({"mean": plain}).encode()
    return packed_as(lambda packed: struct.pack("<Q", len(header)) + header + bytes(8))


def replaced(name: str, make: Callable[[Path], Any]) -> Container:
    """Something else where a file was."""

    def edit(directory: Path) -> None:
        path = directory / name
        path.rename(directory / f"{name}.old")
        make(path)

    return edit


def link_to_old(path: Path) -> None:
    path.symlink_to(f"{path.name}.old")


def link_outside(path: Path) -> None:
    outside = path.parent.parent / path.name
    (path.parent / f"{path.name}.old").rename(outside)
    path.symlink_to(outside)


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most about 100 letters
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def as_long_as(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


CONTAINERS: dict[str, tuple[Container, str]] = {
    "no document": (lambda directory: (directory / JSON).unlink(), "does not exist"),
    "no arrays": (lambda directory: (directory / ARRAYS).unlink(), "does not exist"),
    "a linked document": (replaced(JSON, link_to_old), "symbolic link"),
    "linked arrays": (replaced(ARRAYS, link_to_old), "symbolic link"),
    "arrays linked from outside": (replaced(ARRAYS, link_outside), "symbolic link"),
    "a link to a device": (replaced(ARRAYS, lambda path: path.symlink_to("/dev/zero")), "symbolic link"),
    "a link to nothing": (replaced(JSON, lambda path: path.symlink_to("nowhere")), "symbolic link"),
    "a pipe for a document": (replaced(JSON, os.mkfifo), "a pipe"),
    "a pipe for arrays": (replaced(ARRAYS, os.mkfifo), "a pipe"),
    "a socket": (replaced(JSON, listening), "a socket"),
    "a folder for a document": (replaced(JSON, Path.mkdir), "a folder"),
    "a folder for arrays": (replaced(ARRAYS, Path.mkdir), "a folder"),
    "an endless document": (replaced(JSON, as_long_as(65 << 20)), "bytes"),
    "endless arrays": (replaced(ARRAYS, as_long_as(17 << 30)), "bytes"),
    "an empty document": (text_of(lambda text: ""), "cannot be read"),
    "a document of zeros": (replaced(JSON, as_long_as(1000)), "cannot be read"),
    "a byte order mark": (text_of(lambda text: "\ufeff" + text), "BOM"),
    "not UTF-8": (lambda directory: (directory / JSON).write_bytes(b'{"format": "\xff"}'), "utf-8"),
    "half a document": (text_of(lambda text: text[: len(text) // 2]), "cannot be read"),
    "lists in lists": (text_of(lambda text: "[" * 10**5 + "]" * 10**5), "nested too deeply"),
    "tables in tables": (text_of(lambda text: '{"a":' * 10**5 + "1" + "}" * 10**5), "nested too deeply"),
    "a list": (text_of(lambda text: "[1, 2]"), "holds no poela-policy"),
    "a name twice": (text_of(lambda text: text.replace('"kind"', '"kind": "x", "kind"', 1)), "'kind' stands twice"),
    "NaN": (text_of(lambda text: text.replace('"format_version": 1', '"format_version": NaN')), "NaN"),
    "infinity": (text_of(lambda text: text.replace("[4, 4]", "[4, -Infinity]")), "Infinity"),
    "1e400": (text_of(lambda text: text.replace("[4, 4]", "[4, 1e400]")), "1e400"),
    "a number of 10,000 digits": (text_of(lambda text: text.replace("[4, 4]", f"[{'4' * 10**4}]")), "cannot be read"),
    "another format": (body_of(lambda body: body.update(format="poela-behavior")), "holds no poela-policy"),
    "no format": (body_of(lambda body: body.pop("format")), "holds no poela-policy"),
    "a newer version": (body_of(lambda body: body.update(format_version=2)), "format version 2"),
    "a version in words": (body_of(lambda body: body.update(format_version="1" * 10**6)), "format version"),
    "a true version": (body_of(lambda body: body.update(format_version=True)), "format version True"),
    "another byte": (text_of(lambda text: text.replace("[4, 4]", "[4, 5]")), "checksum"),
    "no checksums": (text_of(lambda text: text.replace('"checksums"', '"sums"')), "no file of arrays"),
    "a list of checksums": (
        text_of(lambda text: text.replace('"checksums": {', '"checksums": [], "x": {')),
        "no file of arrays",
    ),
    "no object": (body_of(lambda body: body.pop("object")), "exactly the fields"),
    "a list for an object": (body_of(lambda body: body.update(object=[])), "exactly the fields"),
    "an object with more": (body_of(lambda body: body["object"].update(code="x")), "exactly the fields"),
    "an object with less": (body_of(lambda body: body["object"].pop("parts")), "exactly the fields"),
    "a number for a kind": (body_of(lambda body: body["object"].update(kind=1)), "field kind"),
    "a list of settings": (body_of(lambda body: body["object"].update(settings=[])), "field settings"),
    "a table of arrays": (body_of(lambda body: body["object"].update(arrays={})), "field arrays"),
    "a list of parts": (body_of(lambda body: body["object"].update(parts=[])), "field parts"),
    "text for a part": (body_of(lambda body: body["object"]["parts"].update(eligibility="x")), "exactly the fields"),
    "an array twice": (body_of(lambda body: body["object"]["arrays"].append("mean")), "named twice"),
    "an array of nobody": (body_of(lambda body: body["object"]["arrays"].remove("mean")), "belongs to nothing"),
    "an array that is not there": (body_of(lambda body: body["object"]["arrays"].append("x")), "'x' is missing"),
    "an array of another folder": (body_of(lambda body: body["object"]["arrays"].append("../x")), "no name"),
    "an array without a name": (body_of(lambda body: body["object"]["arrays"].append(None)), "no name"),
    "a part of another folder": (body_of(lambda body: body["object"]["parts"].update({"a\\b": {}})), "no name"),
    "no header": (packed_as(lambda packed: b""), "header"),
    "half a header": (packed_as(lambda packed: packed[:20]), "header"),
    "a header longer than the file": (packed_as(lambda packed: struct.pack("<Q", 2**63) + packed[8:]), "header"),
    "a header of nonsense": (packed_as(lambda packed: packed[:8] + b"x" * len(packed)), "header"),
    "half of the arrays": (packed_as(lambda packed: packed[:-40]), "header"),
    "more than the arrays": (packed_as(lambda packed: packed + bytes(40)), "header"),
    "a tensor beyond the file": (header_as(shape=[10**12], data_offsets=[0, 4 * 10**12]), "header"),
    "a tensor beyond all numbers": (header_as(shape=[2**40, 2**40], data_offsets=[0, 2**62]), "header"),
    "a tensor of unknown numbers": (header_as(dtype="F8_E4M3", shape=[8]), "header"),
    "a tensor of no numbers": (header_as(dtype="code"), "header"),
}


@pytest.mark.parametrize(("edit", "words"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_a_changed_file_is_refused_in_one_sentence(edit: Container, words: str, tmp_path: Path) -> None:
    base("any").write(tmp_path / "policy")
    edit(tmp_path / "policy")
    assert words in refusal(tmp_path / "policy")


def test_no_policy_at_all(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert "cannot be read" in refusal(tmp_path / "file")


def test_a_device_is_not_opened(tmp_path: Path) -> None:
    base("any").write(tmp_path / "policy")
    (tmp_path / "policy" / ARRAYS).unlink()
    try:
        os.mknod(tmp_path / "policy" / ARRAYS, 0o600 | 0o020000, os.makedev(1, 5))  # endless zeros
    except OSError:
        pytest.skip("only the superuser makes devices")
    assert "a device" in refusal(tmp_path / "policy")


def test_a_folder_may_be_reached_by_a_link(tmp_path: Path) -> None:
    base("any").write(tmp_path / "policy")
    (tmp_path / "link").symlink_to("policy")
    check_works(load_policy(tmp_path / "link"))


def test_other_documents_must_be_files_too(tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("[1]")
    (tmp_path / "link.json").symlink_to("there.json")
    with pytest.raises(InputError, match="a symbolic link"):
        read_json(tmp_path / "link.json")
    os.mkfifo(tmp_path / "pipe.json")
    with at_most(SLOWEST), pytest.raises(InputError, match="a pipe"):
        read_json(tmp_path / "pipe.json")
