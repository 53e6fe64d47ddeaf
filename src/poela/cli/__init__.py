"""The command line: `poela simulate · learn · evaluate · plan · decide · studies · reproduce`."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 (done), 1 (could not), 2 (bad input or usage)."""
    from poela.core.interruption import deferred_signals

    with deferred_signals():  # before anything else is imported, so that a Ctrl-C finds the same words at any moment
        from poela.cli.application import run

        return run(arguments)
