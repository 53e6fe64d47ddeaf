"""The modules that a measurement runs through, and a fingerprint of what they do: comments and docstrings do not count.

Imports are followed through `src/poela`, `src/poela_experiments` and `benchmarks`, those inside of functions too, names
of `import poela`, and registries that name modules as "poela.room.file:Name": all that they name, so that a change of
any learner counts for every measurement that learns. Pages, servers and the command line (`LEFT_OUT`) make no numbers
and are not followed. Settings of experiments (TOML) count as they are.
"""

import ast
import hashlib
import io
import re
import subprocess
import tarfile
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

FOLDERS, ENDS = ("src", "benchmarks", "scripts", "tests"), (".py", ".toml")
LEFT_OUT = ("poela.report", "poela.serving", "poela.cli", "poela_experiments.pages")
NAMED = re.compile(r"^(poela(?:\.\w+)+)(?::\w+)?$")
Sources = Mapping[str, str]  # module names, and their texts


def sources_here(root: Path) -> Sources:
    """As they lie in a folder."""
    files = (file for folder in FOLDERS for end in ENDS for file in (root / folder).rglob(f"*{end}"))
    return {_module(file.relative_to(root).as_posix()): file.read_text(encoding="utf-8") for file in files}


def sources_at(root: Path, commit: str) -> Sources:
    """As they were at a commit."""
    packed = subprocess.run(["git", "archive", commit, *FOLDERS], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = [name for name in archive.getnames() if name.endswith(ENDS)]
        return {_module(name): archive.extractfile(name).read().decode() for name in names}  # type: ignore[union-attr]


def modules_behind(entries: list[str], sources: Sources) -> list[str]:
    """All modules that these import, themselves with them.

    >>> sources = {"poela.a": "import poela.b", "poela.b": "", "poela.c": ""}
    >>> modules_behind(["poela.a"], sources)
    ['poela.a', 'poela.b']
    """
    homes = _homes(sources.get("poela", ""))
    known, waiting = set[str](), [entry for entry in entries if entry in sources]
    while waiting:
        module = waiting.pop()
        if module not in known:
            known.add(module)
            names = _names(sources[module])
            files = (one for name in names for one in _files_of(homes.get(name, name), sources))
            waiting += [one for one in files if not one.startswith(LEFT_OUT)]
    return sorted(known)


def fingerprint(entries: list[str], sources: Sources) -> str:
    """A short hash of what the modules behind these do.

    >>> a, b = {"poela.a": "x = 1"}, {"poela.a": "x = 1  # the least", "poela.b": "y = 2"}
    >>> fingerprint(["poela.a"], a) == fingerprint(["poela.a"], b)
    True
    >>> fingerprint(["poela.a"], a) == fingerprint(["poela.a"], {"poela.a": "x = 2"})
    False
    """
    digest = hashlib.sha256()
    for module in modules_behind(entries, sources):
        digest.update(f"{module}\n{bare(sources[module])}\n".encode())
    return digest.hexdigest()[:12]


@cache
def bare(text: str) -> str:
    """Source without comments, docstrings and blanks between its words.

    >>> bare('def f():\\n    "Says."\\n    return 1  # one')
    'def f ( ) : return 1'
    """
    if (tree := _parsed(text)) is None:  # settings
        return text
    texts = {(node.lineno, node.col_offset) for node in _docstrings(tree)}
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = text.splitlines()
    words = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        begins = (token.start[0], len(lines[token.start[0] - 1][: token.start[1]].encode())) if token.string else (0, 0)
        if token.type not in layout and begins not in texts:
            words.append(token.string)
    return " ".join(words)


def _module(path: str) -> str:
    """Of a file: benchmarks go by their own names, as they import each other.

    >>> _module("src/poela/core/__init__.py"), _module("benchmarks/claims.py")
    ('poela.core', 'claims')
    """
    return path.partition("/")[2].removesuffix(".py").removesuffix(".toml").removesuffix("/__init__").replace("/", ".")


def _homes(text: str) -> dict[str, str]:
    """Where the public names of the package come from, as its `_HOME` tells: poela.learn in poela.studies.learning."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "_HOME" in ast.unparse(node).partition("{")[0]:
            assert node.value is not None
            return {f"poela.{name}": home for name, home in ast.literal_eval(node.value).items()}
    return {}


@cache
def _names(text: str) -> tuple[str, ...]:
    """Modules, and names in modules, that a file asks for at run time."""
    names, waiting = list[str](), list[ast.AST](filter(None, [_parsed(text)]))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "poela":
            names.append(f"poela.{node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := NAMED.match(node.value)):
            names.append(named[1])
    return tuple(dict.fromkeys(names))


def _parsed(text: str) -> ast.Module | None:
    """None: that is no Python, but settings."""
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _files_of(name: str, sources: Sources) -> Iterator[str]:
    """The module itself, or the one that has the name; and the packages around it, but for the outermost."""
    parts = name.split(".")
    whole = ".".join(parts)
    if whole not in sources and len(parts) > 1:
        parts.pop()
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        if module in sources and module not in ("poela", "poela_experiments"):
            yield module


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
            continue
        if isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
            yield body[0].value
