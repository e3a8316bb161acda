"""The base of all errors, and errors about the call itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


class TallymanError(Exception):
    """The base error: its text says what happened, with numbers; its hint what to do next."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def facts(self) -> dict[str, object]:
        return {
            "code": self.code,
            "message": str(self),
            "hint": self.hint,
            "retryable": self.retryable,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a definition: its place, what is wrong, and the nearest existing name."""

    where: str
    message: str
    nearest: str | None = None
    file: str | None = None
    """The file with the mistake, relative to the project; None if it is not known."""
    line: int | None = None

    def __str__(self) -> str:
        if not self.nearest:
            return f"{self.where}: {self.message}"
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.where}: {self.message}{stop} Did you mean {self.nearest!r}?"


class UsageError(TallymanError):
    """The command or call itself is wrong."""

    code = "usage_error"
    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)


class NotFound(TallymanError):
    """The requested run, asset or row does not exist."""

    code = "not_found"
    exit_code = 2

    def __init__(self, what: str, name: str, nearest: str | None = None) -> None:
        super().__init__(what, name, nearest)
        self.what, self.name, self.nearest = what, name, nearest

    def __str__(self) -> str:
        suggestion = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return f"there is no {self.what} {self.name!r}.{suggestion}"


class RecordedError(TallymanError):
    """An error that another process met and recorded: the same text, code and exit code."""

    def __init__(self, recorded: Mapping[str, object], exit_code: int) -> None:
        super().__init__(recorded, exit_code)
        self.recorded, self._exit_code = recorded, exit_code

    @property
    def code(self) -> str:  # type: ignore[override]
        return str(self.recorded.get("code", "error"))

    @property
    def hint(self) -> str:  # type: ignore[override]
        return str(self.recorded.get("hint", ""))

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self._exit_code

    def __str__(self) -> str:
        return str(self.recorded.get("message", ""))

    def facts(self) -> dict[str, object]:
        return dict(self.recorded)


class Conflict(TallymanError):
    """The current state is not the one that the command assumed."""

    code = "conflict"
    exit_code = 4
