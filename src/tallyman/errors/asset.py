"""Errors about making an asset: its inputs, its steps, its balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyman.errors.base import TallymanError


class InputMissing(TallymanError):
    code = "input_missing"
    text = "input {name!r} has nothing to read at {place}. {advice}"
    name: str
    place: str
    advice: str


class OtherThanPublished(TallymanError):
    """What is about to be read of a dataset is not the version that the registry records."""

    code = "other_than_published"
    hint = (
        "Nothing was published. `tallyman verify dataset` checks the files of the version; if they "
        "are whole, this is a defect of Tallyman."
    )
    text = "input {version} has {expected}, and {found} would be read"
    version: str
    expected: str
    found: str


class InputUnreadable(TallymanError):
    code = "input_unreadable"
    hint = (
        "Nothing was published. Replace the file or remove it from the input, then run again; "
        "`tallyman resume` completes a run that had begun."
    )
    text = "file {file!r} of input {name!r} cannot be read: {reason}"
    name: str
    file: str
    reason: str


class InputChanged(TallymanError):
    """Files of an input were changed while a run was reading them."""

    code = "input_changed"
    retryable = True
    hint = "Nothing was published. Run again once nothing is writing to the input."
    name: str
    files: Sequence[str]

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
    name: str
    count: int
    samples: Sequence[str]

    def __str__(self) -> str:
        shown = "; ".join(self.samples)
        return f"{self.count} record(s) of reference {self.name!r} cannot be read: {shown}"


class JoinFanOut(TallymanError):
    code = "join_fan_out"
    hint = (
        "Nothing was made. Make the reference unique, for example with dropDuplicates, or set "
        'fanout="expand" to keep every match.'
    )
    text = (
        "{asset}, step {step}: {count:,} key(s) are on more than one row of reference "
        "{reference!r}: {samples}."
    )
    asset: str
    step: str
    reference: str
    count: int
    samples: Sequence[str]


class StepFailed(TallymanError):
    """Spark could not evaluate a step, so no fate was decided."""

    code = "step_failed"
    asset: str
    reason: str
    seq: int | None = None
    step: str | None = None
    advice: str = "Nothing was published."

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
    code = "place_unusable"
    hint = (
        "Nothing was run, and nothing was written. Repair the folder, or set another one in "
        "tallyman.yaml."
    )
    text = "the folder {place!r} ({name}) cannot be used: {reason}"
    name: str
    place: str
    reason: str


class StorageFailed(TallymanError):
    code = "storage_failed"
    retryable = True
    hint = "Nothing was published. Repair the disk, then run `tallyman resume`."
    text = "{target} stopped: {reason}"
    target: str
    reason: str


class ThresholdExceeded(TallymanError):
    """More was rejected, or less was read, than the asset allows."""

    code = "threshold_exceeded"
    exit_code = 3
    hint = "All rejections were kept (`tallyman rejections ls`). Nothing was published."
    asset: str

    def counted(self) -> tuple[str, int, float, str]:
        """Return reason and count, the limit, and the count in words: "3 of 30,000 children"."""
        raise NotImplementedError

    def facts(self) -> dict[str, object]:
        names = ("reason", "error_count", "threshold", "rejected")
        return {**super().facts(), **dict(zip(names, self.counted(), strict=True))}


def _percent(share: float) -> str:
    """Format a share for people: `6.3 %`, `5 %`, `0.02 %`."""
    return f"{float(f'{share * 100:.2g}'):,g} %"


class TooManyRejected(ThresholdExceeded):
    """More records, children or groups were rejected than the asset allows."""

    reason: str
    errors: int
    threshold: float
    rejected: str
    total: int = 0

    def counted(self) -> tuple[str, int, float, str]:
        return self.reason, self.errors, self.threshold, self.rejected

    def __str__(self) -> str:
        share, limit = "", f"{self.threshold:,}"
        if self.reason == "PercentageRate":
            share = f" ({_percent(self.errors / self.total)})" if self.total else ""
            limit = _percent(self.threshold)
        return f"{self.asset}: {self.rejected} were rejected{share}; the threshold is {limit}."


class StructuralError(ThresholdExceeded):
    """Too many of the first records are unreadable; going on would only fill the dead letters."""

    code = "structural_error"
    hint = "Only a sample of the rejections was written. Compare it with the schema of the source."
    text = (
        "{asset}: {errors:,} of the first {window:,} records of {source!r} cannot be read (limit "
        "{threshold:.1%}): the input does not have the declared structure."
    )
    source: str
    errors: int
    window: int
    threshold: float

    def counted(self) -> tuple[str, int, float, str]:
        said = f"{self.errors:,} of {self.window:,}"
        return "CircuitBreaker", self.errors, self.threshold, said


class RuleBroken(ThresholdExceeded):
    """A rule of severity `fail` was broken; one record is enough."""

    code = "rule_broken"
    rule: str
    expected: str
    count: int

    def counted(self) -> tuple[str, int, float, str]:
        return "RuleBroken", self.count, 0, f"{self.count:,}"

    def __str__(self) -> str:
        rejections = "rejection" if self.count == 1 else "rejections"
        said = f"{self.asset}: {self.count:,} {rejections} by {self.rule} ({self.expected})"
        return f"{said}, which allows none."


class EmptyInput(ThresholdExceeded):
    """An input has no records, or a file of a reference is empty, which halts the asset."""

    code = "empty_input"
    hint = (
        'Nothing was published. If that is normal, set on_empty="warn" or "allow" for the source, '
        "or in the thresholds of the asset."
    )
    text = "{asset}: {what} {reason}."
    what: str = "the input"
    reason: str = "has no records"

    def counted(self) -> tuple[str, int, float, str]:
        return "EmptyInput", 0, 0, "none"


class InputShrank(ThresholdExceeded):
    code = "input_shrank"
    text = (
        "{asset}: input {name!r} has {rows:,} records, less than half of the {before:,} that the "
        "current version was made from."
    )
    name: str
    rows: int
    before: int

    @property
    def hint(self) -> str:  # type: ignore[override]
        return (
            "Nothing was published. If the input is complete, repeat the command with "
            f'`--accept-shrink {self.name}`; if it varies like this: on_shrink="warn" or "allow" '
            "for the source, or in the thresholds of the asset."
        )

    def counted(self) -> tuple[str, int, float, str]:
        return "InputShrank", self.rows, self.before, f"{self.rows:,} of {self.before:,}"


class UnmatchedRecords(ThresholdExceeded):
    """More records found no match in a reference than the join allows."""

    code = "unmatched_records"
    hint = (
        "Nothing was published. Compare the values on both sides of the join; raise max_unmatched "
        "if they are right."
    )
    text = "{asset}, step {step}: {said} in {reference!r}; max_unmatched is {limit}."
    step: str
    reference: str
    said: str
    limit: str

    def counted(self) -> tuple[str, int, float, str]:
        return "UnmatchedRecords", 0, 0, self.said


class RowsUnaccountedFor(TallymanError):
    """The keys of the records read and the keys of the fates differ."""

    code = "rows_unaccounted_for"
    hint = "`tallyman verify --exact` lists the keys. Nothing was published."
    text = (
        "{asset}: the accounting does not balance: {missing:,} missing, {extra:,} extra, "
        "{duplicate:,} duplicate."
    )
    asset: str
    missing: int
    extra: int
    duplicate: int
    checks: Sequence[str] = ()

    def __str__(self) -> str:
        return super().__str__() + "".join(f" {check}." for check in self.checks)

    def facts(self) -> dict[str, object]:
        counts = {"missing": self.missing, "extra": self.extra, "duplicate": self.duplicate}
        found = {**super().facts(), "reason": "ACCOUNTING_INVARIANT_VIOLATED", **counts}
        return {**found, "failed_checks": list(self.checks)} if self.checks else found


class KeysRepeat(TallymanError):
    code = "keys_repeat"
    hint = (
        "Nothing was published. Add columns to key= until it distinguishes rows, or keep one row "
        "per key with dropDuplicates. If the key may repeat, declare unique=False."
    )
    text = (
        "{target}: {rows:,} rows share {keys:,} value(s) of the key ({key}), for example {samples}."
    )
    target: str
    key: Sequence[str]
    keys: int
    rows: int
    samples: Sequence[str]

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
    target: str
    column: str
    count: int
    row: Mapping[str, str]
    value: str

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
    text = "{target}: {count:,} row(s) have a different value of {column!r}."
    target: str
    column: str
    count: int
