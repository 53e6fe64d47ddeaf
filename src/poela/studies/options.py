"""What `poela.learn` takes by name, beside `Selection`: for the library, the command line and the record alike.

Nothing heavy is imported here, since the command line's help is made of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from poela.behavior.registry import BEHAVIORS
from poela.core.errors import InputError
from poela.core.options import CHOOSING, EPISODES, REPORTING, RUNNING, TRYING, Option, names_in, numbers_in
from poela.core.registry import how_to_install
from poela.core.typed import Count, Positive, Range, Seed, named_in, one_of, refuse_problems


def _share_or_file(text: str) -> float | str:
    """A share where it reads as a number, else a file."""
    try:
        return float(text)
    except ValueError:
        return text


def _shares_in(text: str) -> tuple[float, ...]:
    shares = numbers_in("--shares", text)
    if len(shares) != 3 or not all(0 < share < 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise InputError(
            f"--shares {text} must be three numbers above 0 that sum to at most 1, to learn from, to choose by and to "
            "test with: --shares 0.5,0.3,0.2"
        )
    return shares


def _grids_in(file: Path) -> Any:
    from poela.studies.candidates import candidates_in

    return candidates_in(file)


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Settings that the record of a study keeps."""

    folds: (
        Annotated[
            int,
            Range(least=2, most=100),
            Option(
                "Number of cross-validation folds.",
                EPISODES,
            ),
        ]
        | None
    ) = 5  # None: one split, by shares
    shares: (
        Annotated[
            tuple[Positive, Positive, Positive],
            Option(
                "One split instead of folds: shares for training, validation and test, e.g. 0.5,0.3,0.2.",
                EPISODES,
                read=_shares_in,
                takes="Sequence[float] | None",
            ),
        ]
        | None
    ) = None
    restarts: Annotated[int, Range(least=1, most=1000), Option("Random restarts of each candidate.", TRYING)] = 1
    seed: Annotated[Seed, Option("Random seed. The same logs, settings and seed give the same study.")] = 0
    behavior: Annotated[
        str,
        named_in(BEHAVIORS, "auto", "logged"),
        Option(
            "Model that estimates propensities if the log has none: auto, multinomial, boosted, knn, clone or "
            "recurrent. If the log has them, the model describes current practice in new cases; logged: new cases "
            "bring their propensities, too. Real-valued actions (doses): auto, a Gaussian model.",
            TRYING,
            takes="str | Behavior | NormalBehavior | Classifier | Predictor",
        ),
    ] = "auto"  # where the logs carry no propensities


@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """What a study is made from: other logs, and candidates in whatever form they are named."""

    test: Annotated[
        Any,
        Option(
            "Test set: a share of the cases (0.2), or a file of other logs.",
            EPISODES,
            read=_share_or_file,
            takes="float | Trajectories | str | PathLike[str] | None",
        ),
    ] = None
    validation: Annotated[
        Any,
        Option(
            "One split instead of folds: a file of validation logs.",
            EPISODES,
            kind=Path,
            takes="Trajectories | str | PathLike[str] | None",
        ),
    ] = None
    learners: Annotated[
        Sequence[object] | None,
        Option(
            "Learners to try, separated by commas. Default: fittedq,consensus,poela,bcq,rules. Real-valued actions "
            "(doses) have their own: continuouspoela,iql by default, and continuousclone.",
            TRYING,
            read=names_in,
            takes="Sequence[str | Candidate | AnyLearner] | None",
        ),
    ] = None
    candidates: Annotated[
        Any,
        Option(
            "TOML file with the learners and settings to try instead.",
            TRYING,
            kind=Path,
            read=_grids_in,
            takes="Sequence[Candidate | Learner] | str | PathLike[str] | None",
        ),
    ] = None
    no_rule: Annotated[bool, Option("Also allow actions that no similar past case received.", TRYING)] = False
    no_audit: Annotated[
        bool,
        Option(
            "Skip the audit: columns that leak the action or the outcome, wrong propensities, clusters that were not "
            "named. The record says so.",
            EPISODES,
        ),
    ] = False
    by: Annotated[
        Sequence[str] | None,
        Option(
            "Report actions and gains by group: columns, separated by commas; age:3 is three quantile bins.",
            REPORTING,
            read=names_in,
            takes="Sequence[str] | None",
        ),
    ] = None
    smallest_group: Annotated[
        int,
        Range(least=1),
        Option("Merge groups with fewer cases, for privacy.", REPORTING),
    ] = 10
    outcome: Annotated[str, Option('Name and unit of the outcome in the output, e.g. "survival, %".', REPORTING)] = ""


@dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """Where several logs come from, and which round of how many a study is."""

    logged_by: Annotated[
        Sequence[str] | None,
        Option(
            "Who made each log, in the order of the logs, separated by commas: practice, or the folder of the study "
            "or policy that decided.",
            EPISODES,
            read=names_in,
            takes="Sequence[str] | None",
        ),
    ] = None
    current: Annotated[
        str | None, Option("What is done now, as named by --logged-by. Default: what made the last log.", EPISODES)
    ] = None
    after: Annotated[
        Any,
        Option(
            "The previous round's study: gains add up, at one error level over all rounds.",
            CHOOSING,
            kind=Path,
            takes="str | PathLike[str] | None",
        ),
    ] = None
    outcomes: Annotated[
        Any,
        Option(
            "For a log that is a folder of receipts: the table of cases and their outcomes.",
            EPISODES,
            kind=Path,
            takes="AnyTable | None",
        ),
    ] = None
    done: Annotated[
        str | None,
        Option(
            "With --outcomes: the column with the action actually taken, if people may overrule the policy.", EPISODES
        ),
    ] = None
    ended: Annotated[str | None, Option("With --outcomes: the column with the time when a case ended.", EPISODES)] = (
        None
    )
    rounds: (
        Annotated[
            int,
            Range(least=1, most=100),
            Option("Number of rounds in all; each spends an equal part of the error level.", CHOOSING),
        ]
        | None
    ) = None  # as many as the round before declared

    def __post_init__(self) -> None:
        refuse_problems(self)


@dataclass(frozen=True)
class Execution:
    """Where and for how long: nothing that results depend on, but for what a limit of time cuts off."""

    backend: Annotated[
        str,
        one_of("local", "inline", "ray"),
        Option("Where to run. local: worker processes; inline: this process; ray: a Ray cluster.", RUNNING),
    ] = "local"
    jobs: Annotated[Count, Option("Number of worker processes. Default: all cores.", RUNNING)] | None = None
    time: (
        Annotated[
            Positive,
            Option(
                "Time limit, e.g. 2m or 2h. Quick learners run first, a fifth of the time is kept to check what is "
                "claimed, and what was left out is listed.",
                TRYING,
                kind=str,
                takes="float | str | None",
            ),
        ]
        | None
    ) = None  # seconds
    budget: Annotated[Positive, Option("Old name of --time.", TRYING, kind=str, takes="float | str | None")] | None = (
        None
    )
    address: Annotated[str, Option("Address of the Ray cluster. Default: start one here.", RUNNING)] | None = None
    track: (
        Annotated[
            str,
            one_of("mlflow", "tensorboard"),
            Option("Also log finished runs to mlflow or tensorboard.", RUNNING),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        refuse_problems(self)
        if self.backend == "ray" and find_spec("ray") is None:
            raise InputError(f"the Ray backend needs Ray: {how_to_install('ray')}")
        if self.address is not None and self.backend != "ray":
            raise InputError(f"address is that of a Ray cluster: choose the backend 'ray', not {self.backend!r}")
        if self.track is not None and find_spec(self.track) is None:
            raise InputError(f"tracking with {self.track} needs it: {how_to_install('track')}")
