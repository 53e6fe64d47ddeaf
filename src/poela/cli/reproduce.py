"""`poela reproduce`: every experiment by its name, from the packages that offer some."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:
    from poela.studies.options import Execution

# Entry points of this group name tables of experiments by their names. A checkout that was never installed has no entry
# points: then the paper's experiments are looked for under their own name.
GROUP, PAPER = "poela.experiments", "poela_experiments.registry:EXPERIMENTS"
MARK = ".poela-results"  # in a folder whose results may be overwritten


class Experiment(Protocol):
    """What a package offers: a line for the list, and a report that prints and has `to_dict()`."""

    @property
    def summary(self) -> str:
        """What it shows."""

    def run(self, out: Path, quick: bool, seed: int, execution: "Execution") -> Any:
        """Carry it out; results are written to `out`."""


def reproduce(
    name: Annotated[str, typer.Argument(help="Name of the experiment; `list` shows all.")],
    out: Annotated[str | None, typer.Option(help="Directory for results. [default: the experiment's name]")] = None,
    quick: Annotated[bool, typer.Option("--quick/--full", help="A small version, or the full experiment.")] = True,
    seed: Annotated[int, typer.Option(help="Random seed. The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Number of worker processes. [default: all cores]")] = None,
    backend: Annotated[
        str, typer.Option(help="Where studies run: local (processes), inline (this process) or ray (a Ray cluster).")
    ] = "local",
    address: Annotated[str | None, typer.Option(help="Address of the Ray cluster. [default: start one here]")] = None,
    shard: Annotated[
        str | None, typer.Option(help="Run only this part, e.g. 2/8, to share the work among machines.")
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(help="Folder with the results of a shard; may be repeated. Makes the tables from them."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run an experiment and print its tables; after an interruption the same command continues.

    Example: poela reproduce demo
    """
    from poela.cli.output import print_json
    from poela.core.errors import PoelaError
    from poela.core.files import refuse_foreign, write_bytes
    from poela.core.paths import folder_at, output_folder, place
    from poela.core.progress import progress_in_lines
    from poela.core.typed import Seed, parsed

    experiments = experiments_found()
    if name == "list":
        _print_list(experiments, json)
        return
    experiment = _chosen(experiments, name, shard, join)
    from poela.studies.options import Execution

    directory = output_folder(name if out is None else out, "results")
    execution = Execution(backend, jobs, address=address)
    parsed("--seed", Seed, seed)
    refuse_foreign(directory, (MARK,), "results of poela reproduce")
    write_bytes(directory / MARK, b"Results of poela reproduce, which the same command may overwrite.\n")
    try:
        with progress_in_lines():
            if shard:
                made = experiment.run_shard(directory, quick, seed, execution, shard)
                typer.echo(f"{made} in {place(directory)}; give this folder to --join, with those of the other shards")
                return
            more = {"joined": [folder_at(folder, "parts") for folder in join]} if join else {}
            report = experiment.run(directory, quick, seed, execution, **more)
    except KeyboardInterrupt:
        raise PoelaError(
            f"interrupted: what was finished is kept in {place(directory)}; the same command continues"
        ) from None
    if json:
        print_json(report.to_dict())
    else:
        typer.echo(str(report))


def _chosen(experiments: Mapping[str, Experiment], name: str, shard: str | None, join: list[str] | None) -> Any:
    """The experiment of this name, if it can be made as asked for."""
    from poela.core.errors import InputError

    if name not in experiments:
        raise InputError(f"there is no experiment {name!r}: choose from {', '.join(experiments)}")
    if (shard or join) and not hasattr(experiments[name], "run_shard"):
        raise InputError(f"the experiment {name!r} cannot be made in shards: leave out --shard and --join")
    if shard and join:
        raise InputError("--shard makes parts and --join takes finished ones: give one of them")
    return experiments[name]


def experiments_found() -> dict[str, Experiment]:
    """Every experiment that an installed package offers, by its name."""
    from importlib.metadata import EntryPoint, entry_points

    from poela.core.errors import PoelaError

    offered = list(entry_points(group=GROUP)) or [EntryPoint("paper", PAPER, GROUP)]
    experiments: dict[str, Experiment] = {}
    for point in offered:
        try:
            experiments |= point.load()
        except (ImportError, AttributeError):
            package = point.module.partition(".")[0]
            raise PoelaError(f"the experiments are not installed: install the package {package} beside poela") from None
    return experiments


def _print_list(experiments: Mapping[str, Experiment], json: bool) -> None:
    from poela.cli.output import print_json, print_table

    rows = [(name, experiment.summary) for name, experiment in experiments.items()]
    if json:
        print_json([{"name": name, "summary": summary} for name, summary in rows])
    else:
        print_table("Experiments", ("name", "what it shows"), rows)
