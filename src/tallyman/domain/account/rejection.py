"""Rejections: the kinds of error, and the rule that a record broke."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ErrorType(StrEnum):
    PARSE = "parse_error"
    TYPE_CAST = "type_cast_error"
    NULL = "null_error"
    REFINEMENT = "refinement_error"
    JOIN = "join_error"
    VALIDATION = "validation_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The part of a rejection that does not depend on the record."""

    error_type: ErrorType
    path: str
    expected: str
    entity: str
    field: str
    step: str
    own_code: str | None = None
    fatal: bool = False
    """True if one broken record stops the asset."""

    @property
    def code(self) -> str:
        """Return the rule's own code, or derive one from its path."""
        if self.own_code:
            return self.own_code
        place = "".join(c if c.isalnum() else "_" for c in self.path)
        return f"{self.error_type}_{place}".upper()
