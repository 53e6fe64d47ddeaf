"""`poela simulate`: logs from a simulator, with propensities."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poela.cli.output import print_json, say
from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import output_file
from poela.core.readable import readable
from poela.core.typed import Count, Seed, parsed

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories

# Writing logs to a file by its ending.


def file_for_logs(out: str, overwrite: bool) -> Path:
    """The path of a log to be written; refuses what is no place for one, or already somebody's file."""
    return output_file(out, "logs", overwrite=overwrite, endings=(".parquet", ".csv"))


def write_logs(logs: "Trajectories", path: Path, overwrite: bool) -> None:
    """Write the logs as Parquet or CSV, whole or not at all."""
    table = logs.to_table()
    with atomic_file(path, replacing=overwrite) as temporary:
        if path.suffix == ".csv":
            from pyarrow.csv import write_csv

            from poela.data.spreadsheets import harmless

            write_csv(harmless(table), temporary)
        else:
            from pyarrow.parquet import write_table

            write_table(table, temporary)


def simulate(
    name: Annotated[str, typer.Argument(help="Name of the simulator, e.g. tumor, sepsis or clinic.")],
    out: Annotated[str, typer.Option(help="File to write: .parquet or .csv.")],
    episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed. The same seed gives the same logs.")] = 0,
    markov: Annotated[
        bool, typer.Option("--markov", help="Put the whole state into the context (a Markov log).")
    ] = False,
    option: Annotated[
        list[str] | None, typer.Option(help="Other options of the simulator, as name=value, e.g. drug=TMZ.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a log of simulated decisions, with propensities, to try things out.

    Example: poela simulate tumor --episodes 1000 --seed 0 --out logs.parquet
    """
    from poela.simulators.registry import simulate as collect

    parsed("--episodes", Count, episodes)
    parsed("--seed", Seed, seed)
    file = file_for_logs(out, overwrite)
    options = {**({"markov": True} if markov else {}), **_options(option or [])}
    logs = collect(name, episodes=episodes, seed=seed, **options)
    write_logs(logs, file, overwrite)
    returns = logs.returns()
    if json:
        print_json(
            {
                "file": str(file),
                "episodes": logs.n_episodes,
                "steps": logs.n_steps,
                "features": list(logs.feature_names),
                "actions": list(logs.action_names),
                "mean_return": float(returns.mean()),
            }
        )
        return
    say(f"{file}: {logs.n_episodes} episodes, {logs.n_steps} steps, mean return {readable(returns.mean())}")


def _options(texts: list[str]) -> dict[str, object]:
    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise InputError([f"--option {text} has no value: write name=value" for text in wrong])
    pairs = (text.split("=", 1) for text in texts)
    return {name.strip(): value.strip() for name, value in pairs}
