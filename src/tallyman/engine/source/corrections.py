"""Inputs of a replay: some records of an input, with corrected ones in place of others.

A corrected record keeps the key of the record it replaces, also if that is `@file#3`. So the ledger
of a replay names the same records as the ledger of the first run.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import accounted_inputs, frames
from tallyman.engine.expressions.column_names import KEY, PLACE, quoted
from tallyman.engine.files.listing import InputFile, InputFiles, list_files
from tallyman.engine.files.replay_folder import CORRECTED, FACTS, KEYS
from tallyman.engine.source import lines
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.lines_input import PARSED, LinesInput, parsed_field
from tallyman.engine.source.own_values import WRITTEN
from tallyman.engine.source.source import Input, key_text
from tallyman.engine.spark import digest

NAMED = "_source_key"
"""The field of a corrected record with the key of the record it replaces, if its own columns do not
give it.
"""
LINE, VALID, APART = "line", "valid", "apart"
FORMATS = ("dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "timeZone")


@dataclass(frozen=True)
class CorrectionsInput(LinesInput):
    """JSON lines with the columns of a source, whatever the format of the source is."""

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = [n for n in self.schema.names if n != NAMED] if columns is None else list(columns)
        found = super().records([*names, NAMED])
        return found.withColumn(KEY, F.expr(f"coalesce({NAMED}, {KEY})")).drop(NAMED)

    def keys(self) -> DataFrame:
        return self.records([]).select(KEY)

    def every_line(self) -> DataFrame:
        """Read each line: number, text, key, whether `_source_key` gave the key, whether it is one
        object, and the names of its fields.
        """
        keyed = [f for f in self.schema if f.name in (*self.key, NAMED)]
        found = self._lines().selectExpr(
            lines.NUMBER, lines.TEXT, f"{self.parsed(keyed)} AS {PARSED}"
        )
        own = [key_text(self.key, value_of=parsed_field)] if self.key else []
        named = parsed_field(NAMED)
        return found.selectExpr(
            f"{lines.NUMBER} AS {LINE}",
            lines.TEXT,
            f"{PARSED} IS NOT NULL AND json_object_keys({lines.TEXT}) IS NOT NULL AS {VALID}",
            f"{named} IS NOT NULL AS {APART}",
            f"coalesce({', '.join([named, *own])}) AS {KEY}",
            f"json_object_keys({lines.TEXT}) AS {WRITTEN}",
        )


@dataclass(frozen=True, slots=True)
class CorrectionShape:
    """The form of an input's records, whether the input is opened or not."""

    name: str
    spark: SparkSession
    schema: StructType
    key: tuple[str, ...]
    options: Mapping[str, str]

    @property
    def formats(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name in FORMATS}


def corrections(shape: CorrectionShape, path: str, project: Path) -> CorrectionsInput:
    """Read a file or folder of corrections as records of the input."""
    schema = StructType([*shape.schema.fields, StructField(NAMED, StringType())])
    files = list_files(shape.name, path, project)
    return CorrectionsInput(shape.name, shape.spark, files, schema, shape.key, shape.formats)


def keys_in(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the chosen keys, each once."""
    return spark.read.parquet(str(folder)).selectExpr(f"source_key AS {KEY}")


@dataclass(frozen=True)
class Overlay(Input):
    """The uncorrected records of `base`, and the corrected ones.

    `only` restricts both to these keys. Without `base`, all records are corrected ones.
    """

    base: Input | None = None
    corrected: CorrectionsInput | None = None
    only: DataFrame | None = None
    named: bool = False
    """True if a corrected record has a key that its own columns do not give."""

    def lots(self, columns: Sequence[str]) -> list[tuple[Input, DataFrame]]:
        found: list[tuple[Input, DataFrame]] = []
        if self.base is not None:
            rows = self._chosen(self.base.records(columns))
            if self.corrected is not None:
                rows = rows.join(self.corrected.keys(), KEY, "left_anti")
            found.append((self.base, rows))
        if self.corrected is not None:
            found.append((self.corrected, self._chosen(self.corrected.records(columns))))
        return found

    def _chosen(self, rows: DataFrame) -> DataFrame:
        return rows if self.only is None else rows.join(self.only, KEY, "left_semi")

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = self.schema.names if columns is None else list(columns)
        place = [PLACE] if self.places is not None else []
        found = [rows.selectExpr(*map(quoted, names), KEY, *place) for _, rows in self.lots(names)]
        return reduce(DataFrame.unionByName, found)

    def at_most(self) -> int:
        sides = (self.base, self.corrected)
        return sum(side.at_most() for side in sides if side is not None)

    def with_places(self, name: str) -> Input:
        """Add places; the place of a corrected record is in the file of corrections."""
        base = self.base.with_places(name) if self.base is not None else None
        corrected = None
        if self.corrected is not None:
            corrected = replace(self.corrected, places=f"{name}@{CORRECTED}/")
        return replace(self, base=base, corrected=corrected, places=name)

    def measured(self) -> Door:
        """Measure with a separate scan of the remaining base records and the corrected ones."""
        unnamed = f"count_if({lines.is_place(KEY)}) AS n"
        row = self.keys().selectExpr(*digest.lanes(KEY), unnamed).first()
        whole = self.base is not None and self.only is None
        blank = self.base.door().blank_lines if whole and self.base is not None else 0
        return Door(digest.of_row(row), row["n"] if row else 0, blank)

    @property
    def missing_columns(self) -> Mapping[str, int]:
        return self.base.missing_columns if self.base is not None and self.only is None else {}

    @property
    def rejects(self) -> bool:
        sides = (self.base, self.corrected)
        return any(side.rejects for side in sides if side is not None)

    @property
    def every_record_keyed(self) -> bool:
        return self.base is not None and self.base.every_record_keyed and not self.named

    def slower(self) -> Input | None:
        careful = self.base.slower() if self.base is not None else None
        return replace(self, base=careful) if careful is not None else None


def overlaid(
    inputs: Mapping[str, Input], accounted: Collection[str], place: Path, project: Path
) -> dict[str, Input]:
    """Open the inputs of a replay, as described by the files in its folder."""
    facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
    return {
        name: _overlay(source, place, facts, project) if name in accounted else source
        for name, source in inputs.items()
    }


def _overlay(base: Input, place: Path, facts: Mapping[str, Any], project: Path) -> Input:
    shape = CorrectionShape(base.name, base.spark, base.schema, base.key, base.options)
    found: CorrectionsInput | None = None
    if facts["corrected"] == base.name:
        found = corrections(shape, str(place / CORRECTED), project)
    if found is None and facts["whole"]:
        return base
    only = None if facts["whole"] else keys_in(base.spark, place / KEYS)
    kept = base if facts["originals"] else None
    given = (base.name, base.spark, _files(base, kept, found), base.schema, base.key, base.options)
    return Overlay(
        *given,
        base=kept,
        corrected=found,
        only=only,
        named=facts["named"],
        redaction=base.redaction,
    )


def _files(base: Input, kept: Input | None, found: CorrectionsInput | None) -> InputFiles:
    """List both under the name of the source, so that everything that is read is hashed."""
    listed: list[InputFile] = list(kept.files.files) if kept is not None else []
    if found is not None:
        listed += [replace(file, name=f"@{CORRECTED}/{file.name}") for file in found.files.files]
    return replace(base.files, files=tuple(listed))


# ---- the effect of a plan on records --------------------------------------------------------


def treats_each_by_itself(plan: Frame) -> bool:
    """True if fate and rows of a record depend on no other record. Then some records can go through
    the plan alone, and their rows join the existing ones.
    """
    read = [frame.input for frame in frames(plan)]
    once = all(read.count(name) == 1 for name in accounted_inputs(plan))
    return once and _steps_alone(plan)


def _steps_alone(plan: Frame) -> bool:
    multiplied = False
    for step in plan.steps():
        if step.in_place or step.looks_at_other_rows:
            return False
        # One row of a record may fail while the record's other rows pass, and these exist already.
        if multiplied and step.rejects:
            return False
        if step.inflow is not None and not _steps_alone(step.inflow):
            return False
        multiplied = multiplied or step.multiplies
    return True
