"""`poela studies`: list, show and compare studies."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from poela.core.readable import between, effective, readable
from poela.core.typed import to_plain

app = typer.Typer(help="List, show and compare studies.", no_args_is_help=True)

NUMBERS = ("value", "interval", "new −\ncurrent", "at\nleast", "effective\ncases", "verdict")
NOTE = "At least: lower confidence bound of the gain, simultaneous for all policies that were tried."

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list")
def list_studies(
    directory: Annotated[Path, typer.Argument(help="Directory to search, two levels deep.")] = Path(),
    json: AsJson = False,
) -> None:
    """List the studies under a directory.

    Example: poela studies list results/
    """
    from poela.cli.output import print_json, print_table, say

    summaries = [_summary_or_problem(path) for path in _studies_under(directory)]
    if json:
        print_json(summaries)
        return
    if not summaries:
        say(f"no studies under {directory}: make one with poela learn LOGS --out DIRECTORY")
        return
    rows = [(row["study"], row["answer"], *_numbers(row)) for row in summaries if "problem" not in row]
    print_table("Studies", ("study", "answer", *NUMBERS), rows, NOTE)
    for row in summaries:
        if "problem" in row:
            say(f"{row['study']} cannot be read: {row['problem']}")


@app.command("show")
def show(
    study: Annotated[Path, typer.Argument(help="Directory of the study.")],
    every: Annotated[
        bool, typer.Option("--all", help="Show every policy, not only a selection from cautious to bold.")
    ] = False,
    details: Annotated[bool, typer.Option("--details", help="Also print the settings of every policy.")] = False,
    json: AsJson = False,
) -> None:
    """Show a study: the answer, its reasons, policies from cautious to bold, and the estimate of the recommended one.

    Example: poela studies show study/
    """
    from poela.cli.study_output import print_study
    from poela.studies.study import Study

    print_study(Study.open(study), as_json=json, every_point=every, details=details)


@app.command("compare")
def compare(
    studies: Annotated[list[Path], typer.Argument(help="Directories of two or more studies.")],
    json: AsJson = False,
) -> None:
    """Compare studies: what each recommends, the gain that is shown, and its estimate.

    Example: poela studies compare study/ other/
    """
    from poela.cli.output import print_json, print_table, say
    from poela.studies.study import Study

    opened = [Study.open(path) for path in studies]
    summaries = [_summary(study) for study in opened]
    same = {role: len({study.record.data.hashes.get(role) for study in opened}) == 1 for role in ("train", "test")}
    if json:
        print_json({"same_logs": same["train"], "same_test_logs": same["test"], "studies": summaries})
        return
    rows = [(row["study"], row["answer"], *_numbers(row)) for row in summaries]
    print_table("Comparison", ("study", "answer", *NUMBERS), rows, NOTE)
    for row in summaries:
        say(f"{row['study']}: {row['chosen']}; {row['reason']}.")
    if not all(same.values()):
        say("They were learned from different episodes, so values also differ by chance.")


def _studies_under(directory: Path) -> list[Path]:
    from poela.core.files import is_empty

    if is_empty(directory):  # which says so if it cannot be read
        return []
    folders: set[Path] = set()
    for pattern in ("", "*/", "*/*/"):
        with suppress(OSError):  # a folder in there that cannot be read
            folders |= {path.parent for path in directory.glob(f"{pattern}study.json")}
    return sorted(folders)


def _summary_or_problem(directory: Path) -> dict[str, Any]:
    """One broken study must not hide the others."""
    from poela.core.errors import PoelaError
    from poela.studies.study import Study

    try:
        return _summary(Study.open(directory))
    except PoelaError as error:
        return {"study": str(directory), "problem": str(error)}


def _summary(study: Any) -> dict[str, Any]:
    evaluation, result = study.test_evaluation, study.result
    estimate = None if result is None else study.estimate
    chosen = study.choice.chosen
    gain = None if estimate is None or chosen is None else estimate.gain
    return {
        "study": str(study.directory),
        "runs_finished": len(study.runs),
        "runs": len(study.tasks),
        "answer": "not finished" if result is None else study.answer.kind,
        "chosen": study.chosen_name,
        "reason": study.choice.reason,
        "judged_on": None if result is None else "held-out episodes" if evaluation is None else "test episodes",
        "value": None if estimate is None else estimate.value,
        "low": None if estimate is None else estimate.low,
        "high": None if estimate is None else estimate.high,
        "standard_error": None if estimate is None else to_plain(estimate.standard_error),
        "gain": None if gain is None else gain.value,
        "shown": None if chosen is None else chosen.metrics.get("shown"),
        "ess": None if estimate is None else estimate.ess,
        "verdict": None if estimate is None or chosen is None else estimate.verdict,
        "logging_value": study.record.logging_policy.value,
    }


def _numbers(row: dict[str, Any]) -> tuple[str, ...]:
    error = row["standard_error"]
    return (
        readable(row["value"], error),
        between(row["low"], row["high"], error),
        readable(row["gain"], error, signed=True),
        readable(row["shown"], error, signed=True),
        effective(row["ess"]),
        row["verdict"] or "-",
    )
