"""Errors about writing and reading a trace, and about walks from row to record."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, TallymanError


class TraceWriteFailure(TallymanError):
    code = "trace_write_failure"
    retryable = True
    hint = (
        "The trace of the earlier steps can be read; nothing was published. "
        "Repair the disk, then run `tallyman resume`."
    )
    text = "TraceWriteFailure: {asset}, step {seq}: {reason}"
    asset: str
    seq: int
    reason: str

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "operation_order": self.seq}


class ExportFailed(TallymanError):
    """The run is published, but a file of one of its output steps was not written."""

    code = "export_failed"
    retryable = True
    hint = (
        "The published versions stay. Correct the path, then write it with `tallyman run --force`."
    )
    run: str
    path: str
    reason: str
    done: Sequence[str]

    def __str__(self) -> str:
        written = f"; {', '.join(self.done)} was written" if self.done else ""
        return f"output {self.path!r} of run {self.run} was not written: {self.reason}{written}."


class OutputTaken(TallymanError):
    code = "output_taken"
    hint = (
        "The file is as it was; nothing was read, written or published. Move it away, or give the "
        "output another path."
    )
    text = "{asset}: output {path!r} is not written: {reason}."
    asset: str
    path: str
    reason: str


class RowsNotDistinct(TallymanError):
    """Rows of a working set share a key, so their changes cannot be distinguished."""

    code = "rows_not_distinct"
    hint = (
        "Nothing was published. Give the source a key that distinguishes its records, "
        'put dropDuplicates before the first change, or set trace="off".'
    )
    asset: str
    step: int
    count: int
    samples: Sequence[str]

    def __str__(self) -> str:
        shown = ", ".join(self.samples)
        where = "as loaded" if not self.step else f"made by step {self.step}"
        return (
            f"{self.asset}: {self.count:,} key(s) of the rows {where} are shared by several rows, "
            f"for example {shown}."
        )


class RunNotFinished(Conflict):
    code = "run_not_finished"
    retryable = True
    hint = (
        "`tallyman show` says whether it is still running; if so, wait. If it was interrupted, "
        "`tallyman resume` continues it."
    )
    text = "run {run} has not ended: it is still running, or it was interrupted."
    run: str


class NoTrace(TallymanError):
    code = "no_trace"
    exit_code = 2
    hint = (
        "Assets with update, delete, aggregate or append are traced unless they declare "
        'trace="off"; other assets are traced with trace="changes". Then run the asset again.'
    )
    text = "run {run} has no trace of {target}: {reason}."
    run: str
    target: str
    reason: str


class StepOutOfRange(TallymanError):
    code = "step_out_of_range"
    exit_code = 2
    text = "{target} had no step {step} in this run; its steps are {valid}."
    target: str
    step: int
    valid: Sequence[int]

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "valid_steps": list(self.valid)}


class TraceCorrupt(TallymanError):
    code = "trace_corrupt"
    hint = (
        "Nothing was guessed, and nothing was changed. `tallyman verify` lists the damaged files; "
        "running the asset again with --force makes a new trace."
    )
    text = "the trace cannot be trusted: {where}: {reason}."
    where: str
    reason: str


class EvidenceGone(TallymanError):
    code = "evidence_gone"
    hint = (
        "`tallyman why --version` follows a row of another version; `tallyman run --force` makes "
        "the asset again, with evidence."
    )
    text = (
        "rows of {dataset} were made by run {run}, and the files of that run in {folder} no longer "
        "exist: their origin can no longer be traced."
    )
    dataset: str
    run: str
    folder: str


class DigestsDiffer(TallymanError):
    code = "replay_differs"
    hint = (
        "No record is shown, because these are not the records of that run. `tallyman verify "
        "--exact` compares them key by key."
    )
    text = (
        "{target}: {records:,} recomputed record(s) are in groups whose digest is not the one that "
        "run {run} stored: {reason}."
    )
    target: str
    run: str
    records: int
    reason: str
