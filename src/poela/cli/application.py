"""The commands together, and what happens to their errors."""

import errno
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from poela import __version__
from poela.cli import decide, evaluate, export, learn, plan, report, reproduce, serve, simulate, studies, watch
from poela.cli.output import forgiving_streams, silence
from poela.cli.wording import docs, flags_of, in_flags, page_for
from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.core.paths import place
from poela.core.progress import progress_shown
from poela.core.readable import escaped

OF_FILES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

app = typer.Typer(
    name="poela",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("simulate", epilog=docs("simulate"))(simulate.simulate)
app.command("learn", epilog=docs("learn"))(learn.learn)
app.command("evaluate", epilog=docs("evaluate"))(evaluate.evaluate)
app.command("plan", epilog=docs("plan"))(plan.plan)
app.command("export", epilog=docs("export"))(export.export)
app.command("serve", epilog=docs("serve"))(serve.serve)
app.command("decide", epilog=docs("decide"))(decide.decide)
app.command("watch", epilog=docs("watch"))(watch.watch)
app.command("report", epilog=docs("report"))(report.report)
app.command("reproduce", epilog=docs("reproduce"))(reproduce.reproduce)
app.add_typer(studies.app, name="studies", epilog=docs("studies"))


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"poela {__version__}")
        raise typer.Exit


@app.callback()
def poela(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Learn better decision policies from logged decisions, with an honest estimate of their gain.

    Offline policy learning and off-policy evaluation, with lower confidence bounds.

    Example: poela learn logs.csv --out study/

    Docs: start/first-study, glossary. A page such as guides/tables is docs/guides/tables.md in the repository; make
    docs builds all of them.
    """


def run(arguments: Sequence[str] | None) -> int:
    """Run one command; every error is one line on standard error."""
    try:
        with forgiving_streams():
            return _run(arguments)
    except BrokenPipeError:  # nobody reads on, and nobody wants to hear of it
        silence(sys.stdout)
        return 1
    except OSError as error:
        silence(sys.stdout)
        what = "standard output cannot be written" if error.errno in OF_FILES else "the system reports an error"
        return _failed(1, f"{what}: {error.strerror or error}")


def _run(arguments: Sequence[str] | None) -> int:
    command = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    worded = partial(
        in_flags, flags=flags_of(command, words), by_file=any(word.split("=")[0] == "--layout" for word in words)
    )

    def show_warning(message: Warning | str, *details: Any, **more: Any) -> None:
        _tell(f"note: {worded(str(message))}")

    try:
        with warnings.catch_warnings(), progress_shown():
            warnings.showwarning = show_warning
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", PoelaWarning)
            outcome = command.main(words, standalone_mode=False)
    except InputError as error:
        return _failed(2, *map(worded, error.problems), page=page_for(error.problems))
    except PoelaError as error:
        return _failed(1, worded(str(error)), page=page_for([str(error)]))
    except KeyboardInterrupt:
        return _failed(1, "interrupted")
    except OSError as error:
        if error.filename is None:
            raise
        return _failed(1, f"{place(error.filename)} cannot be used: {error.strerror or error}")
    except Exception as error:
        return _usage_error(error)
    return outcome if isinstance(outcome, int) else 0


def _usage_error(error: Exception) -> int:
    """Errors of the command line parser have their own classes, which differ between versions of typer."""
    if type(error).__name__ == "Abort":
        return _failed(1, "interrupted")
    if type(error).__name__ == "Exit":
        return int(getattr(error, "exit_code", 0))
    message = getattr(error, "format_message", None)
    if not callable(message):
        return _failed(1, _unforeseen(error))
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    text = str(message())
    return _failed(2, f"{text}{hint}") if text else 2


def _unforeseen(error: Exception) -> str:
    """What nobody thought of, by its kind and its place in our code alone: its text may quote cells of a log."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [frame for frame in frames if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "poela"]
    where = f" in {ours[-1].f_globals['__name__']}, line {ours[-1].f_lineno}" if ours else ""
    return f"{type(error).__name__}{where}, which is a bug in poela: please report this line (SECURITY.md says where)"


def _failed(code: int, *lines: str, page: str | None = None) -> int:
    for number, line in enumerate(lines, start=1):
        helps = f" (docs: {page})" if page is not None and number == len(lines) else ""
        _tell(f"error: {line}{helps}")
    return code


def _tell(line: str) -> None:
    try:
        print(escaped(line), file=sys.stderr, flush=True)
    except OSError:  # then there is nobody left to tell
        silence(sys.stderr)
