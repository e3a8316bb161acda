"""One row in a run: its history, and its values at any step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from uuid import UUID

from tallyman.domain.history.trace import Diagnostic, RowAtStep, RowHistory, TraceStep
from tallyman.domain.pipeline.target import Target
from tallyman.errors import StepOutOfRange, UsageError
from tallyman.query.trace.files import TraceFolder
from tallyman.query.trace.read import TraceReader
from tallyman.query.trace.state import Life


class TraceRow:
    """A row of a run. Its records are read on first use."""

    def __init__(
        self,
        row_id: UUID,
        reader: TraceReader,
        folders: Sequence[TraceFolder],
        nothing: Diagnostic | None = None,
    ) -> None:
        self.row_id = row_id
        self._reader, self._folders, self._nothing = reader, folders, nothing

    @property
    def target(self) -> Target | None:
        """The asset and partition of the row; None if it has no record."""
        return self._found[0].target if self._found else None

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the steps that `at_step` accepts."""
        folders = [self._found[0]] if self._found else self._folders
        return tuple(sorted({seq for folder in folders for seq in folder.seqs}))

    @property
    def described(self) -> tuple[TraceStep, ...]:
        """The steps of its asset, as they were in the run."""
        return self._found[0].steps if self._found else ()

    def history(self, include_baseline: bool = False) -> RowHistory:
        """List every step that changed the row; with the baseline, also how it was loaded, as step
        0."""
        if self._nothing or not self._found:
            return RowHistory((), self._nothing or self._not_found())
        return RowHistory(tuple(self._found[1].entries(include_baseline)))

    def at_step(self, step: int) -> RowAtStep:
        """Return the whole row after a step, whether the step changed it or not. StepOutOfRange
        lists the valid steps."""
        if self._nothing:
            return RowAtStep(None, self._nothing)
        if step not in self.steps:
            raise StepOutOfRange(self._scope(), step, self.steps)
        if not self._found:
            return RowAtStep(None, self._not_found())
        folder, life = self._found
        if step not in folder.files:
            return RowAtStep(None, not_complete(step, [folder]))
        state = life.state_at(step)
        return RowAtStep(state, None if state else _not_yet(life, step))

    # ---- lookup --------------------------------------------------------------------------

    @cached_property
    def _found(self) -> tuple[TraceFolder, Life] | None:
        files = [file for folder in self._folders for file in folder.of_kinds()]
        found = self._reader.of_row(files, self.row_id)
        folders = {str(one.file.folder.target): one.file.folder for one in found}
        if len(folders) > 1:
            known = ", ".join(sorted(folders))
            raise UsageError(f"row {self.row_id} is in {known}: choose one asset")
        if not folders:
            return None
        folder = next(iter(folders.values()))
        return folder, Life(folder.shown, folder.steps, folder.timestamp, found)

    def _not_found(self) -> Diagnostic:
        return Diagnostic(
            "RowNotFound",
            f"row {self.row_id} of {self._scope()} was never changed by this run, or does not "
            "exist",
            {"row_id": str(self.row_id)},
        )

    def _scope(self) -> str:
        if self._found:
            return str(self._found[0].target)
        return ", ".join(str(folder.target) for folder in self._folders[:5])


def not_complete(step: int, folders: Sequence[TraceFolder]) -> Diagnostic:
    last = max((seq for folder in folders for seq in folder.files), default=None)
    done = f"the last complete one is {last}" if last is not None else "none was"
    return Diagnostic(
        "StepNotComplete",
        f"the run ended before step {step} was complete; {done}",
        {"last_completed_operation": last},
    )


def _not_yet(life: Life, step: int) -> Diagnostic:
    created = life.created_at_seq
    return Diagnostic(
        "RowNotYetCreated",
        f"there was no row {life.row_id} at step {step}: step {created} created it",
        {"created_at_seq": created},
    )
