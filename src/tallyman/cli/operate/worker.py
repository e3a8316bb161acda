"""`tallyman worker`: do the work of tasks; and the tokens of workers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyman.cli.terminal.log import logging_to_terminal
from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import answer, counted, err, listed, out
from tallyman.errors import UsageError
from tallyman.on_demand import OnDemand
from tallyman.settings import INSECURE_VARIABLE, SERVER_VARIABLE, Secret
from tallyman.worker.client import ServerClient

if TYPE_CHECKING:
    from tallyman.worker import worker as at_work
else:
    at_work = OnDemand("tallyman.worker.worker")

MOST_AT_ONCE = 64
worker = typer.Typer(
    help="Do the work of tasks, and manage the tokens of workers.",
    invoke_without_command=True,
)
token = typer.Typer(help="Make, list and revoke the tokens of workers.", no_args_is_help=True)


@worker.callback(
    epilog="Example:  tallyman worker token create ann --file ann.token; "
    "tallyman worker --server http://127.0.0.1:7401 --token-file ann.token"
)
def work(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            help="The address that `tallyman server` prints: http://…, https://… or unix:path.",
            envvar=SERVER_VARIABLE,
            show_envvar=True,
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(help="A file with a token of `tallyman worker token create`; - is stdin."),
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(help="Only tasks of this pool; repeatable. Default: of all pools."),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="How many tasks to do at once.")] = 1,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Allow http:// to another machine: others could read the token on the way.",
            envvar=INSECURE_VARIABLE,
            show_envvar=True,
        ),
    ] = False,
    with_server: Annotated[
        bool, typer.Option("--with-server", hidden=True, help="End when stdin ends.")
    ] = False,
    json_output: AsJson = False,
) -> None:
    """Do the work of tasks: claim them from a server, and make their results.

    Needs no project and no database, only the server, the token, and the folders of the project
    (its warehouse and its runs) at the same paths. Runs until Ctrl-C or SIGTERM; then it finishes
    the tasks that have begun. A second Ctrl-C ends it at once.
    """
    if context.invoked_subcommand is not None:
        return
    if server is None or token_file is None:
        raise UsageError("a worker needs --server URL and --token-file FILE")
    if not 1 <= concurrency <= MOST_AT_ONCE:
        raise UsageError(f"--concurrency is a number from 1 to {MOST_AT_ONCE}, not {concurrency}")
    calls = ServerClient(server, _token(token_file), insecure=insecure)
    made = at_work.Worker(calls, at_work.ENTRIES, pool or [], concurrency=concurrency)
    with logging_to_terminal(as_json=json_output), _draining(made, quiet=with_server):
        if with_server:
            threading.Thread(target=_drain_at_end, args=(made,), daemon=True).start()
        elif not json_output:
            what = f"{counted(concurrency, 'task')} at once of {', '.join(pool or ['all pools'])}"
            out.print(f"works for {server}: {what}")
            out.print("to end it: Ctrl-C or SIGTERM; it finishes the tasks that have begun")
        made.run()
    if not json_output:
        out.print("ended")


def _private_text(file: str) -> str:
    with open(file, encoding="ascii") as opening:
        mode = os.fstat(opening.fileno()).st_mode & 0o777
        if mode & 0o077:
            raise UsageError(f"--token-file: others can read it ({mode:03o}): chmod 600 {file}")
        return opening.read()


def _token(file: str) -> Secret:
    try:
        text = sys.stdin.readline() if file == "-" else _private_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file: {file} cannot be read: {error}") from None
    words = text.split()
    if len(words) != 1:
        raise UsageError(f"--token-file: expected one token in {file}, not {len(words)} words")
    return Secret(words[0])


@contextmanager
def _draining(made: at_work.Worker, *, quiet: bool) -> Iterator[None]:
    """Drain at the first SIGINT or SIGTERM, and end at once at the second."""

    def stop(number: int, _: Any) -> None:
        if made.draining:
            os._exit(128 + number)  # the children end with this process
        made.drain()
        if not quiet:
            err.print("ending: tasks that have begun are finished; Ctrl-C again ends at once")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drain_at_end(made: at_work.Worker) -> None:
    """Drain when the server that started this worker is gone."""
    while os.read(0, 1024):
        pass
    made.drain()


@token.command(epilog="Example:  tallyman worker token create machine-2 --file worker.token")
def create(
    name: Annotated[str, typer.Argument(help="For which worker or machine it is.")],
    file: Annotated[
        Path | None,
        typer.Option(help="Write it to this new file, which only you can read; or print it."),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Make a token. It is shown once; the database keeps only its hash.

    Whoever has it can claim and complete all tasks of this pipeline.
    """
    if file is not None and file.exists():
        raise UsageError(f"{file} exists; name a new file")
    made = opened(project).workers.make_token(name)
    if file is not None:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opening:
            opening.write(made.reveal() + "\n")
    place = {"file": str(file)} if file else {"token": made.reveal()}
    text = f"token {name} is in {file}; only you can read it" if file else made.reveal()
    answer({"name": name, **place}, text, json_output)


@token.command("ls", epilog="Example:  tallyman worker token ls --json")
def list_tokens(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """List tokens by name, newest first, and how many tasks run with each."""
    rows = [
        {
            "name": one.name,
            "created_at": f"{one.created_at:%Y-%m-%dT%H:%M:%SZ}",
            "revoked_at": f"{one.revoked_at:%Y-%m-%dT%H:%M:%SZ}" if one.revoked_at else None,
            "running": one.running,
        }
        for one in opened(project).workers.tokens()
    ]
    none = "no tokens; make one:  tallyman worker token create NAME"
    listed(rows, ("name", "created_at", "revoked_at", "running"), none, json_output)


@token.command(epilog="Example:  tallyman worker token revoke machine-2")
def revoke(
    name: Annotated[str, typer.Argument(help="The name of the token.")],
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Refuse a token from now on, within two seconds.

    What its worker has begun is taken over by another one.
    """
    opened(project).workers.revoke_token(name)
    answer({"name": name, "revoked": True}, f"token {name} is refused from now on", json_output)


worker.add_typer(token, name="token")
