"""Evidence files, from what segments wrote: dead letters, filtered keys, evidence, output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from tallyman.domain.history.run import RunIdentity
from tallyman.engine.expressions.column_names import ERROR, KEY, PART, PLACE, REJECTIONS
from tallyman.engine.segment.cuts import Opened
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.group_key import GROUP_KEY, SOURCE_KEY, SOURCE_PLACE, text_of_group
from tallyman.engine.segment.stage import EVIDENCE_OPTIONS, Stage
from tallyman.engine.spark import digest

GROUP, GROUP_STEP, LEVEL = BEHIND = ("_tm_group", "_tm_group_step", "_tm_level")
SUMMARY = "_summary.json"
LONGEST = 2_000_000
"""The most bytes of a value in a dead letter: DuckDB reads JSON objects of 16 MiB, and Spark JSON
texts of 20,000,000 characters, above which a JSON line cannot be read in the first place."""
TOO_LONG = "characters: JSON is read up to 20000000 in one text, and up to 2000000 bytes are kept"
RULE_ROW = attrgetter("error_type.value", "path", "expected", "entity", "field", "step", "code")
RULE = ("error_type", "morphism_path", "expected", "entity", "field", "step", "error_code")


@dataclass(frozen=True, slots=True)
class EvidenceWriter:
    """A writer of one asset's evidence: into the scratch folder, then moved to its place."""

    run: RunIdentity
    book: Book
    folder: Path
    scratch: Path
    partition_label: str = "all"
    """The partition; `all` for an asset without partitions."""

    @property
    def named(self) -> tuple[str, str]:
        """The asset and its partition: the same key may be rejected in several partitions."""
        return self.book.asset, self.partition_label

    # ---- dead letters ------------------------------------------------------------------

    def rejections(self, ended: DataFrame) -> DataFrame:
        """Make dead-letter records of rows that ended as ERROR: one for each broken rule."""
        rule = _looked_up([RULE_ROW(rule) for rule in self.book.rules], RULE, F.col("r.rule"))
        each = ended.select(
            KEY,
            PLACE,
            *BEHIND,
            F.posexplode(REJECTIONS).alias("_tm_nth", "r"),
            F.size(REJECTIONS).cast("string").alias("_tm_of"),
        )
        found = each.select("*", F.col("r.actual"), rule.alias("rule"))
        found = found.select("*", "rule.*")
        return found.select(
            F.col(KEY).alias("source_key"),
            "error_type",
            "morphism_path",
            "expected",
            F.expr(
                f"CASE WHEN octet_length(actual) > {LONGEST} THEN concat(length(actual), "
                f"' {TOO_LONG}') ELSE make_valid_utf8(actual) END AS actual"
            ),
            self._context().alias("context"),
            F.lit(self.run.run_id).alias("run_id"),
            F.lit(self.run.openlineage_run_id).alias("openlineage_run_id"),
            F.lit(self.run.timestamp).alias("timestamp"),
            "error_code",
            self._error_id().alias("error_id"),
        )

    def _error_id(self) -> Column:
        """Derive an id from partition, record and rule alone, so that it is the same in every
        run."""
        named = [F.col(KEY), F.col(PLACE).cast("string"), F.col(GROUP)]
        parts = [*named, *map(F.col, ("morphism_path", "error_type", "expected"))]
        shown = [F.coalesce(part, F.lit("")) for part in (*map(F.lit, self.named), *parts)]
        return F.substring(F.sha2(F.concat_ws("\x1f", *shown), 256), 1, 32)

    def _context(self) -> Column:
        """Return what is known of the place of the error. What is not known, NULL, is not written;
        a struct is written like a map, and its fields need no lambda."""
        named = {
            "entity": F.col("entity"),
            "field": F.col("field"),
            "step": F.col("step"),
            "asset": F.lit(self.book.asset),
            "epoch": F.lit(self.partition_label),
            "group_key": F.col(GROUP),
            "group_step": F.col(GROUP_STEP),
            "level": F.col(LEVEL),
            "place": F.col(PLACE).cast("string"),
            "rejection": F.concat_ws("/", (F.col("_tm_nth") + 1).cast("string"), F.col("_tm_of")),
        }
        return F.struct(*(value.alias(name) for name, value in named.items()))

    def write_letters(self, letters: DataFrame) -> None:
        aside = self.scratch / "errors"
        copied = letters.withColumn("_tm_dir", F.col("error_type"))
        writer = copied.write.option("ignoreNullFields", "true")
        writer.partitionBy("_tm_dir").json(str(aside))
        target = self.folder / "errors"
        target.mkdir(exist_ok=True)
        for part in sorted(aside.glob("_tm_dir=*")):
            move_files(part, target / part.name.replace("_tm_dir", "error_type"), ".jsonl")

    # ---- filtered keys -----------------------------------------------------------------

    def write_filtered(self, dropped: DataFrame, parts: Sequence[int]) -> None:
        """Write keys with the predicate that filtered them, one folder per step."""
        predicates = [(self.book.parts[n].predicate,) for n in self.book.parts]
        place = F.col(PART) - F.lit(min(self.book.parts))
        found = dropped.where(F.col(PART).isin(*parts)).select(
            PART,
            F.col(KEY).alias(SOURCE_KEY),
            *_place(dropped),
            _looked_up(predicates, ("text",), place).getField("text").alias("filter_predicate"),
        )
        aside = self.scratch / "filtered_keys"
        found.write.options(**EVIDENCE_OPTIONS).partitionBy(PART).parquet(str(aside))
        for number in parts:
            target = self.evidence("filtered_keys", self.book.parts[number].step_id)
            move_files(aside / f"{PART}={number}", target)

    def make_filtered(self, part: int) -> None:
        """Make an empty folder for a step that filtered nothing: none is not the same as
        unknown.
        """
        name = self.book.parts[part].step_id
        self.evidence("filtered_keys", name).mkdir(parents=True, exist_ok=True)

    def evidence(self, kind: str, step_id: str) -> Path:
        """Name the folder of evidence; constant columns are folder names, which cost nothing per
        row.
        """
        place = self.folder / "adjoint" / kind / f"{step_id}.parquet"
        return (
            place
            / f"morphism_id={step_id}"
            / f"run_id={self.run.run_id}"
            / f"epoch={self.partition_label}"
        )

    # ---- evidence of live rows -----------------------------------------------------------

    def keep_keys(self, opened: Opened) -> None:
        """Move the live rows that a groupBy segment wrote: they are the evidence already."""
        move_files(Path(opened.stage.live_folder()), self.evidence("reverse_joins", opened.step_id))

    def rewrite_keys(self, opened: Opened, failed_groups: DataFrame) -> None:
        """Write evidence without groups that failed later: their records are ERROR, not
        AGGREGATED.
        """
        rows = opened.rows()
        left = rows.withColumn(GROUP, F.expr(text_of_group(rows)))
        kept = left.join(failed_groups.select(GROUP), GROUP, "left_anti").drop(GROUP)
        aside = self.scratch / f"kept-{opened.step_id}"
        kept.write.options(**EVIDENCE_OPTIONS).parquet(str(aside))
        move_files(aside, self.evidence("reverse_joins", opened.step_id))

    def write_groups(self, opened: Opened) -> None:
        assert opened.groups is not None
        aside = self.scratch / f"groups-{opened.step_id}"
        names = zip(digest.NAMES, digest.STORED, strict=True)
        found = opened.groups.select(GROUP_KEY, *(F.col(n).alias(stored) for n, stored in names))
        found.write.parquet(str(aside))
        move_files(aside, self.evidence("reverse_joins", opened.step_id))

    def write_links(self, opened: Opened) -> None:
        assert opened.links is not None
        aside = self.scratch / f"links-{opened.step_id}"
        opened.links.write.options(**EVIDENCE_OPTIONS).parquet(str(aside))
        move_files(aside, self.evidence("reverse_joins", opened.step_id))

    def write_children(self, opened: Opened) -> None:
        assert opened.children is not None
        aside = self.scratch / f"children-{opened.step_id}"
        opened.children.write.options(**EVIDENCE_OPTIONS).parquet(str(aside))
        move_files(aside, self.evidence("parent_child", opened.step_id))


def _looked_up(rows: Sequence[Sequence[str]], names: Sequence[str], place: Column) -> Column:
    """Look up a row of a small table by number, as a literal: a join would cost another job."""
    structs = [
        F.struct(*(F.lit(v).alias(n) for n, v in zip(names, row, strict=True))) for row in rows
    ]
    return F.element_at(F.array(*structs), place + 1)


def _place(dropped: DataFrame) -> list[Column]:
    """Return the column of places, if some stage has it."""
    known = not isinstance(dropped.schema[PLACE].dataType, NullType)
    return [F.col(PLACE).alias(SOURCE_PLACE)] if known else []


def failed_sources(opened: Opened, failed: DataFrame) -> DataFrame:
    """Read the records of failed groups: key, rejections and the group."""
    step = F.lit(opened.step_id).alias(GROUP_STEP)
    groups = failed.select(F.col(KEY).alias(GROUP), step, REJECTIONS)
    rows = opened.rows()
    place = F.col(SOURCE_PLACE) if SOURCE_PLACE in rows.columns else F.lit(None)
    key = F.col(SOURCE_KEY).alias(KEY)
    sources = rows.select(key, place.alias(PLACE), F.expr(text_of_group(rows)).alias(GROUP))
    level = no_group(opened.stage.level)[-1]
    found = sources.join(F.broadcast(groups), GROUP)
    return found.select(KEY, PLACE, REJECTIONS, GROUP, GROUP_STEP, level)


def failed_rows(stage: Stage) -> DataFrame:
    found = stage.dropped().where(F.col(PART) == ERROR)
    return found.select(KEY, PLACE, REJECTIONS, *no_group(stage.level))


def no_group(level: int) -> list[Column]:
    """Return empty group columns and the level; level 0, for records, is left out."""
    shown = F.lit(str(level)) if level else F.lit(None)
    none = [F.lit(None).cast("string").alias(name) for name in (GROUP, GROUP_STEP)]
    return [*none, shown.cast("string").alias(LEVEL)]


def move_files(origin: Path, target: Path, suffix: str = ".parquet") -> None:
    """Move files to their place, with names that are the same in every run."""
    target.mkdir(parents=True, exist_ok=True)
    files = sorted(p for p in origin.rglob("part-*") if p.is_file()) if origin.exists() else []
    for number, file in enumerate(files):
        os.rename(file, target / f"part-{number:05d}{suffix}")


def clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
