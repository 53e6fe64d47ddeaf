"""Files that are no logs, or logs that are written in another way than their names and flags say."""

import gzip
import os
import re
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.data.log_files import arrow, arrow_stream, compressed_csv, csv, feather, parquet
from tests.robustness.secret_logs import ROWS, SOUND, Case, changed, csv_text, damaged, rewritten, table, text

DAMAGED = ("cannot be read", "write it again")
NO_HEADER = ("none of the columns", "add a header row")


def special(kind: int, name: str = "logs.csv") -> Case:
    def make(folder: Path) -> Path:
        os.mknod(folder / name, kind | 0o600)
        return folder / name

    return Case(make, ("not a file",))


def link(target: str, *words: str) -> Case:
    def make(folder: Path) -> Path:
        (folder / "logs.csv").symlink_to(target)
        return folder / "logs.csv"

    return Case(make, words)


def named(name: str, *words: str) -> Case:
    """A path to nothing."""
    return Case(lambda folder: folder / name, words)


def unreadable(folder: Path) -> Path:
    path = Path(csv(changed({}), folder))
    path.chmod(0)
    return path


def folder_called_csv(folder: Path) -> Path:
    (folder / "logs.csv").mkdir()
    return folder / "logs.csv"


def moved(write: object, name: str) -> Case:
    """A sound file under the name of another kind."""

    def make(folder: Path) -> Path:
        return Path(write(changed({}), folder)).rename(folder / name)  # type: ignore[operator]

    return Case(make, ())


def with_layout(content: str, *words: str) -> Case:
    def make(folder: Path) -> Path:
        (folder / "layout.toml").write_text(content)
        return Path(csv(changed({}), folder))

    return Case(make, words, ("--layout", "{folder}/layout.toml"))


def log_as_layout(folder: Path) -> Path:
    (folder / "layout.toml").write_text(csv_text(folder))
    return folder / "logs.csv"


def pipe_as_layout(folder: Path) -> Path:
    os.mkfifo(folder / "layout.toml")
    return Path(csv(changed({}), folder))


def other_words(case: Case, *words: str) -> Case:
    return Case(case.make, words, case.flags)


def headless(content: str) -> str:
    return content.split("\n", 1)[1]


def with_commas(content: str) -> str:
    """Semicolons between cells and decimal commas."""
    return content.replace(",", ";").replace(".", ",")


def wide(cell: str, columns: int = 10_000) -> str:
    names = [*SOUND, *(f"x{number}" for number in range(columns))]
    rows = [[str(SOUND[name][row]) for name in SOUND] + [cell] * columns for row in range(ROWS)]
    return "\n".join(",".join(line) for line in [names, *rows]) + "\n"


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def parquet_without_columns(folder: Path) -> Path:
    pq.write_table(pa.table({}), folder / "logs.parquet")
    return folder / "logs.parquet"


LAYOUT_FLAGS = ("--layout", "{folder}/layout.toml")
FILES: dict[str, Case] = {
    # What is no file
    "pipe": special(stat.S_IFIFO),
    "pipe called Parquet": special(stat.S_IFIFO, "logs.parquet"),
    "pipe called Arrow": special(stat.S_IFIFO, "logs.arrow"),
    "socket": special(stat.S_IFSOCK),
    "endless device": link("/dev/zero", "a device, not a file"),
    "empty device": link("/dev/null", "a device, not a file"),
    "nothing": named("none.csv", "does not exist"),
    "link to nothing": link("nowhere.csv", "does not exist"),
    "link to itself": link("logs.csv", "does not exist"),
    "name that is too long": named("x" * 300 + ".csv", "does not exist"),
    "path that is too long": named("x/" * 3000 + "logs.csv", "does not exist"),
    "name with a new line": named("two\nlines.csv", "does not exist"),
    "name with colours": named("\x1b[31mred.csv", "does not exist"),
    "file in a file": named("logs.csv/logs.csv", "does not exist"),
    "folder": Case(lambda folder: folder, ("is a directory",)),
    "folder called CSV": Case(folder_called_csv, ("is a directory",)),
    "no permission": Case(unreadable, ("may not be read",)),
    "pipe as a layout": Case(pipe_as_layout, ("a pipe, not a file",), LAYOUT_FLAGS),
    # Of another kind than the name says
    "no suffix": text("SECRET", "unknown kind (no suffix)", name="logs"),
    "unknown suffix": text("SECRET", "unknown kind (.xlsx)", name="logs.xlsx"),
    "suffix with a new line": text("SECRET", "unknown kind", name="logs.c\nsv"),
    "only gz": text("SECRET", "unknown kind", name="logs.gz"),
    "Parquet as CSV": other_words(moved(parquet, "logs.csv"), "is a Parquet file"),
    "Arrow as CSV": other_words(moved(arrow, "logs.csv"), "is an Arrow file"),
    "spreadsheet as CSV": text(b"PK\x03\x04SECRET", "is a spreadsheet"),
    "gzip as CSV": other_words(moved(compressed_csv, "logs.csv"), "is compressed"),
    "CSV as gzip": other_words(moved(csv, "logs.csv.gz"), *DAMAGED),
    "CSV as Parquet": other_words(moved(csv, "logs.parquet"), *DAMAGED),
    "CSV as Arrow": other_words(moved(csv, "logs.arrow"), *DAMAGED),
    "CSV as Feather": other_words(moved(csv, "logs.feather"), *DAMAGED),
    "Arrow as Parquet": other_words(moved(arrow, "logs.parquet"), *DAMAGED),
    "Parquet as Arrow": other_words(moved(parquet, "logs.arrow"), *DAMAGED),
    "JSON as CSV": text('[{"episode": "SECRET", "step": 0}]', "cannot be read as CSV"),
    "pickle as Parquet": text(b"\x80\x04\x95\x10SECRET.", *DAMAGED, name="logs.parquet"),
    # Empty, cut off, damaged
    "empty CSV": text("", "is empty"),
    "empty Parquet": text("", *DAMAGED, name="logs.parquet"),
    "empty Arrow": text("", *DAMAGED, name="logs.arrow"),
    "empty gzip": text(gzip.compress(b""), "cannot be read as CSV", name="logs.csv.gz"),
    "only line ends": text("\n\n\n", "cannot be read as CSV"),
    "only a header": text("episode,step,age,action,reward\n", "no rows"),
    "half a Parquet file": damaged(parquet, half, *DAMAGED),
    "half an Arrow file": damaged(arrow, half, *DAMAGED),
    "half an Arrow stream": damaged(arrow_stream, half, *DAMAGED),
    "half a Feather file": damaged(feather, half, *DAMAGED),
    "half a gzip file": damaged(compressed_csv, half, *DAMAGED),
    "cut in the last row": rewritten(lambda text: text[: text.rindex(",")], "fewer cells"),
    "zeros in an Arrow file": damaged(arrow, lambda content: content[:64] + bytes(len(content) - 64), *DAMAGED),
    "zeros in a Parquet file": damaged(parquet, lambda content: content[:4] + bytes(len(content) - 4), *DAMAGED),
    "footer without a file": damaged(parquet, lambda content: content[-300:], *DAMAGED),
    "an open quote": rewritten(lambda text: text.replace('"SECRET-1"', '"SECRET-1', 1), "CSV"),
    "ragged rows": rewritten(lambda text: text + '"SECRET",1\n', "1 row has more or fewer cells", "row 13"),
    "a title above the header": rewritten(lambda text: "SECRET study\n" + text, "more or fewer cells", "a title"),
    "no columns": Case(parquet_without_columns, NO_HEADER),
    # Without a header, or with one of other names: nothing of the first row may be told
    "no header": rewritten(headless, *NO_HEADER),
    "no header but dates": text("SECRET,1999-12-31,1\nSECRET,1999-12-31,2\n", *NO_HEADER),
    "no header but a name that is known": rewritten(
        lambda text: headless(text.replace("SECRET-0", "age", 1)), *NO_HEADER, flags=("--context", "age")
    ),
    "no header but one that is nearly known": rewritten(
        lambda text: headless(text).replace("SECRET-wait", "reaction SECRET"), *NO_HEADER
    ),
    "no header, full of propensities": text("propensity_SECRET,propensity\n0.5,0.5\n", *NO_HEADER),
    "no header in semicolons": rewritten(lambda text: headless(text).replace(",", ";"), "none of the columns"),
    "other names": table({}, *NO_HEADER, write=lambda t, f: parquet(t.rename_columns(list("abcde")), f)),
    "a number among the names": rewritten(
        lambda text: text.replace('"reward"', '"8675309"'), "column 'reward' is missing: add it"
    ),
    # Written in another way
    "a line for spreadsheets": rewritten(lambda text: "sep=;\n" + with_commas(text), "remove that line"),
    "decimal points after all": rewritten(str, "'reward'", "(--decimal .)", flags=("--decimal", ",")),
    "decimal commas between commas": rewritten(
        lambda text: text.replace(".25,", ",25,"), "12 rows have more", "decimal commas"
    ),
    "a missing number between semicolons": rewritten(
        lambda text: with_commas(text.replace("8675309.25", "").replace("wait", "é")).encode("latin-1"),
        "'age' is null, NaN or infinite in 1 row, first row 1",
        flags=("--separator", ";", "--decimal", ",", "--encoding", "latin-1", "--missing", "refuse"),
    ),
    "a missing number between tabs": rewritten(
        lambda text: text.replace("8675309.25", "").replace(",", "\t"),
        "'age' is null",
        flags=("--separator", "\\t", "--missing", "refuse"),
    ),
    "Latin-1": rewritten(lambda text: text.replace("wait", "é").encode("latin-1"), "not text in UTF-8", "latin-1"),
    "Latin-1 in a feature": rewritten(
        lambda text: text.replace("8675310.25", "é").encode("latin-1"), "not text in UTF-8", "latin-1"
    ),
    "Latin-1 in the header": rewritten(lambda text: text.replace("age", "âge").encode("latin-1"), "not text in UTF-8"),
    "UTF-16": rewritten(lambda text: text.encode("utf-16"), "(--encoding utf-16)"),
    "UTF-16 without a mark": rewritten(lambda text: text.encode("utf-16-le"), "(--encoding utf-16-le)"),
    "UTF-16 the other way round": rewritten(lambda text: text.encode("utf-16-be"), "(--encoding utf-16-be)"),
    "UTF-32": rewritten(lambda text: text.encode("utf-32"), "(--encoding utf-32)"),
    "UTF-8 after all": rewritten(str, "no text in UTF-16", flags=("--encoding", "utf-16")),
    "a mark of UTF-8 in Latin-1": rewritten(
        lambda text: text.encode("utf-8-sig"), "encoding='utf-8'", flags=("--encoding", "latin-1")
    ),
    "not ASCII": rewritten(lambda text: text.replace("wait", "é"), "not text in ASCII", flags=("--encoding", "ascii")),
    "binary rubbish": text(bytes(range(256)) * 20, "CSV"),
    # Flags and layouts that say nothing
    "separator of two": rewritten(str, "--separator must be one character", flags=("--separator", ";;")),
    "no separator": rewritten(str, "--separator must be one character", flags=("--separator", "")),
    "a letter as separator": rewritten(str, "--separator must be one character", flags=("--separator", "e")),
    "decimal of another kind": rewritten(str, "--decimal must be", flags=("--decimal", "'")),
    "unknown encoding": rewritten(str, "--encoding must name", flags=("--encoding", "klingon")),
    **{
        f"encoding of no file: {name}": rewritten(str, "--encoding must name", flags=("--encoding", name))
        for name in ("rot13", "punycode", "idna", "unicode_escape", "undefined")
    },
    "flags beside a layout": Case(
        with_layout("").make, ("both describe the log",), (*LAYOUT_FLAGS, "--separator", ";", "--step", "hour")
    ),
    "no TOML": with_layout("episode = SECRET", "cannot be read as TOML", "line 1, column 11"),
    "a log as a layout": Case(log_as_layout, ("cannot be read as TOML",), LAYOUT_FLAGS),
    "no layout": Case(lambda folder: folder / "logs.csv", ("does not exist",), LAYOUT_FLAGS),
    "a layout of other fields": with_layout("colour = 1\n", "no field 'colour'"),
    "a layout of wrong types": with_layout(
        "episode = 1\ncontext = [2]\n", "episode in the --layout file must", "context in the --layout file must"
    ),
    "nested actions in a layout": with_layout("actions = [[1]]\n", "actions in the --layout file must"),
    "a wrong separator in a layout": with_layout(
        "separator = 3\ndecimal = 0\nencoding = []\n", "separator in the --layout file", "decimal in the --layout file"
    ),
    "a layout of missing columns": with_layout('episode = "stay"\n', "column 'stay' is missing"),
    # Pages of problems
    "three thousand columns of text": text(wide("SECRET" * 17, 3000), "column 'x0' holds free text", "more problems"),
    "ten thousand columns that are missing": text(
        wide(""), "column 'x0' is null", "more problems", flags=("--missing", "refuse")
    ),
    "ten thousand columns of the same name": text(
        re.sub(r"x\d+", "x", wide("0"), count=10_000), "column 'x' occurs 10000 times"
    ),
    "a name of a hundred thousand letters": text(
        wide("SECRET" * 20, 3).replace("x1", "x" * 100_000), "'xxxxxx", "in 12 rows, first row 1"
    ),
    "names of control characters": text(wide("SECRET" * 20, 3).replace("x1", "\x1b[31m\x07"), r"'\x1b[31m\x07'"),
}
