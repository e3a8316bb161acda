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

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"the database ({self.place}) does not answer: {self.reason}"


class DatabaseNewer(TallymanError):
    """A newer release of Tallyman has already migrated the tables."""

    code = "database_newer"
    exit_code = 2
    hint = "Nothing was changed. Install the release of Tallyman that the other users have."

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found, self.known = found, known

    def __str__(self) -> str:
        return (
            f"the database is at version {self.found}, and this program knows only "
            f"up to version {self.known}."
        )


class DatabaseBehind(TallymanError):
    """The tables are older than this release, in a database that Tallyman does not own."""

    code = "database_behind"
    exit_code = 2
    hint = "Nothing was changed. Run `tallyman db migrate` as the owner of the tables."

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(found, needed)
        self.found, self.needed = found, needed

    def __str__(self) -> str:
        return f"the database is at version {self.found}; this program needs {self.needed}."


class NoReader(TallymanError):
    """A server that is not ours has no role that can only read the published catalog."""

    code = "no_reader"
    exit_code = 2
    hint = (
        "Nothing was printed for outside readers. As the owner of the tables, make a reader: "
        "CREATE ROLE reader LOGIN PASSWORD '…'; "
        "GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO reader; "
        "and ask again. `tallyman db url --owner` prints the address you configured; its role can "
        "change tables."
    )

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place

    def __str__(self) -> str:
        return f"the database ({self.place}) has no role that can only read the published catalog."
