"""The facts of a step: everything that can be known about it without Spark.

The passes over a plan (lineage, reads, redaction, checks, hashes) ask for these facts, so that none
of them needs a list of verbs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.expression import Expression, has_window

if TYPE_CHECKING:
    from tallyman.domain.definition.frame import Frame

LOADING = 0
"""The seq of steps that load rows, before the author's first step."""
EVERY_COLUMN = "*"
On = str | Sequence[str]
"""The condition of a join: equalities of columns, or names that both sides have."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An expression that a step evaluates, and the way in which it goes into the result."""

    value: Expression
    way: Way = Way.IDENTITY
    is_name: bool = False
    """True if the value is the whole name of a column or EVERY_COLUMN; otherwise SQL."""


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """A column that a step writes. Without a name, its expression decides the name."""

    name: str | None
    operand: Operand
    keeps: bool = False
    """True if some rows keep the value they had in this column before the step."""


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """A reference in which a step looks rows up. Its columns are read as `alias.column`; without an
    alias they become columns of the rows.
    """

    alias: str
    other: Frame
    on: On


Pairs = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One verb of a plan. The defaults below describe a step that changes nothing; a verb overrides
    those that differ.
    """

    kind: ClassVar[str] = "step"
    name: str | None = None
    seq: int | None = None
    """The step's number in the chain. None: the next ten; LOADING: not written by the author."""

    @property
    def verb(self) -> str:
        """Name the method of Frame that makes the step."""
        return self.kind

    holds: ClassVar[tuple[str, ...]] = ()
    """The fields with expressions: one, a tuple of them, or a tuple of (name, expression)."""
    only_columns: ClassVar[bool] = False
    """True if number and order of the rows stay; only their columns differ."""
    in_place: ClassVar[bool] = False
    """True if the step works on a working set: rows keep their identity, changes are recorded."""
    changes_rows: ClassVar[bool] = False
    """True if the step makes an asset traced, unless the asset declares otherwise."""
    in_order: ClassVar[bool] = False
    """True if each assignment sees the earlier ones; otherwise all see the row before the step."""
    respells: ClassVar[bool] = True
    """True if an assigned column takes the spelling of the assignment."""

    # ---- which columns there are, and what is in them ----

    def assigns(self) -> tuple[Assigned, ...]:
        return ()

    def renames(self) -> Mapping[str, str]:
        return {}

    def drops(self) -> tuple[str, ...]:
        return ()

    @property
    def keeps_only(self) -> tuple[str, ...] | None:
        """List the columns kept besides the assigned ones; None: all except the dropped ones."""
        return None

    # ---- which rows there are ----

    def decided_by(self) -> tuple[Operand, ...]:
        """List what decides which rows exist or, if CONDITIONAL, which rows are assigned to."""
        return ()

    @property
    def inflow(self) -> Frame | None:
        """Return another plan with rows that are added to these and accounted for like these."""
        return None

    @property
    def meets_by_name(self) -> bool:
        """True if columns of the inflow are matched by name, not by position."""
        return True

    @property
    def references(self) -> tuple[Lookup, ...]:
        """List the plans in which rows are looked up."""
        return ()

    @property
    def combines(self) -> bool:
        """True if the step makes other rows. A working set begins after the last such step."""
        return self.groups or self.multiplies

    @property
    def multiplies(self) -> bool:
        """True if one row may become several."""
        return False

    @property
    def adds_rows(self) -> bool:
        """True if rows are added and the existing ones stay unchanged."""
        return self.inflow is not None

    @property
    def groups(self) -> bool:
        """True if the rows after the step are groups of the rows before it."""
        return False

    @property
    def rejects(self) -> bool:
        """True if the step may reject a row because of a rule of its author."""
        return False

    @property
    def looks_at_other_rows(self) -> bool:
        """True if the fate or the values of a row depend on other rows."""
        # Only an assignment can contain a window: Spark refuses one in a condition.
        operands = (each.operand for each in self.assigns())
        return any(has_window(each.value) for each in operands if not each.is_name)

    @property
    def distinct_by(self) -> tuple[str, ...] | None:
        """List columns in which no two rows after the step agree, if the step ensures it."""
        return None

    # ---- how people see it ----

    def rejects_as(self, step_id: str) -> str | None:
        """Name the rule under which the step's rejections are counted."""
        return None

    def text(self) -> str:
        """Show on one line what the author wrote."""
        return self.kind

    # ---- what follows from the facts above ----

    def operands(self) -> Iterator[Operand]:
        """Yield everything that the step evaluates, with the way it goes into the result."""
        yield from (each.operand for each in self.assigns())
        yield from self.decided_by()

    def expressions(self) -> Iterator[Expression]:
        """Yield the operands that are SQL."""
        return (each.value for each in self.operands() if not each.is_name)

    def values(self) -> dict[str, Expression]:
        """Map each name the step assigns to its expression."""
        return {e.name: e.operand.value for e in self.assigns() if e.name is not None}

    def column_names(self) -> tuple[str, ...]:
        """List the columns that the step reads by their whole names, EVERY_COLUMN included."""
        named = (str(each.value) for each in self.operands() if each.is_name)
        return tuple(dict.fromkeys((*self.renames(), *named)))

    def needs(self) -> tuple[str, ...]:
        """List the names of columns that must exist before the step."""
        named = (*self.drops(), *self.column_names())
        return tuple(dict.fromkeys(name for name in named if name != EVERY_COLUMN))

    def made_names(self) -> list[str]:
        """List the names that the step itself gives to columns."""
        return [*self.values(), *self.renames().values()]


def computed(pairs: Pairs, way: Way = Way.IDENTITY, *, keeps: bool = False) -> tuple[Assigned, ...]:
    return tuple(Assigned(name, Operand(value, way), keeps) for name, value in pairs)


def by_names(names: tuple[str, ...], way: Way) -> tuple[Operand, ...]:
    return tuple(Operand(name, way, is_name=True) for name in names)


def when(condition: Expression | None, way: Way) -> tuple[Operand, ...]:
    return () if condition is None else (Operand(condition, way),)


def listed(pairs: Pairs) -> str:
    return ", ".join(f"{name} = {value}" for name, value in pairs)


def said_where(what: str, condition: Expression | None) -> str:
    return what if condition is None else f"{what} where {condition}"
