"""Write the corrected records of a replay: whole lines, and what they change.

A field that a corrected line leaves out keeps the value of its record. What is written does not
need the source any more, so later replays and `why` read it when the source has changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.engine.evidence import write
from tallyman.engine.expressions.column_names import KEY, literal
from tallyman.engine.files.replay_folder import CHANGE, CHANGES, CORRECTED, KEYS
from tallyman.engine.source.corrections import (
    LINE,
    NAMED,
    CorrectionShape,
    CorrectionsInput,
    corrections,
    keys_in,
)
from tallyman.engine.source.lines import TEXT
from tallyman.engine.source.own_values import (
    READABLE,
    WHOLE,
    WRITTEN,
    completed,
    own_values,
)
from tallyman.engine.source.source import Input
from tallyman.errors import CorrectionsRefused, SourceChanged
from tallyman.errors.wording import nearest

UNREADABLE = (
    "leaves out fields of a record that cannot be read (write all of them, null for no value)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRecords:
    """The corrected records of one target: those given now, and those of earlier replays."""

    shape: CorrectionShape
    project: Path
    folder: Path
    before: Path
    """The folder of the replay whose rejections are replayed; it need not exist."""
    given: Path | None
    whole: bool
    records: Callable[[], Input]
    """Opens the rejected records; raises SourceChanged if they no longer exist."""
    by: str
    at: str

    def write(self) -> int:
        """Write all corrected records, one line each; return their number."""
        chosen = keys_in(self.shape.spark, self.folder / KEYS)
        earlier = self._read(self.before / CORRECTED) if self._corrected_before else None
        sides: list[DataFrame] = []
        own = given = None
        if self.given is not None:
            given = self._read(self.given).every_line().join(chosen, KEY, "left_semi")
            own = self._own(given, earlier)
            sides.append(given if own is None else self._completed(given, own))
        if earlier is not None:
            old = earlier.every_line()
            old = old if self.whole else old.join(chosen, KEY, "left_semi")
            sides.append(old.join(sides[0], KEY, "left_anti") if sides else old)
        self._write([side.select(F.col(TEXT).alias("value")) for side in sides], CORRECTED)
        count = self.shape.spark.read.text(str(self.folder / CORRECTED)).count()
        if not count:
            shutil.rmtree(self.folder / CORRECTED)
        self._write([*self._changes(given, own), *self._earlier_changes(chosen)], CHANGES)
        return count

    def _read(self, place: Path) -> CorrectionsInput:
        return corrections(self.shape, str(place), self.project)

    @property
    def _corrected_before(self) -> bool:
        return (self.before / CORRECTED).is_dir()

    def _write(self, sides: list[DataFrame], name: str) -> None:
        if not sides:
            return
        aside = self.folder.with_name(f"{self.folder.name}.{name}")
        (sides[0] if len(sides) == 1 else sides[0].unionAll(sides[1])).write.text(str(aside))
        write.move_files(aside, self.folder / name, ".jsonl")
        shutil.rmtree(aside)

    # ---- values of the records --------------------------------------------------------------

    @property
    def _incomplete(self) -> str:
        names = ", ".join(map(literal, self.shape.schema.names))
        return f"size(array_except(array({names}), {WRITTEN})) > 0"

    def _own(self, given: DataFrame, earlier: CorrectionsInput | None) -> DataFrame | None:
        """Read the values that the records had; None if they changed since and are not needed."""
        try:
            source = self.records()
        except SourceChanged:
            if given.where(self._incomplete).limit(1).count():
                raise
            return None
        names, wanted = self.shape.schema.names, given.select(KEY, WRITTEN)
        rows = source.records(names).join(wanted, KEY)
        lots: list[tuple[Input, DataFrame]] = [(source, rows)]
        if earlier is not None:  # a record that was corrected before is its correction
            lots = [(source, rows.join(earlier.keys(), KEY, "left_anti"))]
            lots.append((earlier, earlier.records(names).join(wanted, KEY)))
        aside = str(self.folder.with_name(f"{self.folder.name}.own"))
        own_values(lots, names, self.shape.formats).write.parquet(aside)
        return self.shape.spark.read.parquet(aside)

    def _completed(self, given: DataFrame, own: DataFrame) -> DataFrame:
        found = given.join(own, KEY, "left")
        lost = found.where(f"{self._incomplete} AND NOT coalesce({READABLE}, false)")
        first = lost.select(LINE, KEY).orderBy(LINE).limit(6).collect()
        if first:
            named = [f"line {row[LINE]} ({row[KEY]})" for row in first[:5]]
            raise CorrectionsRefused(given.count(), [(UNREADABLE, lost.count(), named)])
        text = f"CASE WHEN {self._incomplete} THEN {completed(TEXT)} ELSE {TEXT} END AS {TEXT}"
        return found.selectExpr(KEY, text)

    # ---- changes ----------------------------------------------------------------------------

    def _changes(self, given: DataFrame | None, own: DataFrame | None) -> list[DataFrame]:
        """Write the values of each record before and after its correction."""
        if given is None or not (self.folder / CORRECTED).is_dir():
            return []
        new, names = self._read(self.folder / CORRECTED), self.shape.schema.names
        rows = new.records(names).join(given.select(KEY, WRITTEN), KEY)
        found = own_values([(new, rows)], names, self.shape.formats)
        found = found.selectExpr(KEY, f"{WHOLE} AS after")
        if own is None:
            found = found.withColumn("before", F.lit(None).cast("string"))
        else:
            found = found.join(own.selectExpr(KEY, f"{WHOLE} AS before"), KEY, "left")
        values = (KEY, literal(self.by), literal(self.at), "before", "after")
        fields = zip(CHANGE, values, strict=True)
        written = ", ".join(f"{literal(name)}, {value}" for name, value in fields)
        return [found.selectExpr(f"to_json(named_struct({written})) AS value")]

    def _earlier_changes(self, chosen: DataFrame) -> list[DataFrame]:
        if not (self.before / CHANGES).is_dir():
            return []
        found = self.shape.spark.read.text(str(self.before / CHANGES))
        if not self.whole:
            key = F.get_json_object("value", f"$.{CHANGE[0]}").alias(KEY)
            found = found.select("value", key).join(chosen, KEY, "left_semi").select("value")
        return [found]


def check_fields(lines: DataFrame, columns: Sequence[str]) -> None:
    """Refuse lines with fields that are no columns: their values would be lost."""
    known = [*columns, NAMED]
    fields = lines.select(LINE, F.explode(WRITTEN).alias("field"))
    unknown = fields.where(~F.col("field").isin(known)).groupBy("field")
    first = unknown.agg(F.count("*"), F.min(LINE).alias(LINE)).orderBy(LINE).limit(5)
    wrong = []
    for name, count, line in first.collect():
        near = nearest(name, known)
        meant = f" (did you mean {near!r}?)" if near else ""
        wrong.append((f"has a field {name!r} that is no column{meant}", count, [f"line {line}"]))
    if wrong:
        raise CorrectionsRefused(lines.count(), wrong)
