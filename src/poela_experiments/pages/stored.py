"""What finished experiments have left in a directory of results."""

from dataclasses import replace
from pathlib import Path

from poela.core.storage import read_json
from poela_experiments.frame.judging import AGREES, judged_today
from poela_experiments.frame.results import NOT_REGENERATED, Report, ResultTable


def stored_table(path: Path) -> ResultTable:
    """One table."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    notes = tuple(note.rstrip(".") for note in about["notes"].splitlines())
    found = ResultTable(path.stem, about["title"], table.to_pylist(), about["command"], notes)
    return replace(found, rows=[*map(judged_today, found.rows)]) if found.compares else found


def stored_report(results: Path, experiment: str) -> Report:
    """All tables of an experiment, in their order; where today's command did not make them, nothing is judged."""
    import pyarrow.parquet as pq

    places: dict[int, Path] = {}
    closing = ""
    for path in (results / experiment).glob("*.parquet"):
        about = pq.read_schema(path).metadata or {}
        if about.get(b"experiment") == experiment.encode():
            places[int(about[b"place"])] = path
            closing = about.get(b"closing", b"").decode()
    tables = [stored_table(places[place]) for place in sorted(places)]
    if not is_regenerated(results, experiment):
        tables = [unjudged(table) for table in tables]
    return Report(experiment, tuple(tables), closing)


def is_regenerated(results: Path, experiment: str) -> bool:
    """Whether the command that stands under its tables has made them."""
    return (results / experiment / "made.json").exists()


def unjudged(table: ResultTable) -> ResultTable:
    """The same without a verdict."""
    return replace(table, rows=[{**row, AGREES: ""} for row in table.rows]) if table.compares else table


def about(results: Path, experiment: str) -> str:
    """How the tables came about, in a sentence or two."""
    if not is_regenerated(results, experiment):
        return NOT_REGENERATED
    record = read_json(results / experiment / "made.json")
    made = "; ".join(
        f"code {one['code']}, torch {one['machine']['torch']}, {one['machine']['device']}" for one in record["made"]
    )
    return f"Made by the command below, in {record['parts']} parts ({made})."
