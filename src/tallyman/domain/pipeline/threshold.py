"""Thresholds: how many rejections an asset tolerates before its run halts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import UNITS, Ledger
from tallyman.domain.account.sub_tally import sub_tallies
from tallyman.errors import UsageError

REACTIONS = ("halt", "warn", "allow")
"""What can be done about an input that is empty or shrank."""
KINDS: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}


@dataclass(frozen=True, slots=True)
class Halt:
    """An exceeded threshold: `errors` of `total` units were rejected, more than `threshold`."""

    reason: str
    errors: int
    threshold: float
    total: int
    unit: str = "record"

    @property
    def rejected(self) -> str:
        return f"{self.errors:,} of {self.total:,} {UNITS[self.unit]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Limits for rejections: strictly more than `absolute` (0: no limit) or `percentage` halts.

    They hold for records, and separately for the children and the groups that an asset makes of
    them. A limit that is None equals the limit for records.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "default": {"absolute": 10_000, "percentage": 0.05},
        "strict": {"absolute": 100, "percentage": 0.01},
        "permissive": {"absolute": 100_000, "percentage": 0.20},
    }

    absolute: int = 10_000
    percentage: float = 0.05
    window: int = 10_000
    """The number of records that the circuit breaker checks first; 0 turns it off."""
    breaker: float = 0.05
    """The share of unreadable records in that window that halts, or `percentage` if larger."""
    on_break: str | None = None
    """`hold`: after the breaker tripped, the asset is not made until somebody closes it. None: the
    next run tries again.
    """
    on_empty: str | None = None
    """What an input without records does. None: `halt` for references, `warn` for all others."""
    on_shrink: str | None = None
    """What an input with less than half of its earlier records does. None: `halt`."""
    children_absolute: int | None = None
    children_percentage: float | None = None
    groups_absolute: int | None = None
    groups_percentage: float | None = None

    def __post_init__(self) -> None:
        for name in ("percentage", "breaker", "children_percentage", "groups_percentage"):
            share = getattr(self, name)
            if share is not None:
                object.__setattr__(self, name, float(share))  # 1 and 1.0 have one hash
            if share is not None and name != "breaker" and not 0 <= share <= 1:
                raise UsageError(f"thresholds: {name} must be within 0 and 1, not {share}")
        for name in ("absolute", "window", "children_absolute", "groups_absolute"):
            if (getattr(self, name) or 0) < 0:
                raise UsageError(f"thresholds: {name} must not be negative")
        if self.on_break not in (None, "hold"):
            raise UsageError(f"thresholds: on_break is hold, not {self.on_break!r}")
        for name in ("on_empty", "on_shrink"):
            if (given := getattr(self, name)) not in (None, *REACTIONS):
                raise UsageError(f"thresholds: {name} is halt, warn or allow, not {given!r}")

    def check(self, errors: int, total: int, unit: str = "record") -> Halt | None:
        """Check the absolute limit, then the rate; only a greater number exceeds it."""
        absolute, percentage = self._limits(unit)
        if absolute > 0 and errors > absolute:
            return Halt("AbsoluteCount", errors, absolute, total, unit)
        if total > 0 and errors / total > percentage:
            return Halt("PercentageRate", errors, percentage, total, unit)
        return None

    def check_ledger(self, ledger: Ledger) -> Halt | None:
        """Check the records, then each sub-ledger by its own counts."""
        halt = self.check(ledger.fates[Fate.ERROR], ledger.records_in)
        for made in sub_tallies(ledger):
            halt = halt or self.check(made.rejected, made.units_in, made.unit)
        return halt

    def _limits(self, unit: str) -> tuple[int, float]:
        absolute, percentage = None, None
        if unit == "child":
            absolute, percentage = self.children_absolute, self.children_percentage
        elif unit in ("group", "row"):  # rows that a working set adds are groups of its rows
            absolute, percentage = self.groups_absolute, self.groups_percentage
        return (
            self.absolute if absolute is None else absolute,
            self.percentage if percentage is None else percentage,
        )

    def to_json(self) -> dict[str, object]:
        """Convert to JSON, without limits that equal those for records."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def of(cls, given: Thresholds | str | Mapping[str, object] | None) -> Thresholds:
        """Read thresholds from a preset's name, `absolute=0,percentage=0.001`, a mapping, or
        nothing.
        """
        if isinstance(given, Thresholds):
            return given
        if given is None:
            return cls()
        if isinstance(given, str):
            pieces = [piece.partition("=") for piece in given.split(",")]
            given = cls.PRESETS.get(given) or {name: value for name, _, value in pieces}
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise UsageError(f"thresholds: expected a preset or limits by name, not a {kind}")
        # By the first word of the annotation: `int | None` takes what int reads.
        kinds = {f.name: KINDS[str(f.type).partition(" ")[0]] for f in fields(cls)}
        if unknown := given.keys() - kinds.keys():
            raise UsageError(
                f"thresholds: unknown {', '.join(sorted(map(repr, unknown)))}; use a preset "
                f"({', '.join(cls.PRESETS)}) or {', '.join(kinds)}"
            )
        try:
            typed = {name: kinds[name](str(value)) for name, value in given.items()}
        except ValueError as error:
            raise UsageError(f"thresholds: {error}") from None
        return cls(**typed)


ANYTHING = Thresholds(absolute=0, percentage=1.0, window=0, on_empty="allow", on_shrink="allow")
"""Thresholds that never halt."""
