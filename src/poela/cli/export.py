"""`poela export`: a policy as one ONNX graph."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    onnx: Annotated[str, typer.Option("--onnx", help="File to write.")],
    cover: Annotated[
        bool,
        typer.Option(
            "--cover", help="Keep fewer logged contexts: smaller and quicker, and can only make fewer actions eligible."
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a policy as one ONNX graph, with its rule of eligible actions and what it falls back to.

    It takes features as numbers (contexts, and where the policy asks for them steps and earlier steps) and gives the
    probability of every action. What its inputs are is printed, and stands in its metadata.

    Example: poela export study/ --onnx policy.onnx
    """
    from json import loads

    from poela.cli.output import print_json, say
    from poela.serving.export import export_onnx
    from poela.serving.source import open_policy

    source = open_policy(study)
    contexts = "cover" if cover else "all"
    metadata = export_onnx(
        source.policy, onnx, include_contexts=contexts, findings=source.findings, overwrite=overwrite
    )
    meant = {name: _plain(text) for name, text in metadata.items()}
    if json:
        print_json({"file": onnx, **meant})
        return
    say(f"{onnx}: {source.name}", bold=True)
    for name, text in loads(metadata["inputs"]).items():
        say(f"- {name}: {text}")
    if meant["contains_logged_contexts"]:
        say("It contains contexts from the training log (perhaps personal data): keep it as you keep the log.")


def _plain(text: str) -> object:
    """What a text of the metadata says: a list, an object or a truth value where it is one."""
    from json import JSONDecodeError, loads

    try:
        return loads(text)
    except JSONDecodeError:
        return text
