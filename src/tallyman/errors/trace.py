"""Errors about writing and reading a trace."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, TallymanError


class TraceWriteFailure(TallymanError):
    """The changes of a step could not be written, so the step is not complete."""

    code = "trace_write_failure"
    retryable = True
    hint = (
        "The trace of the earlier steps can be read; nothing was published. "
        "Repair the disk, then run `tallyman resume`."
    )

    def __init__(self, asset: str, seq: int, reason: str) -> None:
        super().__init__(asset, seq, reason)
        self.asset, self.seq, self.reason = asset, seq, reason

    def __str__(self) -> str:
        return f"TraceWriteFailure: {self.asset}, step {self.seq}: {self.reason}"

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "operation_order": self.seq}


class ExportFailed(TallymanError):
    """The run is published, but a file of one of its output steps was not written."""

    code = "export_failed"
    retryable = True
    hint = (
        "The published versions stay. Correct the path, then write it with `tallyman run --force`."
    )

    def __init__(self, run: str, path: str, reason: str, done: Sequence[str]) -> None:
        super().__init__(run, path, reason, tuple(done))
        self.run, self.path, self.reason, self.done = run, path, reason, tuple(done)

    def __str__(self) -> str:
        written = f"; {', '.join(self.done)} was written" if self.done else ""
        return f"output {self.path!r} of run {self.run} was not written: {self.reason}{written}."


class OutputTaken(TallymanError):
    """An output step would write over a file that no run of its asset wrote."""

    code = "output_taken"
    hint = (
        "The file is as it was; nothing was read, written or published. Move it away, or give the "
        "output another path."
    )

    def __init__(self, asset: str, path: str, reason: str) -> None:
        super().__init__(asset, path, reason)
        self.asset, self.path, self.reason = asset, path, reason

    def __str__(self) -> str:
        return f"{self.asset}: output {self.path!r} is not written: {self.reason}."


class RowsNotDistinct(TallymanError):
    """Rows of a working set share a key, so their changes cannot be distinguished."""

    code = "rows_not_distinct"
    hint = (
        "Nothing was published. Give the source a key that distinguishes its records, "
        'put dropDuplicates before the first change, or set trace="off".'
    )

    def __init__(self, asset: str, step: int, count: int, samples: Sequence[str]) -> None:
        super().__init__(asset, step, count, tuple(samples))
        self.asset, self.step, self.count, self.samples = asset, step, count, tuple(samples)

    def __str__(self) -> str:
        shown = ", ".join(self.samples)
        where = "as loaded" if not self.step else f"made by step {self.step}"
        return (
            f"{self.asset}: {self.count:,} key(s) of the rows {where} are shared by several rows, "
            f"for example {shown}."
        )


class RunNotFinished(Conflict):
    """The run has not ended; its trace can be read only after the last step is written."""

    code = "run_not_finished"
    retryable = True
    hint = (
        "`tallyman show` says whether it is still running; if so, wait. If it was interrupted, "
        "`tallyman resume` continues it."
    )

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} has not ended: it is still running, or it was interrupted."


class NoTrace(TallymanError):
    """A run kept no trace of the target."""

    code = "no_trace"
    exit_code = 2
    hint = (
        "Assets with update, delete, aggregate or append are traced unless they declare "
        'trace="off"; other assets are traced with trace="changes". Then run the asset again.'
    )

    def __init__(self, run: str, target: str, reason: str) -> None:
        super().__init__(run, target, reason)
        self.run, self.target, self.reason = run, target, reason

    def __str__(self) -> str:
        return f"run {self.run} has no trace of {self.target}: {self.reason}."


class StepOutOfRange(TallymanError):
    """The run has no step with this number."""

    code = "step_out_of_range"
    exit_code = 2

    def __init__(self, target: str, step: int, valid: Sequence[int]) -> None:
        super().__init__(target, step, tuple(valid))
        self.target, self.step, self.valid = target, step, tuple(valid)

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.valid))
        return f"{self.target} had no step {self.step} in this run; its steps are {listed}."

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "valid_steps": list(self.valid)}


class TraceCorrupt(TallymanError):
    """Trace files are damaged or contradict each other, so no answer is derived from them."""

    code = "trace_corrupt"
    hint = (
        "Nothing was guessed, and nothing was changed. `tallyman verify` lists the damaged files; "
        "running the asset again with --force makes a new trace."
    )

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"the trace cannot be trusted: {self.where}: {self.reason}."
