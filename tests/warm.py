"""An interpreter that has imported everything already: what is run with it is forked from one warm process.

Starting Python with torch and the rest takes seconds of a processor, and many tests start commands, scripts, servers,
kernels and workers. `Warm.python` is a file that can be run in the place of `sys.executable`, with a script, `-m` or
`-c`; `poela`, in the same folder, is the command. Streams, folder, environment, exit code and signals are those of a
process of its own. Tests of starting itself (what an import costs, what it prints) use the real interpreter.
"""

import atexit
import functools
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LENGTH = 8  # bytes that tell how long an order is
CODE = 4  # bytes of a process id, and of how it ended

# What runs in the place of Python: it hands its streams to the warm process, passes signals on, and ends as that ends.
RUNNER = f"""
import json, os, signal, socket, sys
passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
link = socket.socket(socket.AF_UNIX)
link.connect(PLACE)
order = {{"arguments": FIRST + sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
content = json.dumps(order).encode()
socket.send_fds(link, [len(content).to_bytes({LENGTH}, "big")], [0, 1, 2])
link.sendall(content)
def told():
    found = link.recv({CODE}, socket.MSG_WAITALL)
    return int.from_bytes(found, "big", signed=True) if len(found) == {CODE} else 1
child = told()
for one in passed_on:
    signal.signal(one, lambda number, frame: os.kill(child, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
code = told()
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class Warm:
    """A warm process, and the files that run something in a fork of it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="warm-"))
        self.place = self.folder / "socket"
        self.python, self.poela = self.folder / "python", self.folder / "poela"
        for path, first in ((self.python, []), (self.poela, [str(Path(sys.executable).with_name("poela"))])):
            head = f"#!{sys.executable} -SIB\nPLACE, FIRST = {str(self.place)!r}, {first!r}\n"
            path.write_text(head + RUNNER, encoding="utf-8")
            path.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.place))
            listening.listen(64)
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno()), str(self.python)],
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
                cwd=ROOT,
                pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,  # it ends when this does
                start_new_session=True,
            )


@functools.cache
def warm() -> Warm:
    """The warm process of this one, started when it is first needed; it ends when this one does."""
    return Warm()


def serve(listening: socket.socket, python: str) -> None:
    """Fork for everybody who connects."""
    _import_everything()
    os.fsync = lambda fd: None  # no test cuts the power
    signal.signal(signal.SIGCHLD, _reap)
    threads = threading.active_count()
    assert threads == 1, "a process of several threads cannot be forked"
    while listening.fileno() in select.select([listening.fileno(), 0], [], [])[0]:
        link, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _attend(link, python)
        link.close()
    shutil.rmtree(Path(python).parent)


def _reap(number: int, frame: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import_everything() -> None:
    import poela

    for module in pkgutil.walk_packages(poela.__path__, "poela."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)
    for name in MORE:
        with suppress(ImportError):
            importlib.import_module(name)


# What the library imports only where it is needed.
MORE = (
    *("jinja2", "onnx", "onnxruntime", "pandas", "pyarrow.compute", "pyarrow.csv", "pyarrow.pandas_compat"),
    *("pyarrow.parquet", "rich.console", "rich.progress", "rich.table", "safetensors.torch", "scipy.optimize"),
    *("scipy.sparse", "scipy.spatial", "scipy.special", "scipy.stats", "sklearn.ensemble", "sklearn.isotonic"),
    *("sklearn.linear_model", "sklearn.model_selection", "sklearn.neighbors", "sklearn.tree", "torch", "typer.main"),
)


def _attend(link: socket.socket, python: str) -> None:
    """Fork once more, tell who that is and, at its end, how it ended; kill it if the one who asked is gone."""
    head, streams, _, _ = socket.recv_fds(link, LENGTH, 3)
    length, content = int.from_bytes(head, "big"), b""
    while len(content) < length:
        part = link.recv(length - len(content))
        if not part:  # killed before it could ask
            os._exit(0)
        content += part
    child = os.fork()
    if child == 0:
        link.close()
        _become(json.loads(content), streams, python)
    for stream in streams:
        os.close(stream)
    with suppress(ConnectionError):
        link.sendall(child.to_bytes(CODE, "big", signed=True))

    def watch() -> None:
        with suppress(ConnectionError):
            link.recv(1)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(ConnectionError):  # nobody is there any longer
        link.sendall(code.to_bytes(CODE, "big", signed=True))
    os._exit(0)


def _become(order: dict[str, Any], streams: list[int], python: str) -> None:
    """Run what was asked for as a process of its own would."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.executable = python
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    if "ipykernel_launcher" in order["arguments"] and "pandas" in sys.modules:
        # What it sets when a notebook imports it; here it was imported before there was one.
        sys.modules["pandas"].set_option("display.max_columns", 20)
    code = 1
    try:
        _run(order["arguments"])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # as Python itself ends: executors let their threads go first
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(arguments: list[str]) -> None:
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())
        if not hasattr(sys.modules.get(rest[0]), "__path__"):
            sys.modules.pop(rest[0], None)  # it is about to be run
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(first).resolve().parent))
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
