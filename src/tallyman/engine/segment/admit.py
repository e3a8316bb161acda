"""Records as they enter an asset: a record that does not fit its source's declaration is ERROR.

Which records these are is a property of the source: every declared column decides, whichever
columns the asset reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    CharType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from tallyman.domain.account.rejection import ErrorType, Rule
from tallyman.engine.expressions.column_names import (
    CORRUPT,
    ERROR,
    KEY,
    LIVE,
    PART,
    PLACE,
    REJECTIONS,
    UNFIT,
    literal,
    quoted,
)
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.tags import NO_REJECTIONS, REJECTION, rejection
from tallyman.engine.source.lines_input import LinesInput
from tallyman.engine.source.source import Input

SAME_TEXT = (StringType, BooleanType, IntegralType, DecimalType, DateType)
"""Types with only one text per value, in Spark and elsewhere."""
READ_AS_TEXT = (CharType, VarcharType)
"""Types that rows never have: Spark reads them as string."""
INGEST = "ingest"
"""The step of the rules that records can break before the first step."""
BAD = f"{CORRUPT} IS NOT NULL"
RAW, TYPED, FOUND = "_tm_raw", "_tm_typed", "_tm_found"
"""The fields of a broken line as text, with their types as far as they fit, and what is wrong."""


def admit(source: Input, book: Book, read: Collection[str]) -> Flow:
    """Read all records of an input, with the columns that the asset reads."""
    names = tuple(f.name for f in source.schema if f.name in read)
    readable = source.every_record_keyed and len(source.key) == 1 and _readable(source, names)
    key = source.key if readable and not source.hides_key else None
    placed = source.places is not None
    declared = ((f.name, f.dataType) for f in source.schema if f.name in names)
    known = {name: kind for name, kind in declared if not isinstance(kind, READ_AS_TEXT)}
    if not source.rejects:
        return Flow(source.records(names), names, key, placed=placed, known=known)
    required = [f.name for f in source.schema if not f.nullable]
    asked = list(dict.fromkeys([*names, *required]))
    place = [PLACE] if placed else []
    lots = [(_rules(lot, book), rows) for lot, rows in source.lots(asked)]
    admitted = [
        rules.tagged(rows).selectExpr(*map(quoted, names), KEY, PART, REJECTIONS, *place)
        for rules, rows in lots
    ]
    unread = {n: frozenset().union(*(rules.unread(n) for rules, _ in lots)) for n in names}
    rows = reduce(DataFrame.unionByName, admitted)
    flow = Flow(rows, names, key, tagged=True, placed=placed, known=known)
    return replace(flow, unread=unread, rules=len(book.rules))


def _readable(source: Input, names: Sequence[str]) -> bool:
    """True if the key's column is carried, and has the same text for every reader."""
    [key] = source.key
    return key in names and isinstance(source.schema[key].dataType, SAME_TEXT)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules that a record of an input can break before the first step, by number."""

    source: Input
    missing: Mapping[str, int]
    """The rules of required columns."""
    misfits: Mapping[str, int]
    """The rules of columns that are read from text."""
    unfit: Mapping[str, int]
    """The rules of columns with values that no output can hold."""
    broken: int | None
    """The rule of lines without any columns; None if the input has no lines."""

    def unread(self, name: str) -> frozenset[int]:
        """List the rules that leave the column without a value when broken."""
        found = (self.misfits.get(name), self.unfit.get(name), self.broken)
        return frozenset(rule for rule in found if rule is not None)

    def tagged(self, rows: DataFrame) -> DataFrame:
        """Add part and rejections. Broken lines are parsed twice more, in steps of their own: as
        text, and with types. Parsed again for each column, 2,000 columns would take minutes.
        """
        if self.source.fits:  # the rules keep their numbers, and rows their columns
            return rows.selectExpr("*", f"{LIVE} AS {PART}", f"{NO_REJECTIONS} AS {REJECTIONS}")
        if isinstance(self.source, LinesInput):
            source = self.source
            strings = [StructField(f.name, StringType()) for f in source.positions]
            parsed = {RAW: strings, TYPED: source.positions}
            each = {n: source.parse(CORRUPT, fields) for n, fields in parsed.items()}
            rows = rows.selectExpr("*", *(_if_bad(value, name) for name, value in each.items()))
            rows = rows.selectExpr("*", _if_bad(self._found(source), FOUND))
        return rows.selectExpr("*", *self._tags())

    def _tags(self) -> list[str]:
        absent = [f"CASE WHEN {quoted(n)} IS NULL THEN {self._absent(n)} END" for n in self.missing]
        absent += [self._too_far(name) for name in self.unfit]
        wrong = " OR ".join(f"{quoted(name)} IS NULL" for name in self.missing) or "false"
        if self.unfit:
            wrong = f"{UNFIT} IS NOT NULL OR {wrong}"
        reasons = f"array_compact(array({', '.join(absent)}))" if absent else "array()"
        if isinstance(self.source, LinesInput):
            found = self._diagnosis(self.source)
            reasons = f"CASE WHEN {BAD} THEN {found} ELSE {reasons} END"
            wrong = f"{BAD} OR {wrong}"
        listed = f"CAST({reasons} AS array<{REJECTION}>)"
        return [
            f"CASE WHEN {wrong} THEN {ERROR} ELSE {LIVE} END AS {PART}",
            f"CASE WHEN {wrong} THEN {listed} END AS {REJECTIONS}",
        ]

    def _absent(self, name: str) -> str:
        return f"named_struct('rule', {self.missing[name]}, 'actual', 'NULL')"

    def _too_far(self, name: str) -> str:
        shown = f"try_element_at({UNFIT}, {literal(name)})"
        wrong = f"array_contains(map_keys({UNFIT}), {literal(name)})"
        reason = f"named_struct('rule', {self.unfit[name]}, 'actual', coalesce({shown}, 'NULL'))"
        return f"CASE WHEN {wrong} THEN {reason} END"

    def _found(self, source: LinesInput) -> str:
        """Write what is wrong with a line, field by field."""
        plain = [f for f in source.positions if f.name in self.misfits and _is_plain(source, f)]
        texts = ", ".join(map(self._misfit, plain))
        others = [
            self._other_misfit(source, f)
            for f in source.positions
            if f.name in self.misfits and f not in plain
        ]
        # In a lambda, which Spark interprets: compiled, the reasons of all columns would make the
        # code for every line too large for Java to compile further, and each line three times as
        # slow.
        reasons = f"CAST(array({texts}) AS array<{REJECTION}>)"
        line = f"zip_with(array({RAW}), array({TYPED}), ({RAW}, {TYPED}) -> {reasons})"
        listed = f"element_at({line}, 1)"
        return (
            f"array_compact(concat({listed}, array({', '.join(others)})))"
            if others
            else (f"array_compact({listed})")
        )

    def _misfit(self, declared: StructField) -> str:
        """Write the reason against a plain value."""
        name, field = declared.name, quoted(declared.name)
        raw, typed = f"{RAW}.{field}", f"{TYPED}.{field}"
        reason = f"named_struct('rule', {self.misfits[name]}, 'actual', {raw})"
        reasons = f"WHEN {typed} IS NULL AND {raw} IS NOT NULL THEN {reason}"
        if name in self.missing:
            reasons += f" WHEN {raw} IS NULL THEN {self._absent(name)}"
        other = f"ELSE {self._too_far(name)} " if name in self.unfit else ""
        return f"CASE {reasons} {other}END"

    def _other_misfit(self, source: LinesInput, declared: StructField) -> str:
        """Write the reason against a value that is redacted, or nested: of a nested value that does
        not fit, a part may be there, so it is parsed alone.
        """
        name, value = declared.name, f"{RAW}.{quoted(declared.name)}"
        alone = source.parse(CORRUPT, source.fields([name]))
        shown = rejection(self.misfits[name], source.redaction.shown(name, value))
        reasons = f"WHEN ({alone}).{CORRUPT} IS NOT NULL THEN {shown}"
        if name in self.missing:
            reasons += f" WHEN {value} IS NULL THEN {self._absent(name)}"
        other = f"ELSE {self._too_far(name)} " if name in self.unfit else ""
        return f"CAST(CASE {reasons} {other}END AS {REJECTION})"

    def _diagnosis(self, source: LinesInput) -> str:
        """Write what is wrong with a broken line: its fields, or the line as a whole."""
        assert self.broken is not None
        line = f"make_valid_utf8({CORRUPT})"
        if source.redaction.columns:  # a line shows all its columns, declared or not
            line = source.redaction.text(line)
        broken = f"{RAW} IS NULL OR {RAW}.{CORRUPT} IS NOT NULL OR size({FOUND}) = 0"
        return f"CASE WHEN {broken} THEN array({rejection(self.broken, line)}) ELSE {FOUND} END"


def _if_bad(value: str, name: str) -> str:
    return f"CASE WHEN {BAD} THEN {value} END AS {name}"


def _is_plain(source: LinesInput, field: StructField) -> bool:
    """True if a value is all there or NULL, and may be shown."""
    nested = isinstance(field.dataType, (ArrayType, MapType, StructType))
    return not nested and not source.redaction.covers(field.name)


def _rules(source: Input, book: Book) -> _Rules:
    def rule(kind: ErrorType, name: str, expected: str) -> int:
        return book.rule(
            Rule(
                error_type=kind,
                path=f"{source.name}.{name}",
                expected=expected,
                entity=source.name,
                field=name,
                step=INGEST,
            )
        )

    missing = {
        f.name: rule(ErrorType.NULL, f.name, "not null") for f in source.schema if not f.nullable
    }
    unfit = {
        name: rule(ErrorType.TYPE_CAST, name, expected)
        for name, expected in source.unfit_columns.items()
    }
    if not isinstance(source, LinesInput):
        return _Rules(source, missing, {}, unfit, None)
    broken = rule(ErrorType.PARSE, "line", source.one_record)
    misfits = {
        f.name: rule(ErrorType.TYPE_CAST, f.name, f.dataType.simpleString()) for f in source.schema
    }
    return _Rules(source, missing, misfits, unfit, broken)
