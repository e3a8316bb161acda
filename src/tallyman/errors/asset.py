"""Errors about making an asset: its inputs, its steps, its balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyman.errors.base import TallymanError


class InputMissing(TallymanError):
    """A source or an upstream asset has no data to read."""

    code = "input_missing"

    def __init__(self, name: str, place: str, advice: str) -> None:
        super().__init__(name, place, advice)
        self.name, self.place, self.advice = name, place, advice

    def __str__(self) -> str:
        return f"input {self.name!r} has nothing to read at {self.place}. {self.advice}"


class OtherThanPublished(TallymanError):
    """What is about to be read of a dataset is not the version that the registry records."""

    code = "other_than_published"
    hint = (
        "Nothing was published. `tallyman verify dataset` checks the files of the version; if they "
        "are whole, this is a defect of Tallyman."
    )

    def __init__(self, version: str, expected: str, found: str) -> None:
        super().__init__(version, expected, found)
        self.version, self.expected, self.found = version, expected, found

    def __str__(self) -> str:
        return f"input {self.version} has {self.expected}, and {self.found} would be read"


class InputUnreadable(TallymanError):
    """A file of an input is not in the declared format at all."""

    code = "input_unreadable"
    hint = (
        "Nothing was published. Replace the file or remove it from the input, then run again; "
        "`tallyman resume` completes a run that had begun."
    )

    def __init__(self, name: str, file: str, reason: str) -> None:
        super().__init__(name, file, reason)
        self.name, self.file, self.reason = name, file, reason

    def __str__(self) -> str:
        return f"file {self.file!r} of input {self.name!r} cannot be read: {self.reason}"


class InputChanged(TallymanError):
    """Files of an input were changed while a run was reading them."""

    code = "input_changed"
    retryable = True
    hint = "Nothing was published. Run again once nothing is writing to the input."

    def __init__(self, name: str, files: Sequence[str]) -> None:
        super().__init__(name, tuple(files))
        self.name, self.files = name, tuple(files)

    def __str__(self) -> str:
        shown = ", ".join(self.files[:3])
        return f"{len(self.files)} file(s) of input {self.name!r} changed during the run: {shown}"


class ReferenceRejected(TallymanError):
    """The reference of a join has unreadable records, and no ledger to account for them."""

    code = "reference_rejected"
    hint = (
        "Nothing was made. Correct the file; or make the reference an asset of its own, so that "
        "its rejections are accounted for, and join that asset."
    )

    def __init__(self, name: str, count: int, samples: Sequence[str]) -> None:
        super().__init__(name, count, tuple(samples))
        self.name, self.count, self.samples = name, count, tuple(samples)

    def __str__(self) -> str:
        shown = "; ".join(self.samples)
        return f"{self.count} record(s) of reference {self.name!r} cannot be read: {shown}"


class JoinFanOut(TallymanError):
    """A key is on several rows of a reference in which a record may match only one."""

    code = "join_fan_out"
    hint = (
        "Nothing was made. Make the reference unique, for example with dropDuplicates, or set "
        'fanout="expand" to keep every match.'
    )

    def __init__(
        self, asset: str, step: str, reference: str, count: int, samples: Sequence[str]
    ) -> None:
        super().__init__(asset, step, reference, count, tuple(samples))
        self.asset, self.step, self.reference = asset, step, reference
        self.count, self.samples = count, tuple(samples)

    def __str__(self) -> str:
        shown = ", ".join(self.samples)
        return (
            f"{self.asset}, step {self.step}: {self.count:,} key(s) are on more than one row of "
            f"reference {self.reference!r}: {shown}."
        )


class StepFailed(TallymanError):
    """Spark could not evaluate a step, so no fate was decided."""

    code = "step_failed"

    def __init__(
        self,
        asset: str,
        reason: str,
        seq: int | None = None,
        step: str | None = None,
        advice: str = "Nothing was published.",
    ) -> None:
        super().__init__(asset, reason, seq, step, advice)
        self.asset, self.reason, self.seq, self.step = asset, reason, seq, step
        self.advice = advice

    @property
    def hint(self) -> str:  # type: ignore[override]
        """Return what to do, by cause."""
        return self.advice

    def __str__(self) -> str:
        named = self.step if self.seq is None else self.seq
        at = "" if named is None else f" at step {named}"
        return f"{self.asset} stopped{at}: {self.reason}"

    def facts(self) -> dict[str, object]:
        known = {"operation_order": self.seq, "step": self.step}
        return {**super().facts(), **{name: v for name, v in known.items() if v is not None}}


class PlaceUnusable(TallymanError):
    """A folder of the project cannot be made or written to."""

    code = "place_unusable"
    hint = (
        "Nothing was run, and nothing was written. Repair the folder, or set another one in "
        "tallyman.yaml."
    )

    def __init__(self, name: str, place: str, reason: str) -> None:
        super().__init__(name, place, reason)
        self.name, self.place, self.reason = name, place, reason

    def __str__(self) -> str:
        return f"the folder {self.place!r} ({self.name}) cannot be used: {self.reason}"


class StorageFailed(TallymanError):
    """A file of the run could not be written or read."""

    code = "storage_failed"
    retryable = True
    hint = "Nothing was published. Repair the disk, then run `tallyman resume`."

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target, self.reason = target, reason

    def __str__(self) -> str:
        return f"{self.target} stopped: {self.reason}"


def _percent(share: float) -> str:
    """Format a share for people: `6.3 %`, `5 %`, `0.02 %`."""
    return f"{float(f'{share * 100:.2g}'):,g} %"


class ThresholdExceeded(TallymanError):
    """More records, children or groups were rejected than the asset allows."""

    code = "threshold_exceeded"
    exit_code = 3
    hint = "All rejections were kept (`tallyman rejections ls`). Nothing was published."

    def __init__(
        self, asset: str, reason: str, errors: int, threshold: float, rejected: str, total: int = 0
    ) -> None:
        """Take what was counted ("1,275 of 30,000 children") as `rejected`, 30,000 as `total`."""
        super().__init__(asset, reason, errors, threshold, rejected, total)
        self.asset, self.reason, self.errors, self.threshold = asset, reason, errors, threshold
        self.rejected, self.total = rejected, total

    def __str__(self) -> str:
        if self.reason == "PercentageRate":
            share = f" ({_percent(self.errors / self.total)})" if self.total else ""
            limit = _percent(self.threshold)
        else:
            share, limit = "", f"{self.threshold:,}"
        return f"{self.asset}: {self.rejected} were rejected{share}; the threshold is {limit}."

    def facts(self) -> dict[str, object]:
        halt = {"reason": self.reason, "error_count": self.errors, "threshold": self.threshold}
        return {**super().facts(), **halt, "rejected": self.rejected}


class StructuralError(ThresholdExceeded):
    """Too many of the first records are unreadable; going on would only fill the dead letters."""

    code = "structural_error"
    hint = "Only a sample of the rejections was written. Compare it with the schema of the source."

    def __init__(self, asset: str, source: str, errors: int, window: int, threshold: float) -> None:
        super().__init__(asset, "CircuitBreaker", errors, threshold, f"{errors:,} of {window:,}")
        self.args = (asset, source, errors, window, threshold)
        self.source, self.window = source, window

    def __str__(self) -> str:
        return (
            f"{self.asset}: {self.errors:,} of the first {self.window:,} records of "
            f"{self.source!r} cannot be read (limit {self.threshold:.1%}): the input does not "
            f"have the declared structure."
        )


class RuleBroken(ThresholdExceeded):
    """A rule of severity `fail` was broken; one record is enough."""

    code = "rule_broken"

    def __init__(self, asset: str, rule: str, expected: str, count: int) -> None:
        super().__init__(asset, "RuleBroken", count, 0, f"{count:,}")
        self.args = (asset, rule, expected, count)
        self.rule, self.expected = rule, expected

    def __str__(self) -> str:
        rejections = "rejection" if self.errors == 1 else "rejections"
        return (
            f"{self.asset}: {self.errors:,} {rejections} by {self.rule} ({self.expected}), "
            "which allows none."
        )


class EmptyInput(ThresholdExceeded):
    """An input has no records, or a file of a reference is empty, which halts the asset."""

    code = "empty_input"
    hint = (
        'Nothing was published. If that is normal, set on_empty="warn" or "allow" for the source, '
        "or in the thresholds of the asset."
    )

    def __init__(self, asset: str, what: str = "the input", reason: str = "has no records") -> None:
        super().__init__(asset, "EmptyInput", 0, 0, "none")
        self.args = (asset, what, reason)
        self.what, self.cause = what, reason

    def __str__(self) -> str:
        return f"{self.asset}: {self.what} {self.cause}."


class InputShrank(ThresholdExceeded):
    """An input has less than half of the records that the current version was made from."""

    code = "input_shrank"

    def __init__(self, asset: str, name: str, rows: int, before: int) -> None:
        super().__init__(asset, "InputShrank", rows, before, f"{rows:,} of {before:,}")
        self.args = (asset, name, rows, before)
        self.name, self.rows, self.before = name, rows, before

    @property
    def hint(self) -> str:  # type: ignore[override]
        return (
            "Nothing was published. If the input is complete: `tallyman run --accept-shrink "
            f'{self.name}`; if it varies like this: on_shrink="warn" or "allow" for the source, or '
            "in the thresholds of the asset."
        )

    def __str__(self) -> str:
        return (
            f"{self.asset}: input {self.name!r} has {self.rows:,} records, less than half of the "
            f"{self.before:,} that the current version was made from."
        )


class UnmatchedRecords(ThresholdExceeded):
    """More records found no match in a reference than the join allows."""

    code = "unmatched_records"
    hint = (
        "Nothing was published. Compare the values on both sides of the join; raise max_unmatched "
        "if they are right."
    )

    def __init__(self, asset: str, step: str, reference: str, said: str, limit: str) -> None:
        super().__init__(asset, "UnmatchedRecords", 0, 0, said)
        self.args = (asset, step, reference, said, limit)
        self.step, self.reference, self.limit = step, reference, limit

    def __str__(self) -> str:
        found = f"{self.rejected} in {self.reference!r}"
        return f"{self.asset}, step {self.step}: {found}; max_unmatched is {self.limit}."


class RowsUnaccountedFor(TallymanError):
    """The keys of the records read and the keys of the fates differ."""

    code = "rows_unaccounted_for"
    hint = "`tallyman verify --exact` lists the keys. Nothing was published."

    def __init__(
        self, asset: str, missing: int, extra: int, duplicate: int, checks: Sequence[str] = ()
    ) -> None:
        super().__init__(asset, missing, extra, duplicate, tuple(checks))
        self.asset, self.missing, self.extra, self.duplicate = asset, missing, extra, duplicate
        self.checks = tuple(checks)

    def __str__(self) -> str:
        failed = "".join(f" {check}." for check in self.checks)
        return (
            f"{self.asset}: the accounting does not balance: {self.missing:,} missing, "
            f"{self.extra:,} extra, {self.duplicate:,} duplicate.{failed}"
        )

    def facts(self) -> dict[str, object]:
        counts = {"missing": self.missing, "extra": self.extra, "duplicate": self.duplicate}
        found = {**super().facts(), "reason": "ACCOUNTING_INVARIANT_VIOLATED", **counts}
        return {**found, "failed_checks": list(self.checks)} if self.checks else found


class KeysRepeat(TallymanError):
    """Several rows of an output have the same key."""

    code = "keys_repeat"
    hint = (
        "Nothing was published. Add columns to key= until it distinguishes rows, or keep one row "
        "per key with dropDuplicates. If the key may repeat, declare unique=False."
    )

    def __init__(
        self, target: str, key: Sequence[str], keys: int, rows: int, samples: Sequence[str]
    ) -> None:
        super().__init__(target, tuple(key), keys, rows, tuple(samples))
        self.target, self.key, self.keys, self.rows = target, tuple(key), keys, rows
        self.samples = tuple(samples)

    def __str__(self) -> str:
        shown = ", ".join(self.samples)
        return (
            f"{self.target}: {self.rows:,} rows share {self.keys:,} value(s) of the key "
            f"({', '.join(self.key)}), for example {shown}."
        )

    def facts(self) -> dict[str, object]:
        counts = {"repeated_keys": self.keys, "rows": self.rows, "samples": list(self.samples)}
        return {**super().facts(), **counts}


class YearOutOfRange(TallymanError):
    """A step made a date or timestamp that no file of an output can hold for every reader."""

    code = "year_out_of_range"
    hint = (
        "Nothing was published. Dates have years from 1 to 9999: add an expect on the column to "
        "reject the records, or compute it differently."
    )

    def __init__(
        self, target: str, column: str, count: int, row: Mapping[str, str], value: str
    ) -> None:
        super().__init__(target, column, count, dict(row), value)
        self.target, self.column, self.count = target, column, count
        self.row, self.value = dict(row), value

    def __str__(self) -> str:
        at = ", ".join(f"{name}={value}" for name, value in self.row.items())
        shown = f"the row with {at}" if at else "a row"
        return (
            f"{self.target}: {self.count:,} row(s) have a year outside 1 to 9999 in column "
            f"{self.column!r}; {shown} has {self.value}."
        )


class RowsOutsidePartition(TallymanError):
    """An asset made rows that belong to another partition than the one being made."""

    code = "rows_outside_partition"
    hint = "Nothing was published. Do not change the partition column, or filter on it."

    def __init__(self, target: str, column: str, count: int) -> None:
        super().__init__(target, column, count)
        self.target, self.column, self.count = target, column, count

    def __str__(self) -> str:
        return f"{self.target}: {self.count:,} row(s) have a different value of {self.column!r}."
