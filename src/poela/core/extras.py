"""How to install what is missing: by the packages themselves. `pip install poela[…]` needs an index that has poela."""

import re
import shlex
from importlib.metadata import PackageNotFoundError, requires

_OWN = re.compile(r"^poela\[([\w,-]+)\]")


def how_to_install(extra: str) -> str:
    """The command that brings what an extra brings, from wherever poela was installed.

    >>> how_to_install("report")
    "pip install 'jinja2>=3.1'"
    """
    needed = _needed(extra)
    return f"pip install {shlex.join(needed)}" if needed else f"pip install '.[{extra}]' in a clone of poela"


def _needed(extra: str) -> list[str]:
    """The requirements of an extra, and of the extras that it names."""
    try:
        lines = requires("poela") or []
    except PackageNotFoundError:  # sources that were never installed
        return []
    found: list[str] = []
    for line in lines:
        what, _, marker = (part.strip() for part in line.partition(";"))
        if not re.search(rf"""extra == ['"]{re.escape(extra)}['"]""", marker):
            continue
        inner = _OWN.match(what.replace(" ", ""))
        found += [one for name in inner[1].split(",") for one in _needed(name)] if inner else [what]
    return list(dict.fromkeys(found))
