"""A server that is told to end while it is starting."""

import subprocess
from pathlib import Path

from tests.serving.episodes import logs
from tests.warm import warm

from poela.learners.consensus import Consensus

# What `poela serve` does, with a signal in the moment before uvicorn listens for signals. Else it ends by itself.
SCRIPT = """
import signal, sys, threading
from pathlib import Path
from poela.core.interruption import deferred_signals
from poela.serving.server import listening, server_of
from poela.serving.source import open_policy
from tests.warm import warm

server = server_of(open_policy(Path(sys.argv[1])), None)
late = threading.Timer(60, lambda: setattr(server, "should_exit", True))
late.daemon = True
late.start()
with deferred_signals(), listening("127.0.0.1", 0) as socket:
    signal.raise_signal(signal.SIGTERM)
    try:
        server.run(sockets=[socket])
        print("went on")
    except KeyboardInterrupt:
        print("ended")
"""


def test_a_signal_before_the_server_listens_for_signals_is_not_forgotten(tmp_path: Path) -> None:
    Consensus().fit(logs()).save(tmp_path / "policy")
    done = subprocess.run(
        [str(warm().python), "-c", SCRIPT, str(tmp_path / "policy")], capture_output=True, text=True, timeout=6000
    )
    assert done.stdout.split("\n")[0] == "ended", done.stderr
