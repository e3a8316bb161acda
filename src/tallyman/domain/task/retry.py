"""Retry policies: how many attempts a task gets, how long each may take, and the pauses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tallyman.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FACTOR = 3
MOST_ATTEMPTS = 100
LONGEST_S = 30 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The pause before attempt n + 1 is `backoff_s` times 3 to the power of n - 1, capped."""

    attempts: int = 3
    timeout_s: int = 1800
    """The time limit of one attempt."""
    backoff_s: int = 30
    backoff_cap_s: int = 300

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise UsageError(
                f"retry: attempts is 1 to {MOST_ATTEMPTS}, not {self.attempts}; 1 means no retry"
            )
        if not 1 <= self.timeout_s <= LONGEST_S:
            raise UsageError(f"retry: timeout is 1s to 30d, not {self.timeout_s}s")
        if not 0 <= self.backoff_s <= self.backoff_cap_s <= LONGEST_S:
            raise UsageError(
                f"retry: backoff is 0s to its cap of {self.backoff_cap_s}s, not {self.backoff_s}s"
            )

    @property
    def delays_s(self) -> list[int]:
        """The pause after each failure that is followed by a retry; one less than attempts."""
        pauses: list[int] = []
        pause = self.backoff_s
        for _ in range(self.attempts - 1):
            pauses.append(min(pause, self.backoff_cap_s))
            pause = min(pause * FACTOR, self.backoff_cap_s)
        return pauses


def retry(
    attempts: int = 3, timeout: str = "30m", backoff: str = "30s", backoff_cap: str = "5m"
) -> RetryPolicy:
    """Declare how often a target is tried, how long each try may take, and the pauses between:
    `retry(attempts=3, timeout="30m", backoff="30s", backoff_cap="5m")`."""
    return RetryPolicy(
        attempts=attempts,
        timeout_s=seconds("retry: timeout", timeout),
        backoff_s=seconds("retry: backoff", backoff),
        backoff_cap_s=max(
            seconds("retry: backoff_cap", backoff_cap), seconds("retry: backoff", backoff)
        ),
    )


def seconds(what: str, text: str) -> int:
    """Return the seconds of a duration such as 30s, 5m or 2h."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip()) if isinstance(text, str) else None
    if not found:
        raise UsageError(f"{what}: expected a number and s, m, h or d, not {text!r}")
    return int(found[1]) * UNITS[found[2]]
