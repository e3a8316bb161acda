"""The base of all errors, and errors about the call itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import ClassVar, dataclass_transform


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class TallymanError(Exception):
    """The base error. A subclass is a dataclass of its facts, with a text about them."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""
    """What to do next."""
    text: ClassVar[str] = ""
    """What happened: a format of the facts. One that has several values shows them with commas."""

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.__doc__ or cls.text
        dataclass(eq=False, repr=False, match_args=False)(cls)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                setattr(self, name, tuple(value))
        # An exception is pickled by its arguments.
        self.args = tuple(value for each, value in self._fields() if each.init)

    def _fields(self) -> Iterator[tuple[Field[object], object]]:
        return ((each, getattr(self, each.name)) for each in fields(self))  # type: ignore[arg-type]

    def __str__(self) -> str:
        shown = {
            each.name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
            for each, value in self._fields()
        }
        return self.text.format_map(shown)

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


class Mistakes(TallymanError):
    """Something that was written has mistakes; all are reported together."""

    written: ClassVar[str]
    exit_code = 2
    problems: Sequence[Problem]

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} mistake{'s' if count != 1 else ''} in the {self.written}"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])

    def facts(self) -> dict[str, object]:
        listed = [
            {"where": p.where, "message": p.message, "nearest": p.nearest} for p in self.problems
        ]
        return {**super().facts(), "problems": listed}


class UsageError(TallymanError):
    """The command or call itself is wrong."""

    code = "usage_error"
    exit_code = 2
    text = "{message}"
    message: str


class NotFound(TallymanError):
    code = "not_found"
    exit_code = 2
    text = "there is no {what} {name!r}."
    what: str
    name: str
    nearest: str | None = None

    def __str__(self) -> str:
        suggestion = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return super().__str__() + suggestion


class RecordedError(TallymanError):
    """An error that another process met and recorded: the same text, code and exit code."""

    recorded: Mapping[str, object]
    exited: int

    @property
    def code(self) -> str:  # type: ignore[override]
        return str(self.recorded.get("code", "error"))

    @property
    def hint(self) -> str:  # type: ignore[override]
        return str(self.recorded.get("hint", ""))

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.exited

    def __str__(self) -> str:
        return str(self.recorded.get("message", ""))

    def facts(self) -> dict[str, object]:
        return dict(self.recorded)


class Conflict(TallymanError):
    """The current state is not the one that the command assumed."""

    code = "conflict"
    exit_code = 4
