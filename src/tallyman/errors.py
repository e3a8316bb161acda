"""Every error Tallyman raises on purpose. Facts are attributes; the text is derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class TallymanError(Exception):
    """What happened with numbers, what was left behind, and what to do next."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def facts(self) -> dict[str, object]:
        return {
            "code": self.code,
            "message": str(self),
            "hint": self.hint,
            "retryable": self.retryable,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a definition: where it is, what is wrong, and the nearest name that exists."""

    where: str
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        if not self.nearest:
            return f"{self.where}: {self.message}"
        stop = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{self.where}: {self.message}{stop} Did you mean {self.nearest!r}?"


class DefinitionError(TallymanError):
    """The pipeline cannot be what its author meant. All mistakes at once, before data is read."""

    code = "definition_error"
    exit_code = 2
    hint = "Nothing was read and nothing was written."

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} mistake{'s' if count != 1 else ''} in the pipeline definition"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])

    def facts(self) -> dict[str, object]:
        listed = [
            {"where": p.where, "message": p.message, "nearest": p.nearest} for p in self.problems
        ]
        return {**super().facts(), "problems": listed}


class UnaccountableOperation(TallymanError):
    """An operation on a Frame whose effect on each row cannot be recorded."""

    code = "unaccountable_operation"
    exit_code = 2
    hint = "Nothing was read and nothing was written."

    def __init__(self, operation: str, alternative: str) -> None:
        super().__init__(operation, alternative)
        self.operation = operation
        self.alternative = alternative

    def __str__(self) -> str:
        return f"{self.operation} cannot be accounted for row by row. {self.alternative}"


class UsageError(TallymanError):
    """The command or call itself is wrong."""

    code = "usage_error"
    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)


class NotFound(TallymanError):
    """A run, an asset or a row that was asked for is not there."""

    code = "not_found"
    exit_code = 2

    def __init__(self, what: str, name: str, nearest: str | None = None) -> None:
        super().__init__(what, name, nearest)
        self.what, self.name, self.nearest = what, name, nearest

    def __str__(self) -> str:
        suggestion = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return f"there is no {self.what} {self.name!r}.{suggestion}"


class InputMissing(TallymanError):
    """A source or an upstream asset has no data to read."""

    code = "input_missing"

    def __init__(self, name: str, place: str, advice: str) -> None:
        super().__init__(name, place, advice)
        self.name, self.place, self.advice = name, place, advice

    def __str__(self) -> str:
        return f"input {self.name!r} has nothing to read at {self.place}. {self.advice}"


class InputUnreadable(TallymanError):
    """A file of an input is not of the declared format at all."""

    code = "input_unreadable"
    hint = "Nothing was published. Replace the file, or take it out of the input."

    def __init__(self, name: str, file: str, reason: str) -> None:
        super().__init__(name, file, reason)
        self.name, self.file, self.reason = name, file, reason

    def __str__(self) -> str:
        return f"file {self.file!r} of input {self.name!r} cannot be read: {self.reason}"


class InputChanged(TallymanError):
    """Files of an input were changed while a run was reading them."""

    code = "input_changed"
    retryable = True
    hint = "Nothing was published. Run again when nobody writes to the input."

    def __init__(self, name: str, files: Sequence[str]) -> None:
        super().__init__(name, tuple(files))
        self.name, self.files = name, tuple(files)

    def __str__(self) -> str:
        shown = ", ".join(self.files[:3])
        return f"{len(self.files)} file(s) of input {self.name!r} changed during the run: {shown}"


class ReferenceRejected(TallymanError):
    """The right side of a join holds records that cannot be read, and has no ledger of its own."""

    code = "reference_rejected"
    hint = (
        "Nothing was published. Give the reference an asset of its own, so that its rejections "
        "are accounted for, and join that asset."
    )

    def __init__(self, name: str, count: int, samples: Sequence[str]) -> None:
        super().__init__(name, count, tuple(samples))
        self.name, self.count, self.samples = name, count, tuple(samples)

    def __str__(self) -> str:
        shown = "; ".join(self.samples)
        return f"{self.count} record(s) of reference {self.name!r} cannot be read: {shown}"


class JoinFanOut(TallymanError):
    """A record matched more than one row of a reference that was promised to match once."""

    code = "join_fan_out"
    hint = (
        'Make the reference unique, or say fanout="expand" to keep every match. '
        "Nothing was published."
    )

    def __init__(self, asset: str, step: str, count: int, samples: Sequence[str]) -> None:
        super().__init__(asset, step, count, tuple(samples))
        self.asset, self.step, self.count, self.samples = asset, step, count, tuple(samples)

    def __str__(self) -> str:
        shown = ", ".join(self.samples)
        return (
            f"{self.asset}, step {self.step}: {self.count:,} record(s) match more than one row "
            f"of the reference, for example {shown}."
        )


class StepFailed(TallymanError):
    """Spark could not evaluate a step; no fate was decided."""

    code = "step_failed"
    hint = (
        "Nothing was published. Guard the expression (try_cast, try_divide) and add an expect "
        "for what it protects."
    )

    def __init__(self, asset: str, reason: str) -> None:
        super().__init__(asset, reason)
        self.asset, self.reason = asset, reason

    def __str__(self) -> str:
        return f"{self.asset} stopped: {self.reason}"


class StorageFailed(TallymanError):
    """A file of the run could not be written or read."""

    code = "storage_failed"
    retryable = True
    hint = "Nothing of it was published. Mend the disk, then `tallyman resume` goes on."

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target, self.reason = target, reason

    def __str__(self) -> str:
        return f"{self.target} stopped: {self.reason}"


class ThresholdExceeded(TallymanError):
    """More records were rejected than the asset allows."""

    code = "threshold_exceeded"
    exit_code = 3
    hint = "All rejections were kept (`tallyman rejections ls`). Nothing was published."

    def __init__(self, asset: str, reason: str, errors: int, threshold: float) -> None:
        super().__init__(asset, reason, errors, threshold)
        self.asset, self.reason, self.errors, self.threshold = asset, reason, errors, threshold

    def __str__(self) -> str:
        return (
            f"{self.asset}: error threshold exceeded: {self.errors:,} rejected records "
            f"({self.reason}), threshold {self.threshold:,}."
        )

    def facts(self) -> dict[str, object]:
        halt = {"reason": self.reason, "error_count": self.errors, "threshold": self.threshold}
        return {**super().facts(), **halt}


class StructuralError(ThresholdExceeded):
    """The first records are so broken that reading on would only fill the dead letters."""

    code = "structural_error"
    hint = (
        "Only a sample of the rejections was written. Look at it, and at the schema of the source."
    )

    def __init__(self, asset: str, source: str, errors: int, window: int, threshold: float) -> None:
        super().__init__(asset, "CircuitBreaker", errors, threshold)
        self.args = (asset, source, errors, window, threshold)
        self.source, self.window = source, window

    def __str__(self) -> str:
        return (
            f"{self.asset}: {self.errors:,} of the first {self.window:,} records of "
            f"{self.source!r} cannot be read (limit {self.threshold:.1%}): the input does not "
            f"have the declared structure."
        )


class EmptyInput(ThresholdExceeded):
    """An input without a single record, where the asset says that must stop the run."""

    code = "empty_input"
    hint = 'Say Thresholds(on_empty="warn") if an empty input is normal. Nothing was published.'

    def __init__(self, asset: str) -> None:
        super().__init__(asset, "EmptyInput", 0, 0)
        self.args = (asset,)

    def __str__(self) -> str:
        return f"{self.asset}: the input holds no records."


class RowsUnaccountedFor(TallymanError):
    """Records in and fates out are not the same keys."""

    code = "rows_unaccounted_for"
    hint = "`tallyman verify --exact` names the keys. Nothing was published."

    def __init__(self, asset: str, missing: int, extra: int, duplicate: int) -> None:
        super().__init__(asset, missing, extra, duplicate)
        self.asset, self.missing, self.extra, self.duplicate = asset, missing, extra, duplicate

    def __str__(self) -> str:
        return (
            f"{self.asset}: the accounting does not balance: {self.missing:,} missing, "
            f"{self.extra:,} extra, {self.duplicate:,} duplicate."
        )

    def facts(self) -> dict[str, object]:
        counts = {"missing": self.missing, "extra": self.extra, "duplicate": self.duplicate}
        return {**super().facts(), "reason": "ACCOUNTING_INVARIANT_VIOLATED", **counts}


class DatabaseUnavailable(TallymanError):
    """The database does not answer."""

    code = "database_unavailable"
    retryable = True
    hint = (
        "Nothing was lost: what was committed is there when the database is back. "
        "`tallyman db status` tells more."
    )

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"the database ({self.place}) does not answer: {self.reason}"


class DatabaseNewer(TallymanError):
    """A newer program has already changed the tables."""

    code = "database_newer"
    exit_code = 2
    hint = "Nothing was changed. Use the newer program: install the version the others use."

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found, self.known = found, known

    def __str__(self) -> str:
        return (
            f"the database is at version {self.found}, and this program knows only "
            f"up to version {self.known}."
        )


class DatabaseBehind(TallymanError):
    """The tables are older than the program, in a database that is not the program's own."""

    code = "database_behind"
    exit_code = 2
    hint = "Nothing was changed. Run `tallyman db migrate` as the owner of the tables."

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(found, needed)
        self.found, self.needed = found, needed

    def __str__(self) -> str:
        return f"the database is at version {self.found}; this program needs {self.needed}."


class RunExists(TallymanError):
    """A run has one name for ever."""

    code = "run_exists"
    exit_code = 2
    hint = "Choose another --run-id, or leave it out to get a fresh one."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run!r} already exists; a run's name is used once."


class Conflict(TallymanError):
    """The world is not as the command assumed."""

    code = "conflict"
    exit_code = 4


class RunBusy(Conflict):
    """A process is still at work on the run."""

    code = "run_busy"
    hint = "Wait for it, or stop it first: `tallyman cancel`."

    def __init__(self, run: str, node: str) -> None:
        super().__init__(run, node)
        self.run, self.node = run, node

    def __str__(self) -> str:
        return f"run {self.run} is still at work on {self.node}."


class NotRunning(Conflict):
    """Only a run at work can be canceled."""

    code = "not_running"

    def __init__(self, run: str, status: str) -> None:
        super().__init__(run, status)
        self.run, self.status = run, status

    def __str__(self) -> str:
        return f"run {self.run} is not at work: {self.status}."


class RunTaken(Conflict):
    """Another process has this run now: what this one does no longer counts."""

    code = "run_taken"
    hint = "Nothing more was written by this process. `tallyman show` tells the run's state."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was taken over or canceled while this process worked on it."


class DependencyNotReady(Conflict):
    """An upstream asset that is not part of the run has no result to read."""

    code = "dependency_not_ready"
    retryable = True
    hint = "Nothing was run. Select what it reads too: put a + before the name."

    def __init__(self, missing: Sequence[tuple[str, str]]) -> None:
        super().__init__(tuple(missing))
        self.missing = tuple(missing)

    def __str__(self) -> str:
        listed = "; ".join(f"{reader} reads {read}" for reader, read in self.missing[:5])
        more = f" and {len(self.missing) - 5} more" if len(self.missing) > 5 else ""
        return f"{len(self.missing)} input(s) have no result yet: {listed}{more}."


class AlreadyDecided(Conflict):
    """An approval is answered once."""

    code = "already_decided"
    hint = "The first decision stands."

    def __init__(self, target: str, status: str, by: str | None) -> None:
        super().__init__(target, status, by)
        self.target, self.status, self.by = target, status, by

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        return f"{self.target}: the approval was already {self.status}{who}."


class ForeignAsset(Conflict):
    """Two projects share a database and a name."""

    code = "foreign_asset"
    hint = (
        "Rename the asset, give the project a database of its own, or its old name back if it was "
        "renamed."
    )

    def __init__(self, asset: str, project: str) -> None:
        super().__init__(asset, project)
        self.asset, self.project = asset, project

    def __str__(self) -> str:
        return f"asset {self.asset!r} belongs to project {self.project!r} in this database."


class RowsOutsidePartition(TallymanError):
    """An asset made rows that belong to another partition than the one it was run for."""

    code = "rows_outside_partition"
    hint = "Nothing was published. Keep the partition column as it was read, or filter on it."

    def __init__(self, target: str, column: str, count: int) -> None:
        super().__init__(target, column, count)
        self.target, self.column, self.count = target, column, count

    def __str__(self) -> str:
        return f"{self.target}: {self.count:,} row(s) have another value of {self.column!r}."


class RunCanceled(TallymanError):
    """Somebody asked for the run to stop."""

    code = "canceled"
    exit_code = 130
    hint = "What was finished stays. `tallyman resume` goes on with the rest."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was canceled."


class VersionConflict(Conflict):
    """Somebody else published first. The body is that of `spec` row O6."""

    code = "conflict"
    retryable = True
    hint = (
        "Nothing was published; readers see what they saw. Look with `tallyman versions`, then do "
        "it again on what is there now; a run reuses what is unchanged."
    )

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(table_key, expected, actual)
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def __str__(self) -> str:
        return (
            f"dataset {self.table_key!r} is at version {self.actual}, "
            f"not at {self.expected} as expected."
        )

    def body(self) -> dict[str, object]:
        """As a client of the service gets it."""
        found = {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}
        return {"error": str(self), "code": self.code, "manifest_conflict": found}

    def facts(self) -> dict[str, object]:
        return {**super().facts(), **self.body()}


class SingleProducer(Conflict):
    """A dataset is produced by one pipeline at a time."""

    code = "single_producer"
    hint = "Publish under another name, or have the other project give the dataset up first."

    def __init__(self, dataset: str, producer: str, project: str) -> None:
        super().__init__(dataset, producer, project)
        self.dataset, self.producer, self.project = dataset, producer, project

    def __str__(self) -> str:
        return (
            f"dataset {self.dataset!r} is produced by {self.producer!r} of project "
            f"{self.project!r}; nobody else can."
        )


class NameTaken(Conflict):
    """Datasets and snapshots share one namespace: both are read by name."""

    code = "name_taken"
    hint = "Nothing was changed. Choose another name."

    def __init__(self, name: str, by: str) -> None:
        super().__init__(name, by)
        self.name, self.by = name, by

    def __str__(self) -> str:
        return f"the name {self.name!r} is taken by a {self.by}."


class SchemaChanged(Conflict):
    """All fragments of a version have the same columns."""

    code = "schema_changed"
    hint = (
        "Nothing was published. Rebuild all of it together: `tallyman plan`, then `tallyman apply`."
    )

    def __init__(self, dataset: str, before: str, after: str) -> None:
        super().__init__(dataset, before, after)
        self.dataset, self.before, self.after = dataset, before, after

    def __str__(self) -> str:
        return (
            f"dataset {self.dataset!r} has the columns {self.before}; what would join it has "
            f"{self.after}."
        )


class UnpublishableType(TallymanError):
    """Iceberg has no such type."""

    code = "unpublishable_type"
    exit_code = 2
    hint = "Cast the column in the asset, for example to a string."

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(dataset, reason)
        self.dataset, self.reason = dataset, reason

    def __str__(self) -> str:
        return f"dataset {self.dataset!r} cannot be an open table: {self.reason}"


class FragmentGone(Conflict):
    """`cleanup` took files that were waiting to be published."""

    code = "fragment_gone"
    retryable = True
    hint = "Nothing was published. Run it again: it is made anew."

    def __init__(self, dataset: str) -> None:
        super().__init__(dataset)
        self.dataset = dataset

    def __str__(self) -> str:
        return f"files that were to be published in {self.dataset!r} were cleaned up meanwhile."


class InvalidMutation(TallymanError):
    """A mutation that does not say what to do. All mistakes at once, each with its path."""

    code = "invalid_mutation"
    exit_code = 2
    hint = "Nothing was written."

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} mistake{'s' if count != 1 else ''} in the mutation"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])

    def facts(self) -> dict[str, object]:
        listed = [
            {"where": p.where, "message": p.message, "nearest": p.nearest} for p in self.problems
        ]
        return {**super().facts(), "problems": listed}


class MixedMutation(TallymanError):
    """One mutation both takes rows away and brings rows in."""

    code = "mixed_mutation"
    exit_code = 2
    hint = "Nothing was read and nothing was written. Send the deletes as a mutation of their own."

    def __init__(self, deletes: Sequence[int], others: Sequence[int]) -> None:
        super().__init__(tuple(deletes), tuple(others))
        self.deletes, self.others = tuple(deletes), tuple(others)

    def __str__(self) -> str:
        deletes, others = (", ".join(map(str, some)) for some in (self.deletes, self.others))
        return (
            f"a delete (statement {deletes}) cannot go together with an insert or an update "
            f"(statement {others})."
        )

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "deletes": list(self.deletes), "others": list(self.others)}


class MutationRefused(TallymanError):
    """Rows that break a rule of their table. `statement` counts from 1; a load has none."""

    code = "mutation_refused"
    hint = "Nothing was written."

    def __init__(
        self,
        dataset: str,
        rule: str,
        count: int,
        samples: Sequence[str],
        statement: int | None = None,
    ) -> None:
        super().__init__(dataset, rule, count, tuple(samples), statement)
        self.dataset, self.rule, self.count = dataset, rule, count
        self.samples, self.statement = tuple(samples), statement

    def __str__(self) -> str:
        which = "" if self.statement is None else f"statement {self.statement}, "
        shown = "; ".join(self.samples)
        return f"{which}table {self.dataset}: {self.count:,} row(s) break {self.rule}: {shown}"

    def facts(self) -> dict[str, object]:
        rows = {"rule": self.rule, "count": self.count, "samples": list(self.samples)}
        return {**super().facts(), "statement": self.statement, "dataset": self.dataset, **rows}


class KeyConflict(Conflict):
    """Rows were to be added under keys that are already there."""

    code = "key_conflict"
    hint = "Nothing was written. Update the rows instead, or load with mode merge."

    def __init__(
        self, dataset: str, count: int, samples: Sequence[str], statement: int | None = None
    ) -> None:
        super().__init__(dataset, count, tuple(samples), statement)
        self.dataset, self.count, self.samples = dataset, count, tuple(samples)
        self.statement = statement

    def __str__(self) -> str:
        which = "" if self.statement is None else f"statement {self.statement}, "
        shown = "; ".join(self.samples)
        return f"{which}table {self.dataset}: {self.count:,} key(s) are already there: {shown}"

    def facts(self) -> dict[str, object]:
        rows = {"count": self.count, "samples": list(self.samples)}
        return {**super().facts(), "statement": self.statement, "dataset": self.dataset, **rows}


class PipelineRolledBack(Conflict):
    """What was rolled back does not come back by an ordinary run."""

    code = "pipeline_rolled_back"
    hint = (
        "Nothing was run. Change the pipeline, or bring this one back on purpose: "
        "`tallyman plan`, then `tallyman apply`."
    )

    def __init__(self, commit: str, actor: str, at: str) -> None:
        super().__init__(commit, actor, at)
        self.commit, self.actor, self.at = commit, actor, at

    def __str__(self) -> str:
        return (
            f"this version of the pipeline was rolled back by {self.actor} at {self.at} "
            f"(commit {self.commit[:8]})."
        )


class PlanOutdated(Conflict):
    """The world moved since the plan was made."""

    code = "plan_outdated"
    hint = "Nothing was published; readers see what they saw. Make a new one: `tallyman plan`."

    def __init__(self, plan: str, reason: str) -> None:
        super().__init__(plan, reason)
        self.plan, self.reason = plan, reason

    def __str__(self) -> str:
        return f"plan {self.plan[:8]} is out of date: {self.reason}."


class InUse(Conflict):
    """What is current, pinned or about to be read is never purged."""

    code = "in_use"
    hint = "Nothing was removed."

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"{self.what} cannot be purged: {self.why}."


class TableRedeclared(Conflict):
    """The rows that are there do not fit the table as it is declared now."""

    code = "table_redeclared"
    hint = (
        "Nothing was written. Columns that may be NULL can be added; for anything else declare a "
        "table with another name, or give this one its columns back."
    )

    def __init__(self, table: str, before: str, after: str) -> None:
        super().__init__(table, before, after)
        self.table, self.before, self.after = table, before, after

    def __str__(self) -> str:
        return f"table {self.table!r} holds rows of ({self.before}) but is declared ({self.after})."


class DatasetDamaged(TallymanError):
    """A file of a version cannot be read, or a page of it is not what was written."""

    code = "dataset_damaged"
    hint = (
        "`tallyman verify --dataset NAME` names the files. Make it anew (`tallyman run --force`) "
        "or go back to a version that is whole: `tallyman versions`, `tallyman rollback`."
    )

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(dataset, reason)
        self.dataset, self.reason = dataset, reason

    def __str__(self) -> str:
        return f"dataset {self.dataset!r} cannot be read: {self.reason}"
