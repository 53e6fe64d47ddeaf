"""`poela reproduce`: every experiment by its name."""

from importlib import import_module
from typing import Annotated, Any

import typer

MARK = ".poela-results"  # in a folder whose results may be overwritten


def reproduce(
    name: Annotated[str, typer.Argument(help="Which experiment; `list` names them all.")],
    out: Annotated[str | None, typer.Option(help="Directory for results. [default: the experiment's name]")] = None,
    quick: Annotated[bool, typer.Option("--quick/--full", help="A small version, or all of it.")] = True,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes side by side. [default: all cores]")] = None,
    backend: Annotated[
        str, typer.Option(help="Where studies run: local (processes), inline (this process) or ray (a Ray cluster).")
    ] = "local",
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster. [default: one started here]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run an experiment and print its tables; after an interruption the same command continues.

    Example: poela reproduce demo
    """
    from poela.cli.output import print_json
    from poela.core.errors import InputError, PoelaError
    from poela.core.files import refuse_foreign, write_bytes
    from poela.core.paths import folder_at, place
    from poela.core.typed import Seed, parsed
    from poela.experiments.registry import EXPERIMENTS
    from poela.experiments.running import Running

    if name == "list":
        _print_list(EXPERIMENTS, json)
        return
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}: choose from {', '.join(EXPERIMENTS)}")
    module, attribute = EXPERIMENTS[name].run.split(":")
    run: Any = getattr(import_module(module), attribute)
    directory, running = folder_at(name if out is None else out, "results"), Running(jobs, backend, address)
    parsed("--seed", Seed, seed)
    refuse_foreign(directory, (MARK,), "results of poela reproduce")
    write_bytes(directory / MARK, b"Results of poela reproduce, which the same command may overwrite.\n")
    try:
        report = run(out=directory, quick=quick, seed=seed, running=running)
    except KeyboardInterrupt:
        raise PoelaError(
            f"interrupted: what was finished is kept in {place(directory)}; the same command continues"
        ) from None
    if json:
        print_json(report.to_dict())
    else:
        typer.echo(str(report))


def _print_list(experiments: Any, json: bool) -> None:
    from poela.cli.output import print_json, print_table

    rows = [(name, experiment.summary) for name, experiment in experiments.items()]
    if json:
        print_json([{"name": name, "summary": summary} for name, summary in rows])
    else:
        print_table("Experiments", ("name", "what it shows"), rows)
