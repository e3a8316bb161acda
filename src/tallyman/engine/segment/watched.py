"""Rules of severity `warn`, and look-ups: rows are counted by Spark while it evaluates a segment.

Spark repeats tasks whose output was lost, and an observation then counts their rows again. So it
counts all rows it looks at as well. If these are as many as the segment wrote, no task was counted
twice; if not, the rules are counted by a query of their own, which Spark never counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tallyman.domain.account.rule_warning import RuleWarning

ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Watched:
    """A rule, or a look-up, that is counted while its segment is evaluated."""

    rule: str
    step_id: str
    expected: str
    level: int
    rows: DataFrame
    """The rows that are asked, for a query that counts them alone."""
    counts: tuple[Column, ...]
    found: dict[str, Any] = field(default_factory=dict)
    """What was counted, once the segment is written; of an earlier attempt, if it is reused."""

    def decide(self, observed: Observation, *, exact: bool) -> None:
        """Keep what was observed, or count again if it is not exact."""
        counted = observed.get if exact else self.rows.agg(*self.counts).first()
        assert counted is not None
        facts = counted if isinstance(counted, dict) else counted.asDict()
        self.found.update({name: value for name, value in facts.items() if name != ROWS})

    def warning(self) -> RuleWarning:
        return RuleWarning(
            rule=self.rule,
            step=self.step_id,
            expected=self.expected,
            count=self.found["count"],
            example=self.found["example"],
            of_records=self.level == 0,
        )


@dataclass(frozen=True, slots=True)
class RowsSeen:
    """Observations that together saw each row of a segment once: more than one after a union. The
    first one counted `watched`; without it, only rows were counted.
    """

    observed: tuple[Observation, ...]
    watched: Watched | None = None

    def decide(self, rows: int) -> None:
        """Take over the counts of a segment that wrote so many rows."""
        if self.watched is not None:
            seen = sum(int(one.get[ROWS]) for one in self.observed)
            self.watched.decide(self.observed[0], exact=seen == rows)


def observe(rows: DataFrame, name: str, counts: Iterable[Column]) -> tuple[DataFrame, Observation]:
    """Let Spark count rows while it evaluates them, and compute further aggregates."""
    observed = Observation(f"{name} {uuid4()}")
    counted = rows.observe(observed, F.count(F.lit(1)).alias(ROWS), *counts)
    return counted, observed


def united(left: tuple[RowsSeen, ...], right: tuple[RowsSeen, ...]) -> tuple[RowsSeen, ...]:
    """Let what saw the rows of one side see those of the other too."""
    return tuple(
        RowsSeen((*seen.observed, *other[0].observed), seen.watched)
        for side, other in ((left, right), (right, left))
        for seen in side
    )
