"""What one asset must have done with each record: fates, rejections, rows and what is behind them.

The rules of docs/reference/frame.md in plain Python: a record ends at the first step that ends it;
one that failed is still asked whether a later rule is plainly false.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracle.raw import Place, Record

Values = Mapping[str, Any]
Test = Callable[[Values], bool | None]


class Letter(NamedTuple):
    source_key: str
    error_type: str
    rule: str
    expected: str
    actual: str
    error_code: str
    entity: str
    field: str
    step: str
    level: str | None
    group_key: str | None


@dataclass
class Unit:
    """A record, or a row made out of records, on its way."""

    key: str
    values: dict[str, Any]
    behind: frozenset[Place]
    unreadable: frozenset[str] = frozenset()
    letters: list[Letter] = field(default_factory=list)
    ended: str | None = None
    """FILTERED or ERROR; None while it is alive."""
    at: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the output. `met` are records of references, by the step that joined them."""

    values: Values
    behind: frozenset[Place]
    key: str
    level: int


@dataclass
class Sub:
    """The equation of the rows that a step made."""

    opened_by: str
    unit: str
    units: list[Unit] = field(default_factory=list)


@dataclass
class Account:
    asset: str
    inputs: tuple[str, ...]
    last: str
    """The id of the last step."""
    partition: str | None = None
    key: tuple[str, ...] = ()
    records: list[Unit] = field(default_factory=list)
    letters: list[tuple[Letter, frozenset[Place]]] = field(default_factory=list)
    filtered: list[tuple[str, str, frozenset[Place]]] = field(default_factory=list)
    """Step, key, records behind: of records, groups and children alike."""
    groups: list[tuple[str, str, str, Place]] = field(default_factory=list)
    """Step, group, the key of what went in, and the record."""
    children: list[tuple[str, str, str, Place]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    published: list[Row] | None = None
    """If only some rows of the result are new."""
    fates: dict[Place, tuple[str, str]] = field(default_factory=dict)
    subs: list[Sub] = field(default_factory=list)
    met: dict[str, dict[Place, frozenset[Place]]] = field(default_factory=dict)
    """By the step of a join: what each record met."""
    null_keys: int = 0
    duplicate_keys: int = 0
    blank_lines: int = 0

    # ---- at the door --------------------------------------------------------------------

    def admit(self, records: Iterable[Record], blank_lines: int = 0) -> list[Unit]:
        """Their faults are rejections before the first step."""
        found = []
        for record in records:
            unit = Unit(
                record.key, dict(record.values), frozenset({record.place}), record.unreadable
            )
            for fault in record.faults:
                rule = f"{record.place.input}.{fault.field}"
                code = f"{fault.kind}_{rule.replace('.', '_')}".upper()
                entity = record.place.input
                self._reject(
                    unit,
                    (fault.kind, rule, fault.expected, fault.actual, code, entity, fault.field),
                    "ingest",
                )
            found.append(unit)
        self.records += found
        self.null_keys += sum(not record.has_key for record in records)
        self.duplicate_keys += len(found) - len({unit.key for unit in found})
        self.blank_lines += blank_lines
        return found

    def _reject(self, unit: Unit, said: Sequence[str], step: str, level: int = 0) -> None:
        shown = str(level) if level else None
        unit.letters.append(Letter(unit.key, *said, step, shown, None))
        if unit.ended is None:
            unit.ended, unit.at = "ERROR", step

    # ---- steps on single rows -----------------------------------------------------------

    def expect(
        self,
        units: Iterable[Unit],
        step: str,
        rule: str,
        said: tuple[str, str],
        test: Test,
        *,
        code: str | None = None,
        level: int = 0,
        kind: str = "refinement_error",
        plain: bool = True,
    ) -> None:
        """`said` is the condition and the one column it names. One that is `plain` only compares
        a column with literals: records that failed before are asked too."""
        expected, column = said
        path = f"{self.asset}.{rule}"
        code = code or f"{kind}_{path.replace('.', '_')}".upper()
        for unit in units:
            holds = test(unit.values)
            again = plain and unit.ended == "ERROR" and column not in unit.unreadable
            if (again and holds is False) or (unit.ended is None and holds is not True):
                actual = shown(unit.values[column])
                self._reject(
                    unit, (kind, path, expected, actual, code, self.asset, column), step, level
                )

    def filter(self, units: Iterable[Unit], step: str, test: Test) -> None:
        for unit in units:
            if unit.ended is None and test(unit.values) is not True:
                unit.ended, unit.at = "FILTERED", step

    def look_up(
        self,
        units: Iterable[Unit],
        step: str,
        column: str,
        found: Callable[[Any], Sequence[Record]],
        unmatched: str,
        *,
        on: str = "",
    ) -> dict[int, Sequence[Record]]:
        """What each unit met, by its identity."""
        met: dict[int, Sequence[Record]] = {}
        links = self.met.setdefault(step, {})
        for unit in units:
            value = unit.values[column]
            rows = [] if value is None else found(value)
            met[id(unit)] = rows
            if unit.ended is None:
                for place in unit.behind:
                    links[place] = frozenset(row.place for row in rows)
            if rows or unmatched == "keep":
                continue
            if unmatched == "filter" and unit.ended is None:
                unit.ended, unit.at = "FILTERED", step
            if unmatched == "error" and (
                unit.ended is None or (unit.ended == "ERROR" and value is not None)
            ):
                path = f"{self.asset}.{step}"
                code = f"join_error_{path.replace('.', '_')}".upper()
                said = ("join_error", path, on, shown(value), code, self.asset, column)
                self._reject(unit, said, step)
        return met

    # ---- steps that make rows -----------------------------------------------------------

    def grouped(
        self, units: Iterable[Unit], step: str, by: Sequence[str], made: Callable[..., dict]
    ) -> list[Unit]:
        """`made` gets the values of the rows of a group."""
        members: dict[tuple[Any, ...], list[Unit]] = defaultdict(list)
        for unit in units:
            if unit.ended is None:
                members[tuple(unit.values[n] for n in by)].append(unit)
        sub = Sub(step, "group")
        for values, own in members.items():
            group = dict(zip(by, values, strict=True))
            text = group_text(group)
            behind = frozenset().union(*(unit.behind for unit in own))
            sub.units.append(Unit(text, group | made([u.values for u in own]), behind))
            self.groups += [(step, text, u.key, place) for u in own for place in u.behind]
        self.subs.append(sub)
        return sub.units

    def multiplied(
        self, units: Iterable[Unit], step: str, made: Callable[[Unit], list[dict[str, Any]]]
    ) -> list[Unit]:
        sub = Sub(step, "child")
        for unit in units:
            if unit.ended is not None:
                continue
            [place] = unit.behind
            for number, values in enumerate(made(unit)):
                key = f"{unit.key}/{number}"
                sub.units.append(Unit(key, unit.values | values, unit.behind))
                self.children.append((step, key, unit.key, place))
        self.subs.append(sub)
        return sub.units

    # ---- the end ------------------------------------------------------------------------

    def settle(self, fate: str = "PASSED", step: str = "") -> None:
        """Every record and every unit that a step made has met its fate: write it down.

        `fate` and `step` are those of the records that did not end by themselves."""
        for unit in self.records:
            [place] = unit.behind
            ended = (unit.ended, unit.at) if unit.ended else (fate, step)
            self.fates[place] = (str(ended[0]), str(ended[1]))
        for units in (self.records, *(sub.units for sub in self.subs)):
            gone = [unit for unit in units if unit.ended == "FILTERED"]
            self.filtered += [(unit.at, unit.key, unit.behind) for unit in gone]
        for units in (self.records, *(sub.units for sub in self.subs if sub.unit == "child")):
            self.letters += [(letter, unit.behind) for unit in units for letter in unit.letters]
        for sub in self.subs:
            if sub.unit == "group":
                self._fail_groups(sub)

    def _fail_groups(self, sub: Sub) -> None:
        """A group that fails takes every record behind it: ERROR, with the group's letter."""
        failed = {unit.key: unit for unit in sub.units if unit.ended == "ERROR"}
        kept = []
        for step, group, key, place in self.groups:
            if step != sub.opened_by or group not in failed:
                kept.append((step, group, key, place))
                continue
            self.fates[place] = ("ERROR", failed[group].at)
            for letter in failed[group].letters:
                own = letter._replace(source_key=key, group_key=group, level=None)
                self.letters.append((own, frozenset({place})))
        self.groups = kept

    def passed(self, units: Iterable[Unit], columns: Sequence[str], level: int = 0) -> None:
        for unit in units:
            if unit.ended is None:
                values = {name: unit.values[name] for name in columns}
                self.rows.append(Row(values, unit.behind, unit.key, level))

    # ---- sums ---------------------------------------------------------------------------

    def partitions(self) -> Counter[tuple[str, str]]:
        """Records by fate and step; rejections have no step in the ledger."""
        return Counter((fate, "" if fate == "ERROR" else at) for fate, at in self.fates.values())

    def sub_ledgers(self) -> list[tuple[str, str, int, Counter[tuple[str, str]]]]:
        found = []
        for number, sub in enumerate(self.subs):
            on = self.subs[number + 1] if number + 1 < len(self.subs) else None
            rest = ("AGGREGATED", on.opened_by) if on else ("PASSED", "")
            counted: Counter[tuple[str, str]] = Counter()
            for unit in sub.units:
                ended = unit.ended and (unit.ended, "" if unit.ended == "ERROR" else unit.at)
                counted[ended or rest] += 1
            found.append((sub.opened_by, sub.unit, len(sub.units), counted))
        return found


def group_text(values: Values) -> str:
    """The key of a group: JSON of its columns as text, NULL among them."""
    texts = {name: None if value is None else str(value) for name, value in values.items()}
    return json.dumps(texts, separators=(",", ":"))


def shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
