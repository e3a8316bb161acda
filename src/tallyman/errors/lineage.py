"""Errors about sending lineage events. Events are kept in the spool, and no run fails."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class NoDestination(TallymanError):
    """Events are waiting, and no destination is configured."""

    code = "no_lineage_destination"
    hint = (
        "The events are kept, and sent in order once a destination exists: set OPENLINEAGE_URL, or "
        "put openlineage.yml into the project folder. `tallyman lineage flush --help` shows both."
    )
    waiting: int
    disabled: bool = False

    def __str__(self) -> str:
        why = "OPENLINEAGE_DISABLED is true" if self.disabled else "no destination is configured"
        return f"0 lineage events were sent, {self.waiting:,} still waiting: {why}."


class DestinationUnusable(TallymanError):
    """The configured destination cannot be read or used."""

    code = "lineage_destination_unusable"
    hint = "No event was sent or lost. Correct the settings, then run `tallyman lineage flush`."
    text = "{where}: {reason}"
    where: str
    reason: str


class LineageNotSent(TallymanError):
    """The receiver did not accept an event; this event and all later ones wait."""

    code = "lineage_not_sent"
    retryable = True
    hint = (
        "Waiting events are kept in order. Once the receiver works again, run "
        "`tallyman lineage flush`; the next run sends them too."
    )
    place: str
    sent: int
    waiting: int
    reason: str

    def __str__(self) -> str:
        events = "event was" if self.sent == 1 else "events were"
        return (
            f"{self.sent:,} lineage {events} sent to {self.place}, {self.waiting:,} still waiting: "
            f"{self.reason}"
        )
