"""The book of one evaluation: the rules that records can break, and the parts they can end in."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.rejection import Rule
from tallyman.domain.definition.step_facts import Lookup
from tallyman.engine.expressions.column_names import ERROR
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.segment.watched import Watched


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A reference in which a step looked rows up. `watched` counts them, if that is asked for."""

    step_id: str
    lookup: Lookup
    limit: str | None = None
    watched: Watched | None = None


@dataclass(frozen=True, slots=True)
class FatePart:
    """One part: rows tagged `id` ended at this step."""

    id: int
    fate: Fate
    step_id: str
    description: str
    predicate: str = ""
    level: int = 0
    asked_as: str = ""
    """The step's own id, if `step_id` got a number to differ from that of another level."""


@dataclass(slots=True)
class Book:
    asset: str
    rules: list[Rule] = field(default_factory=list)
    parts: dict[int, FatePart] = field(default_factory=dict)
    redaction: Redaction = field(default_factory=Redaction)
    warnings: list[Watched] = field(default_factory=list)
    looked_up: list[LookedUp] = field(default_factory=list)

    def rule(self, rule: Rule) -> int:
        self.rules.append(rule)
        return len(self.rules) - 1

    def part(self, fate: Fate, step_id: str, description: str, predicate: str, level: int) -> int:
        for part in self.parts.values():
            if (part.fate, part.asked_as, part.level) == (fate, step_id, level):
                return part.id  # rows of another member, at the same step
        number = ERROR + 1 + len(self.parts)
        taken = {part.step_id for part in self.parts.values()}
        unique, again = step_id, 2
        while unique in taken:
            unique, again = f"{step_id}_{again}", again + 1
        self.parts[number] = FatePart(
            number, fate, unique, description, predicate, level, asked_as=step_id
        )
        return number
