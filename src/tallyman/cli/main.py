"""The command line program: it runs a command and handles errors and signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tallyman import __version__
from tallyman.cli.commands import Commands
from tallyman.cli.terminal.options import close_all
from tallyman.cli.terminal.output import failure, interrupted
from tallyman.errors import StorageFailed, TallymanError

app = typer.Typer(
    name="tallyman",
    cls=Commands,
    help="PySpark pipelines in which every row is accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 ok; 1 a run, check or accounting failure; 2 usage or definition error; "
    "3 threshold or breaker tripped; 4 conflict; 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tallyman {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command. Print an error as a message and a hint; with --debug, as a stack trace."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments or bool(os.environ.get("TALLYMAN_DEBUG"))
    sys.argv = [sys.argv[0], *(a for a in arguments if a != "--debug")]
    try:
        with _stopped_by_sigterm():
            app()
    except TallymanError as error:
        if debug:
            raise
        failure(error, json_output="--json" in arguments)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        if debug:
            raise
        storage = StorageFailed("this command", f"{error.strerror or error}: {error.filename}")
        failure(storage, json_output="--json" in arguments)
        sys.exit(storage.exit_code)
    except KeyboardInterrupt as error:
        interrupted(error)
        sys.exit(130)
    finally:
        close_all()


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM, which schedulers send, like Ctrl-C; a second SIGTERM ends the process at
    once. A process that ignores SIGTERM keeps ignoring it."""
    before = signal.getsignal(signal.SIGTERM)
    if before != signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    main()
