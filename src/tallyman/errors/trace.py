"""The row trace: writing it, and asking it."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, TallymanError


class TraceWriteFailure(TallymanError):
    """What a step changed could not be written: the step is not complete."""

    code = "trace_write_failure"
    retryable = True
    hint = (
        "The trace of the steps before it can be read; nothing was published. "
        "Mend the disk, then `tallyman resume` goes on."
    )

    def __init__(self, asset: str, seq: int, reason: str) -> None:
        super().__init__(asset, seq, reason)
        self.asset, self.seq, self.reason = asset, seq, reason

    def __str__(self) -> str:
        return f"TraceWriteFailure: {self.asset}, step {self.seq}: {self.reason}"

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "operation_order": self.seq}


class ExportFailed(TallymanError):
    """The run is published; a file that an output step was asked for is not in its place."""

    code = "export_failed"
    retryable = True
    hint = "What was published stays. Mend the path, then `tallyman run --force` writes it again."

    def __init__(self, run: str, path: str, reason: str, done: Sequence[str]) -> None:
        super().__init__(run, path, reason, tuple(done))
        self.run, self.path, self.reason, self.done = run, path, reason, tuple(done)

    def __str__(self) -> str:
        written = f"; {', '.join(self.done)} was written" if self.done else ""
        return f"output {self.path!r} of run {self.run} was not written: {self.reason}{written}."


class RowsNotDistinct(TallymanError):
    """Rows of a working set share a key: their changes could not be distinguished."""

    code = "rows_not_distinct"
    hint = (
        "Nothing was published. Give the source a key that distinguishes its records, "
        'put dropDuplicates before the first change, or say trace="off".'
    )

    def __init__(self, asset: str, step: int, count: int, samples: Sequence[str]) -> None:
        super().__init__(asset, step, count, tuple(samples))
        self.asset, self.step, self.count, self.samples = asset, step, count, tuple(samples)

    def __str__(self) -> str:
        shown = ", ".join(self.samples)
        where = "as loaded" if not self.step else f"made by step {self.step}"
        return (
            f"{self.asset}: {self.count:,} key(s) of the rows {where} belong to more than one row, "
            f"for example {shown}."
        )


class RunNotFinished(Conflict):
    """A trace is asked when the run is over: before, steps are still being added to it."""

    code = "run_not_finished"
    retryable = True
    hint = (
        "`tallyman show` says whether it is at work: then wait. If it was cut off, "
        "`tallyman resume` goes on with it."
    )

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} has not ended: it is still running, or it was cut off."


class NoTrace(TallymanError):
    """A run kept no record of what changed."""

    code = "no_trace"
    exit_code = 2
    hint = (
        "Assets with update, delete, aggregate or append are traced unless they say "
        'trace="off"; any other is with trace="changes". Then `tallyman run` it again.'
    )

    def __init__(self, run: str, target: str, reason: str) -> None:
        super().__init__(run, target, reason)
        self.run, self.target, self.reason = run, target, reason

    def __str__(self) -> str:
        return f"run {self.run} has no trace of {self.target}: {self.reason}."


class StepOutOfRange(TallymanError):
    """The run had no such step."""

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
    """Files of a trace are damaged, or contradict each other: no answer is made of them."""

    code = "trace_corrupt"
    hint = (
        "Nothing was guessed, and nothing was changed. `tallyman verify` says which files are "
        "not what the run wrote; running the asset again with --force makes a new trace."
    )

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"the trace cannot be trusted: {self.where}: {self.reason}."
