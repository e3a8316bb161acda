"""The queue as a protocol. It only wakes: the truth about tasks is in the database.

A message is exactly `{"task_id": …}`. Messages may be lost, doubled or late; that changes nothing
but latency. tests/contract/queue.py is the suite that every implementation has to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")
Handler = Callable[[Any, UUID], T | None]
"""Gets a transaction and the task of a message. Returns None if the message leads to nothing."""


class QueueBlocked(Exception):
    """No message of this queue can be handled before something else changes."""


@dataclass(frozen=True, slots=True)
class Wake:
    """A message to be sent: a task, the queue of its pool, and how urgent it is."""

    queue: str
    task: UUID
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was received. The receipt belongs to this delivery: after the message was
    delivered again, it acknowledges nothing."""

    id: str
    receipt: str
    task: UUID


class Queue(Protocol):
    def send(self, wakes: Sequence[Wake]) -> None:
        """Make the messages receivable, in their own transaction."""
        ...

    def receive(self, queues: Sequence[str], *, hidden_s: float, wait_s: float) -> Message | None:
        """Take the most urgent message of the queues and hide it from others for `hidden_s`. Wait
        up to `wait_s` for one."""
        ...

    def deliver(self, queues: Sequence[str], handler: Handler[T], *, wait_s: float) -> T | None:
        """Have messages of the queues handled, the most urgent of all queues first, until one leads
        to something. Each is removed once the handler's transaction is committed; what the handler
        raises leaves it there. After QueueBlocked the other queues go on, and this one when
        something is sent. Return what the handler returned, or None after `wait_s`. A queue in the
        same database needs no other transaction for it."""
        ...

    def extend(self, message: Message, hidden_s: float) -> bool:
        """Hide the message for longer; False if the receipt is no longer the last one."""
        ...

    def acknowledge(self, message: Message) -> bool:
        """Remove the message; False if the receipt is no longer the last one."""
        ...
