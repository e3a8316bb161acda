"""How many rejections an asset bears before its run halts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from tallyman.errors import UsageError


@dataclass(frozen=True, slots=True)
class Halt:
    reason: str
    errors: int
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Strictly more than `absolute` records (0: no limit) or than the share `percentage` halts."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "default": {"absolute": 10_000, "percentage": 0.05},
        "strict": {"absolute": 100, "percentage": 0.01},
        "permissive": {"absolute": 100_000, "percentage": 0.20},
    }

    absolute: int = 10_000
    percentage: float = 0.05
    window: int = 10_000
    """Records the circuit breaker looks at before the run reads on; 0 turns it off."""
    breaker: float = 0.05
    """The share of unreadable records in that window that trips it, or `percentage` if larger."""
    on_halt: str = "rollback"
    on_empty: str = "warn"

    def __post_init__(self) -> None:
        if not 0 <= self.percentage <= 1:
            raise UsageError(
                f"thresholds: percentage must be within 0 and 1, not {self.percentage}"
            )
        if self.absolute < 0 or self.window < 0:
            raise UsageError("thresholds: absolute and window must not be negative")
        if self.on_halt not in ("rollback", "commit"):
            raise UsageError(f"thresholds: on_halt is rollback or commit, not {self.on_halt!r}")
        if self.on_empty not in ("warn", "halt"):
            raise UsageError(f"thresholds: on_empty is warn or halt, not {self.on_empty!r}")

    def check(self, errors: int, total: int) -> Halt | None:
        """The absolute limit first, then the rate; both strictly greater."""
        if self.absolute > 0 and errors > self.absolute:
            return Halt("AbsoluteCount", errors, self.absolute)
        if total > 0 and errors / total > self.percentage:
            return Halt("PercentageRate", errors, self.percentage)
        return None

    def to_json(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def of(cls, given: Thresholds | str | Mapping[str, object] | None) -> Thresholds:
        """From a preset's name, `absolute=0,percentage=0.001`, a mapping, or nothing."""
        if isinstance(given, Thresholds):
            return given
        if given is None:
            return cls()
        if isinstance(given, str):
            if given in cls.PRESETS:
                return cls._from(cls.PRESETS[given])
            parts = [part.partition("=") for part in given.split(",")]
            given = {name: value for name, _, value in parts}
        return cls._from(given)

    @classmethod
    def _from(cls, values: Mapping[str, object]) -> Thresholds:
        kinds = {
            "absolute": int,
            "percentage": float,
            "window": int,
            "breaker": float,
            "on_halt": str,
            "on_empty": str,
        }
        unknown = set(values) - {f.name for f in fields(cls)}
        if unknown:
            raise UsageError(
                f"thresholds: unknown {', '.join(sorted(map(repr, unknown)))}; use a preset "
                f"({', '.join(cls.PRESETS)}) or {', '.join(kinds)}"
            )
        try:
            typed = {name: kinds[name](str(value)) for name, value in values.items()}
        except ValueError as error:
            raise UsageError(f"thresholds: {error}") from None
        return cls(**typed)  # type: ignore[arg-type]
