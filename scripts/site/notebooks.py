"""Tutorials: plain scripts, executed as notebooks that are kept beside them, and shown as pages.

    python scripts/site/notebooks.py [NAME ...] [--out docs/tutorials]     # all, or some, executed again

A script has cells after jupytext's "percent" convention. The site shows the stored notebooks, so that building it takes
seconds; a test executes the scripts and compares.
"""

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
NOTE = re.compile(r"^\S*: PoelaWarning: (.*)$", re.MULTILINE)


def scripts() -> list[Path]:
    """All tutorials."""
    return sorted(FOLDER.glob("*.py"))


def cells_of(script: Path) -> list[tuple[str, str]]:
    """Kind and source of each cell of a script."""
    import jupytext

    return [(cell.cell_type, cell.source) for cell in jupytext.read(script).cells]


def executed(script: Path) -> Any:
    """The script as a notebook with what its cells print, run in an empty folder beside `examples`."""
    import jupytext
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = jupytext.read(script)
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/.kernel")  # no open ports
        client = NotebookClient(notebook, km=kernel, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(cleanup_kc=True)  # else a kernel that was given goes on until it notices that we are gone
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = _told(cell.outputs)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    return notebook


def _told(outputs: list[Any]) -> list[Any]:
    """What a cell said to its reader: pieces of one stream together, and of errors only our own notes."""
    told: list[Any] = []
    for output in outputs:
        if output.get("name") == "stderr":
            output.text = "".join(f"note: {note}\n" for note in NOTE.findall(output.text))
        if told and output.output_type == "stream" and told[-1].get("name") == output.name:
            told[-1].text += output.text
        elif output.output_type != "stream" or output.text:
            told.append(output)
    return told


def page_of(notebook: Any, name: str) -> str:
    """The notebook as Markdown: prose, code, and what was printed."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [part for part in map(part_of, cell.outputs) if part]
    title, *rest = parts
    source = (
        f"*An executed notebook: [download it]({name}.ipynb). It was made from a script, `docs/tutorials/{name}.py`.*"
    )
    heading, _, after = title.partition("\n")
    return "\n\n".join([heading, source, after.strip(), *rest]) + "\n"


def part_of(output: Any) -> str:
    """An output on the page: a picture with what it shows, or text; empty where there is none."""
    if output.output_type != "stream" and "image/png" in output.data:
        about = output.metadata.get("image/png", {}).get("alt", "")
        return f"![{about}](data:image/png;base64,{''.join(output.data['image/png'].split())})"
    text = text_of(output).rstrip()
    return f"```text\n{text}\n```" if text.strip() else ""


def text_of(output: Any) -> str:
    """What an output says, as text."""
    return str(output.text if output.output_type == "stream" else output.data.get("text/plain", ""))


def main() -> None:
    """Execute and store."""
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[script.stem for script in scripts()])
    parser.add_argument("--out", type=Path, default=FOLDER)
    asked = parser.parse_args()
    for name in asked.names:
        print(name, flush=True)
        nbformat.write(executed(FOLDER / f"{name}.py"), asked.out / f"{name}.ipynb")


if __name__ == "__main__":
    main()
