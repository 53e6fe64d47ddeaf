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
            "--cover",
            help="Keep fewer logged contexts: a smaller, faster file. It can only bar more actions, never fewer.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Export a policy as one ONNX graph, with its rule of eligible actions and its fallback.

    Inputs are numeric features (contexts and, if the policy uses them, steps and earlier steps); outputs are the
    probabilities of every action. The inputs are printed, and described in the file's metadata.

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
