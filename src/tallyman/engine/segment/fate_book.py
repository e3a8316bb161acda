"""The book of one asset's evaluation: the rules records can break and the places they can end."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.rejection import Rule
from tallyman.engine.expressions.columns import ERROR
from tallyman.engine.expressions.redact import Redaction

FANOUT = "fanout"


@dataclass(frozen=True, slots=True)
class FatePart:
    """Rows tagged `id` ended at this step; `fate` None means the step itself must fail."""

    id: int
    fate: Fate | None
    step_id: str
    description: str
    predicate: str = ""
    level: int = 0
    asked_as: str = ""
    """The step's own id, where `step_id` was numbered to differ from another level's."""


@dataclass(slots=True)
class Book:
    asset: str
    rules: list[Rule] = field(default_factory=list)
    parts: dict[int, FatePart] = field(default_factory=dict)
    redaction: Redaction = field(default_factory=Redaction)

    def rule(self, rule: Rule) -> int:
        self.rules.append(rule)
        return len(self.rules) - 1

    def part(
        self, fate: Fate | None, step_id: str, description: str, predicate: str, level: int
    ) -> int:
        for part in self.parts.values():
            if (part.fate, part.asked_as, part.level) == (fate, step_id, level):
                return part.id  # rows that came in another way, at the same step
        number = ERROR + 1 + len(self.parts)
        taken = {part.step_id for part in self.parts.values()}
        unique, again = step_id, 2
        while unique in taken:
            unique, again = f"{step_id}_{again}", again + 1
        self.parts[number] = FatePart(
            number, fate, unique, description, predicate, level, asked_as=step_id
        )
        return number
