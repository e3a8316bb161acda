"""Approvals: a person's yes before an asset's result counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from tallyman.errors import UsageError

HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question asked after the ledger balanced, if `when` is true for the result's rows."""

    message: str
    when: str | None = None
    timeout_s: int = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's answer. `key` distinguishes one answer sent twice from two answers."""

    approved: bool
    actor: str
    reason: str | None
    modifications: Mapping[str, str] = field(default_factory=dict)
    """The conditions of the answer, by name. They are kept with it; rows are never changed."""
    key: UUID = field(default_factory=uuid4)

    @property
    def word(self) -> str:
        return "approved" if self.approved else "rejected"


def approval(message: str, when: str | None = None, *, timeout_s: int = HOUR) -> Approval:
    """Declare an approval: `approval("large payout", when="sum(total) > 1000000")`.

    Without `when`, the approval is always asked for.
    """
    if not message.strip():
        raise UsageError("approval needs a message that says what is to be decided")
    if timeout_s <= 0:
        raise UsageError(f"approval: timeout_s is a number of seconds above 0, not {timeout_s}")
    return Approval(message=message, when=when, timeout_s=timeout_s)
