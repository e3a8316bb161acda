"""References: what a step looked up, and how many records found nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTally:
    """One reference of one step."""

    step: str
    name: str
    rows: int
    """The records that were read of the reference, before its own steps."""
    looked_up: int | None = None
    """The records that were looked up; None if they were not counted."""
    unmatched: int | None = None
    """Those of them that found no match."""
    limit: str | None = None
    """The most that may find none, as declared."""
    of_records: bool = True
    """False if groups or children of records were looked up."""

    @property
    def exceeded(self) -> bool:
        return self.limit is not None and exceeds(self.limit, self.unmatched, self.looked_up)

    def __str__(self) -> str:
        read = f"{self.name}, looked up in {self.step}: {self.rows:,} records read"
        return f"{read}, {self.without_match}" if self.unmatched is not None else read

    @property
    def without_match(self) -> str:
        """Say how many found nothing: `52 of 1,000 records (5.2 %) without a match`."""
        what = "records" if self.of_records else "rows"
        missed, total = self.unmatched or 0, self.looked_up or 0
        share = f" ({100 * missed / total:.1f} %)" if missed else ""
        return f"{missed:,} of {total:,} {what}{share} without a match"


def exceeds(limit: str, count: int | None, total: int | None) -> bool:
    """True if more records are without a match than `5%` of all, or than a number allow."""
    missed, share = count or 0, limit.endswith("%")
    return 100 * missed > float(limit[:-1]) * (total or 0) if share else missed > int(limit)
