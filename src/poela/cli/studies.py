"""`poela studies`: list, show and compare studies."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="List, show and compare studies.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list")
def list_studies(
    directory: Annotated[Path, typer.Argument(help="Where to look, two levels deep.")] = Path(),
    json: AsJson = False,
) -> None:
    """List the studies under a directory.

    Example: poela studies list results/
    """
    from poela.cli.output import interval, number, print_json, print_table, say

    summaries = [_summary_or_problem(path) for path in _studies_under(directory)]
    if json:
        print_json(summaries)
        return
    if not summaries:
        say(f"no studies under {directory}: make one with poela learn LOGS --out DIRECTORY")
        return
    print_table(
        "Studies",
        ("study", "runs", "chosen", "value", "interval", "ESS"),
        [
            (
                row["study"],
                f"{row['runs_finished']}/{row['runs']}",
                row["chosen"],
                number(row["value"]),
                interval(row["low"], row["high"]),
                number(row["ess"]),
            )
            for row in summaries
            if "problem" not in row
        ],
    )
    for row in summaries:
        if "problem" in row:
            say(f"{row['study']} cannot be read: {row['problem']}")


@app.command("show")
def show(
    study: Annotated[Path, typer.Argument(help="Directory of the study.")],
    json: AsJson = False,
) -> None:
    """Show one study: every checkpoint, the choice, the estimate, and how often its test episodes were looked at.

    Example: poela studies show study/
    """
    from poela.cli.study_output import print_study
    from poela.studies.study import Study

    print_study(Study.open(study), as_json=json, every_run=True)


@app.command("compare")
def compare(
    studies: Annotated[list[Path], typer.Argument(help="Directories of two or more studies.")],
    json: AsJson = False,
) -> None:
    """Compare studies: what each chose, and what it is worth on its test episodes.

    Example: poela studies compare study/ other/
    """
    from poela.cli.output import interval, number, print_json, print_table
    from poela.studies.study import Study

    opened = [Study.open(path) for path in studies]
    summaries = [_summary(study) for study in opened]
    same_test = len({study.record.data.hashes.get("test") for study in opened}) == 1
    if json:
        print_json({"same_test_logs": same_test, "studies": summaries})
        return
    fields = ("study", "chosen", "reason", "value", "interval", "ESS", "logging policy")
    print_table(
        "Comparison",
        fields,
        [
            (
                row["study"],
                row["chosen"],
                row["reason"],
                number(row["value"]),
                interval(row["low"], row["high"]),
                number(row["ess"]),
                number(row["logging_value"]),
            )
            for row in summaries
        ],
        "All tested on the same episodes."
        if same_test
        else "Tested on different episodes: values differ by chance too.",
    )


def _studies_under(directory: Path) -> list[Path]:
    from poela.core.files import is_empty

    if is_empty(directory):  # which says so if it cannot be read
        return []
    found: set[Path] = set()
    for pattern in ("", "*/", "*/*/"):
        with suppress(OSError):  # a folder in there that cannot be read
            found |= {path.parent for path in directory.glob(f"{pattern}study.json")}
    return sorted(found)


def _summary_or_problem(directory: Path) -> dict[str, Any]:
    """One broken study must not hide the others."""
    from poela.core.errors import PoelaError
    from poela.studies.study import Study

    try:
        return _summary(Study.open(directory))
    except PoelaError as error:
        return {"study": str(directory), "problem": str(error)}


def _summary(study: Any) -> dict[str, Any]:
    look = study.test_look
    estimate = None if look is None else look.estimate
    return {
        "study": str(study.directory),
        "runs_finished": len(study.runs),
        "runs": len(study.tasks),
        "chosen": study.chosen_name,
        "reason": study.choice.reason,
        "value": None if estimate is None else estimate.value,
        "low": None if estimate is None else estimate.low,
        "high": None if estimate is None else estimate.high,
        "ess": None if estimate is None else estimate.ess,
        "logging_value": study.record.logging_policy.value,
    }
