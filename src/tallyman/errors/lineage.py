"""Lineage events could not be sent. They are kept: nothing here loses one or fails a run."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class NoDestination(TallymanError):
    """Events wait, and nothing says where they go."""

    code = "no_lineage_destination"
    hint = (
        "They are kept, and sent in order once there is one: set OPENLINEAGE_URL, or put an "
        "openlineage.yml into the project's folder. `tallyman lineage flush --help` shows both."
    )

    def __init__(self, waiting: int, *, disabled: bool = False) -> None:
        super().__init__(waiting, disabled)
        self.waiting, self.disabled = waiting, disabled

    def __str__(self) -> str:
        why = "OPENLINEAGE_DISABLED is true" if self.disabled else "no destination is configured"
        return f"0 lineage events were sent and {self.waiting:,} wait: {why}."


class DestinationUnusable(TallymanError):
    """What is configured cannot be read or used."""

    code = "lineage_destination_unusable"
    hint = "No event was sent or lost. Correct it, then `tallyman lineage flush`."

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class LineageNotSent(TallymanError):
    """The receiver did not take an event; it and those after it wait."""

    code = "lineage_not_sent"
    retryable = True
    hint = (
        "Those that wait are kept in order. When the receiver is well again: "
        "`tallyman lineage flush`; the next run sends them too."
    )

    def __init__(self, place: str, sent: int, waiting: int, reason: str) -> None:
        super().__init__(place, sent, waiting, reason)
        self.place, self.sent, self.waiting, self.reason = place, sent, waiting, reason

    def __str__(self) -> str:
        events = "event was" if self.sent == 1 else "events were"
        return (
            f"{self.sent:,} lineage {events} sent to {self.place} and {self.waiting:,} wait: "
            f"{self.reason}"
        )
