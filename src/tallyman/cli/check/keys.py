"""`tallyman keys`: make and list the key pairs that sign seals."""

from __future__ import annotations

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, table
from tallyman.control.seal import keys as key_pairs
from tallyman.control.seal.keys import NewKey

keys = typer.Typer(
    help="Make and list the keys that sign and check seals.",
    no_args_is_help=True,
)


@keys.command(epilog="Example:  tallyman keys init && git add keys")
def init(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Make the key pair that signs every seal from now on.

    An existing private key is never overwritten.
    """
    _show(key_pairs.init(opened(project).settings), json_output)


@keys.command(epilog="Example:  tallyman keys rotate && git add keys")
def rotate(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Replace the key pair with a new one that signs from now on.

    Old public keys stay, so old seals can still be checked.
    """
    _show(key_pairs.rotate(opened(project).settings), json_output)


def _show(made: NewKey, json_output: bool) -> None:
    if json_output:
        as_json(made.to_json())
        return
    out.print(f"key          {made.key}")
    out.print(f"public key   {made.public}   commit it: seals are checked with it")
    out.print(f"private key  {made.private}   only you can read it")
    if made.kept:
        out.print(f"old key      {made.kept}   move it to a safe place, or delete it")
    out.print(
        "Anyone who has the private key can sign anything. Move it where this machine's backups "
        "do not\nreach it, and set its path: TALLYMAN_SIGNING_KEY=path, or signing_key: in "
        "tallyman.yaml."
    )


@keys.command("ls", epilog="Example:  tallyman keys ls --json")
def list_keys(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """List the project's public keys, and which one signs now."""
    found = key_pairs.known(opened(project).settings).to_json()
    if json_output:
        as_json(found)
        return
    rows = [{**row, "signs": "now" if row["signs"] else ""} for row in found["keys"]]
    if rows:
        table(rows, ("key_id", "file", "signs"))
    if found["problem"]:
        out.print(f"private key {found['private_key']}: {found['problem']}")
    elif found["signs"] is None:
        out.print("no private key: seals are not signed.  To make one:  tallyman keys init")
    else:
        out.print(f"private key {found['private_key']}")
