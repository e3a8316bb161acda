"""A working set in an asset's run: its steps in order, then its rows as the output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.domain.account.ledger import Check, KeyDigest
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import numbers, working_steps
from tallyman.engine.evidence import write
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.plan import in_place
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.stage import WrittenRows
from tallyman.engine.source.source import Input
from tallyman.engine.spark import small_tables
from tallyman.engine.working.distinct_rows import DistinctRows
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.trace import Tracer
from tallyman.engine.working.working_set import WorkingSet, WrittenOutput, is_file

OUTPUTS = "outputs.json"


def outputs_in(place: Path) -> list[dict[str, Any]]:
    """List what the output steps of a target wrote."""
    listed = place / OUTPUTS
    return list(json.loads(listed.read_text(encoding="utf-8"))) if listed.exists() else []


@dataclass
class WorkingRun:
    plan: Frame
    inputs: Mapping[str, Input]
    evaluation: Evaluation
    ids: RowIds
    tracer: Tracer | None
    scratch: Path

    def __post_init__(self) -> None:
        nodes = working_steps(self.plan)
        names, seqs = self.evaluation.step_ids, numbers(self.plan)
        scratch = str(self.scratch)
        first = (nodes[0].parent if nodes else None) or self.plan
        distinct = DistinctRows(self.evaluation, self.ids.asset, first)
        self.working = WorkingSet(
            self.evaluation, nodes, names, seqs, self.ids, self.tracer, distinct, scratch
        )

    def evaluate(self, output: Path) -> WrittenRows:
        """Apply every step, then write the rows that are left."""
        working = self.working
        first = working.nodes[0].parent if working.nodes else self.plan
        assert first is not None
        working.load(self.evaluation.flow(first))
        if self.tracer is not None:
            self.tracer.begin(working.schema(), self._steps())
        for node in working.nodes:
            working.do(node)
        if working.in_one_piece:
            return WrittenRows.of_stage(self.evaluation.output(working.members[0].flow))
        if self.tracer is not None and working.can_be_output:
            made = WrittenRows.of_stage(working.finish_in_one())
        else:
            made = WrittenRows(output, working.finish(str(output)))
        working.distinct.wait()
        return made

    def checks(self, kept: Kept) -> list[Check]:
        """Compare trace and outputs, in their final places, with the rows they were made from."""
        found = [_counted(kept, name, written) for name, written in self.working.outputs.items()]
        return [*found, *(self.tracer.checks(kept) if self.tracer is not None else ())]

    def _steps(self) -> list[dict[str, object]]:
        """Describe each step: its number, its text, and the columns after it."""
        working, spark = self.working, next(iter(self.inputs.values())).spark
        empty = {
            name: small_tables.empty(spark, given.schema) for name, given in self.inputs.items()
        }
        rows = small_tables.empty(spark, working.schema())
        found: list[dict[str, object]] = []
        for node in working.nodes:
            step = node.step
            assert step is not None
            before = rows.columns
            rows = in_place.apply(step, rows, lambda other: in_place.evaluate(other, empty))
            found.append(
                {
                    "seq": working.numbers[node],
                    "id": working.names[node],
                    "kind": step.kind,
                    "text": step.text(),
                    "assigned": list(in_place.assigned_by(step, before, rows.columns)),
                    "renamed": in_place.renamed_by(step, before),
                    "columns": rows.columns,
                }
            )
        return found

    def keep_outputs(self, folder: Path, partition: str) -> None:
        """Keep the files of output steps with the run; copies are exported later."""
        listed = []
        for name, written in self.working.outputs.items():
            step = written.step
            write.move_files(written.folder, folder / "outputs" / name, f".{step.format}")
            listed.append(
                {
                    "id": name,
                    "path": step.path.replace("{partition}", partition),
                    "format": step.format,
                    "single_file": is_file(step.path),
                    "register_as": step.register_as,
                }
            )
        if listed:
            write_json(folder / OUTPUTS, listed)


def _counted(kept: Kept, name: str, written: WrittenOutput) -> Check:
    place, form = kept.folder / "outputs" / name, written.step.format
    files = [file for file in sorted(place.glob("part-*")) if file.stat().st_size]
    found = 0
    if files:  # Spark cannot read a folder without files
        csv = {"header": "true", "multiLine": "true", "escape": '"'}
        options = csv if form == "csv" else {}
        found = kept.spark().read.format(form).options(**options).load(str(place)).count()
    what = f"rows of output step {name}"
    return Check(what=what, expected=KeyDigest(written.rows), found=KeyDigest(found))
