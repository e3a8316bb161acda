"""Errors about the database: it does not answer, or its tables are of another version."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class DatabaseUnavailable(TallymanError):
    code = "database_unavailable"
    retryable = True
    hint = (
        "Nothing was lost: everything that was committed is still in the database. "
        "`tallyman db status` shows more."
    )
    text = "the database ({place}) does not answer: {reason}"
    place: str
    reason: str


class DatabaseNewer(TallymanError):
    """A newer release of Tallyman has already migrated the tables."""

    code = "database_newer"
    exit_code = 2
    hint = "Nothing was changed. Install the release of Tallyman that the other users have."
    text = "the database is at version {found}, and this program knows only up to version {known}."
    found: int
    known: int


class DatabaseBehind(TallymanError):
    """The tables are older than this release, in a database that Tallyman does not own."""

    code = "database_behind"
    exit_code = 2
    hint = "Nothing was changed. Run `tallyman db migrate` as the owner of the tables."
    text = "the database is at version {found}; this program needs {needed}."
    found: int
    needed: int


class OtherFormat(TallymanError):
    """A project or a database that was made by a Tallyman with other formats."""

    code = "other_format"
    exit_code = 2
    hint = (
        "Nothing of it was changed or deleted; the Tallyman that made it can read it. To use this "
        "one, run the assets again with a new `.tallyman` (move the old folder away) and, if a "
        "database is configured, a new database."
    )
    text = "{place} was made by {made_by}."
    place: str
    made_by: str


class NoReader(TallymanError):
    code = "no_reader"
    exit_code = 2
    hint = (
        "Nothing was printed for outside readers. As the owner of the tables, make a reader: "
        "CREATE ROLE reader LOGIN PASSWORD '…'; "
        "GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO reader; "
        "and ask again. `tallyman db url --owner` prints the address you configured; its role can "
        "change tables."
    )
    text = "the database ({place}) has no role that can only read the published catalog."
    place: str
