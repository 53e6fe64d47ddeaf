"""`poela learn`: from a log file to a policy and what it is worth."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poela.cli.flags import column_flags, flags, layout_in
from poela.core.options import read_from_text
from poela.evaluation.options import ScoringOptions
from poela.studies.options import Execution, LearnOptions, RoundOptions, StudyOptions
from poela.studies.selection import DEFAULT_SELECTION

SETTINGS = (StudyOptions(), LearnOptions(), RoundOptions(), ScoringOptions(), DEFAULT_SELECTION, Execution())


@flags(*SETTINGS)
@column_flags
def learn(
    logs: Annotated[
        list[Path], typer.Argument(help="Tables of logged decisions, one row for each: .parquet, .csv or .arrow.")
    ],
    *,
    out: Annotated[str, typer.Option(help="Directory to write: the study, its policies and results.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted study.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Also print the settings of every policy.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    **settings: Any,
) -> None:
    """Learn a better policy from logged decisions, with a lower bound of its gain over current practice.

    The log is a table with one row for each decision: which case it belongs to, what was known, what was decided, and
    what came of it. Policies are learned and judged by cross-validation; a new policy is recommended only if the
    held-out cases show that it is better than what is done now.

    Example: poela learn visits.csv --out study/ --episode patient --step visit --action drug --reward outcome

    The next round: poela learn visits.csv later.csv --logged-by practice,study/ --after study/ --out study2/

    Afterwards: poela evaluate study/ --logs later.csv
    """
    try:
        from poela.cli.study_output import print_study
        from poela.core.progress import progress_in_lines
        from poela.studies.learning import learn as carry_out

        layout = layout_in(settings)
        with progress_in_lines(told_alone=True):
            study = carry_out(
                logs[0] if len(logs) == 1 else logs,
                out=out,
                resume=resume,
                layout=layout,
                **read_from_text(SETTINGS, settings),
            )
    except KeyboardInterrupt:
        from poela.core.errors import PoelaError
        from poela.core.paths import place

        raise PoelaError(f"interrupted: what has finished is kept in {place(out)}; continue with --resume") from None
    print_study(study, as_json=json, details=details)
