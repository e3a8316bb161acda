"""The forms of what workers send."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from tallyman.control.target.package import MadeTarget
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus
from tallyman.errors import UsageError

MOST_EVENTS = 10_000
MOST_OF_ERROR = 10_000
LONGEST_WAIT_S = 20.0
Big = Annotated[int, Field(ge=-(2**63), lt=2**63)]
PoolName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ClaimForm(Form):
    """A claim of one task, or without `task_id` of the next task of the pools; without `pools`,
    of any pool."""

    worker_id: str = Field(max_length=200, pattern=r"^[\x20-\x7e]+$")
    task_id: UUID | None = None
    pools: list[PoolName] = Field(default_factory=list[str], max_length=50)
    wait_s: float = Field(default=0, ge=0, le=LONGEST_WAIT_S)
    answer_lost: bool = False
    """The worker never got the answer to its last claim: if that had success, answer it again."""


class FencedForm(Form):
    task_id: UUID
    attempt: int = Field(ge=1, lt=2**31)
    lease_token: UUID

    @property
    def fence(self) -> Fence:
        return Fence(task=self.task_id, attempt=self.attempt, lease_token=self.lease_token)


class EventForm(Form):
    dataset_uuid: UUID
    dataset_version: UUID | None = None
    partition_key: str | None = None
    cursor: str | None = None
    start: Big | None = None
    end: Big | None = None

    @property
    def event(self) -> Event:
        scope = Scope(
            partition_key=self.partition_key, cursor=self.cursor, start=self.start, end=self.end
        )
        return Event(dataset=self.dataset_uuid, version=self.dataset_version, scope=scope)


class EventsForm(FencedForm):
    events: list[EventForm] = Field(max_length=MOST_EVENTS)


class ErrorForm(BaseModel):
    """Why an attempt failed; `output` is the end of what it printed."""

    code: str = Field(default="error", max_length=100)
    message: str = ""
    output: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        found = {"code": self.code, "message": self.message, "output": self.output}
        return {name: _storable(text[:MOST_OF_ERROR]) for name, text in found.items() if text}


def _storable(text: str) -> str:
    """Replace what PostgreSQL cannot store: what a child printed may be any bytes."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _all_storable(found: Any) -> Any:
    if isinstance(found, dict):
        return {_storable(str(name)): _all_storable(each) for name, each in found.items()}
    if isinstance(found, list):
        return [_all_storable(each) for each in found]
    return _storable(found) if isinstance(found, str) else found


class CompleteForm(FencedForm):
    status: ReportStatus
    events: list[EventForm] = Field(default_factory=list[EventForm], max_length=MOST_EVENTS)
    retryable: bool = True
    error: ErrorForm | None = None
    made: dict[str, Any] | None = None
    """The outcome of a task that makes a target."""

    @property
    def outcome(self) -> MadeTarget | None:
        if self.made is None:
            return None
        try:
            return MadeTarget.of_json(_all_storable(self.made))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"made: {type(error).__name__}: {error}") from None

    @property
    def report(self) -> AttemptReport:
        return AttemptReport(
            fence=self.fence,
            status=self.status,
            events=[one.event for one in self.events],
            retryable=self.retryable,
            error=self.error.facts if self.error else None,
        )
