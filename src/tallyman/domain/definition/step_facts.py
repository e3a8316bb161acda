"""What a step says about itself: everything that can be known of it without Spark.

The passes over a plan (lineage, reads, redaction, checks, hashes) ask for these facts, so that none
of them needs a list of verbs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.expression import Expression, has_window, text_of

if TYPE_CHECKING:
    from tallyman.domain.definition.frame import Frame

LOADING = 0
"""The number of what happens before the first step: rows are loaded, not changed."""
EVERY_COLUMN = "*"


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """What a step evaluates, and in which way it goes into the result."""

    value: Expression
    way: Way = Way.IDENTITY
    is_name: bool = False
    """The value is the whole name of a column, or EVERY_COLUMN; otherwise SQL or a Column."""


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """A column that a step writes. Without a name, its expression decides what it is called."""

    name: str | None
    operand: Operand
    keeps: bool = False
    """Some rows still have the value they had in this column before the step."""


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """A reference that a step looks rows up in. Its columns are read as `alias.column`; without an
    alias they become columns of the rows."""

    alias: str
    other: Frame
    on: object


Pairs = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One verb of a plan. The facts below are true of a step that changes nothing; a verb overrides
    those that are different for it."""

    kind: ClassVar[str] = "step"
    name: str | None = None
    seq: int | None = None
    """Its number in the chain. None: the next ten; LOADING: a step that its author never wrote."""

    holds: ClassVar[tuple[str, ...]] = ()
    """The fields with expressions: one, a tuple of them, or a tuple of (name, expression)."""
    only_columns: ClassVar[bool] = False
    """Rows stay as they are, in number and order; only their columns differ."""
    in_place: ClassVar[bool] = False
    """It works on a working set: rows keep their identity, and each change is recorded."""
    changes_rows: ClassVar[bool] = False
    """It makes an asset a traced one, unless the asset says otherwise."""
    in_order: ClassVar[bool] = False
    """Each assignment sees the ones before it; otherwise all see the row before the step."""
    respells: ClassVar[bool] = True
    """A column that is assigned takes the spelling of the assignment."""

    # ---- which columns there are, and what is in them ----

    def assigns(self) -> tuple[Assigned, ...]:
        return ()

    def renames(self) -> Mapping[str, str]:
        return {}

    def drops(self) -> tuple[str, ...]:
        return ()

    @property
    def keeps_only(self) -> tuple[str, ...] | None:
        """The columns that go on in addition to those assigned; None: all but the dropped ones."""
        return None

    # ---- which rows there are ----

    def decided_by(self) -> tuple[Operand, ...]:
        """What decides which rows there are or, where it is CONDITIONAL, which are assigned to."""
        return ()

    @property
    def inflow(self) -> Frame | None:
        """Another plan whose rows join these ones and are accounted for like them."""
        return None

    @property
    def meets_by_name(self) -> bool:
        """True if columns of the inflow meet these ones by name, not by position."""
        return True

    @property
    def references(self) -> tuple[Lookup, ...]:
        """The plans that rows are looked up in."""
        return ()

    @property
    def combines(self) -> bool:
        """True if rows after the step are other rows: a working set begins after the last such."""
        return self.groups or self.multiplies

    @property
    def multiplies(self) -> bool:
        """True if one row may become several."""
        return False

    @property
    def adds_rows(self) -> bool:
        """True if rows are added, and those there are stay as they are."""
        return self.inflow is not None

    @property
    def groups(self) -> bool:
        """True if the rows after it are groups of those before."""
        return False

    @property
    def rejects(self) -> bool:
        """True if it may reject a row for a rule of its author."""
        return False

    @property
    def looks_at_other_rows(self) -> bool:
        """True if what becomes of a row depends on other rows."""
        # Only what is assigned may hold a window: Spark refuses one in a condition.
        operands = (each.operand for each in self.assigns())
        return any(has_window(each.value) for each in operands if not each.is_name)

    @property
    def distinct_by(self) -> tuple[str, ...] | None:
        """Columns in which no two rows after the step agree, if it makes it so."""
        return None

    # ---- how people see it ----

    def rejects_as(self, step_id: str) -> str | None:
        """The rule under which its rejections are counted."""
        return None

    def text(self) -> str:
        """What a person wrote, on one line."""
        return self.kind

    # ---- what follows from the facts above ----

    def operands(self) -> Iterator[Operand]:
        """All that the step evaluates, with the way it goes into the result."""
        yield from (each.operand for each in self.assigns())
        yield from self.decided_by()

    def expressions(self) -> Iterator[Expression]:
        """The SQL and Columns among its operands."""
        return (each.value for each in self.operands() if not each.is_name)

    def values(self) -> dict[str, Expression]:
        """What it assigns, by the names that it gives."""
        return {e.name: e.operand.value for e in self.assigns() if e.name is not None}

    def column_names(self) -> tuple[str, ...]:
        """The columns that it reads by their whole names, also EVERY_COLUMN."""
        named = (str(each.value) for each in self.operands() if each.is_name)
        return tuple(dict.fromkeys((*self.renames(), *named)))

    def needs(self) -> tuple[str, ...]:
        """The names of columns that must be there."""
        named = (*self.drops(), *self.column_names())
        return tuple(dict.fromkeys(name for name in named if name != EVERY_COLUMN))

    def made_names(self) -> list[str]:
        """The names that the step itself gives to columns."""
        return [*self.values(), *self.renames().values()]


def computed(pairs: Pairs, way: Way = Way.IDENTITY, *, keeps: bool = False) -> tuple[Assigned, ...]:
    return tuple(Assigned(name, Operand(value, way), keeps) for name, value in pairs)


def by_names(names: tuple[str, ...], way: Way) -> tuple[Operand, ...]:
    return tuple(Operand(name, way, is_name=True) for name in names)


def when(condition: Expression | None, way: Way) -> tuple[Operand, ...]:
    return () if condition is None else (Operand(condition, way),)


def listed(pairs: Pairs) -> str:
    return ", ".join(f"{name} = {text_of(value)}" for name, value in pairs)


def said_where(what: str, condition: Expression | None) -> str:
    return what if condition is None else f"{what} where {text_of(condition)}"
