"""Closing an account: the ledger of an evaluated asset, and objections to its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tallyman.domain.account.ledger import Check, KeyDigest, Ledger
from tallyman.domain.account.rule_warning import RuleWarning
from tallyman.domain.definition.step import Split
from tallyman.domain.pipeline.threshold import ANYTHING, Halt
from tallyman.engine.asset.work import Work
from tallyman.engine.evidence.account import Account
from tallyman.engine.evidence.content import Content
from tallyman.engine.evidence.evidence_jobs import EvidenceJobs
from tallyman.engine.evidence.kept import Kept, LetterCounts, split_folder
from tallyman.engine.evidence.write import SUMMARY, clear
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.segment.admit import INGEST
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.reference import References
from tallyman.engine.segment.stage import WrittenRows
from tallyman.engine.source.doors import Doors
from tallyman.engine.working.working_run import OUTPUTS, WorkingRun
from tallyman.errors import RuleBroken, ThresholdExceeded, TooManyRejected, UnmatchedRecords


@dataclass(frozen=True, slots=True)
class AssetOutcome:
    """The outcome of an asset's run: always a ledger, and an output if nothing speaks against
    it.
    """

    ledger: Ledger
    rejections_by_type: Mapping[str, int]
    content: Content | None = None
    rows_out: int = 0
    error: ThresholdExceeded | None = None
    warnings: tuple[RuleWarning, ...] = ()
    reused: str | None = None
    """Which segments of an earlier attempt were reused, and why no more."""
    input_warnings: tuple[str, ...] = ()
    """What was found about inputs that are empty or shrank."""
    records_read: Mapping[str, int] = field(default_factory=dict)
    """The number of records of each input, references included."""

    @property
    def rejections(self) -> int:
        return sum(self.rejections_by_type.values())

    def withdrawn(self) -> AssetOutcome:
        """Return the same outcome without rows."""
        return replace(self, rows_out=0)


@dataclass(frozen=True, slots=True)
class Closing:
    work: Work
    doors: Doors
    evaluation: Evaluation
    evidence_jobs: EvidenceJobs
    working: WorkingRun | None
    references: References

    def kept(self) -> Kept:
        return Kept(self.work.folders.result, self.doors.spark)

    def letters(self, kept: Kept) -> LetterCounts:
        """Count the written dead letters; their summary is derived from nothing else."""
        found = kept.letters()
        if found.count:
            write_json(self.work.folders.result / "errors" / SUMMARY, list(found.summary))
        return found

    def rejecting(self, letters: LetterCounts) -> set[str]:
        """List the inputs with records that were rejected before the first step."""
        paths = {str(row["morphism_path"]) for row in letters.summary}
        rules = self.evaluation.book.rules
        return {rule.entity for rule in rules if rule.step == INGEST and rule.path in paths}

    def ledger(
        self,
        kept: Kept,
        letters: LetterCounts,
        made: WrittenRows | None,
        content: Content | None,
    ) -> Ledger:
        witnesses = self.evidence_jobs.witnesses
        account = Account(self.evaluation, kept, letters, witnesses)
        marked = made is not None and made.level is None
        checks = list(self.working.checks(kept)) if self.working is not None and made else []
        if made and content is not None and content.passed is not None:
            checks.append(_rows_still_there(kept, content))
        passed = self._passed(kept, made, content)
        if made is not None and isinstance(self.work.plan.step, Split):
            checks.append(self._rows_of_outputs(self.work.plan.step, kept, made, passed))
        closed = account.close(passed, marked=marked)
        return Ledger(
            run_id=self.work.run.run_id,
            asset=self.work.asset.name,
            inputs=self.doors.accounts(),
            partitions=closed.partitions,
            sub_ledgers=closed.sub_ledgers,
            checks=(*closed.checks, *checks),
            evidence=self.work.evidence.value,
            references=self.references.tallies(),
        )

    def unfinished_ledger(self) -> Ledger:
        """Build the ledger of an asset that stopped: the door, if it was measured, and no fate."""
        return Ledger(
            run_id=self.work.run.run_id,
            asset=self.work.asset.name,
            inputs=self.doors.accounts_so_far(),
            partitions=(),
            evidence=self.work.evidence.value,
            completed=False,
        )

    def warnings(self) -> tuple[RuleWarning, ...]:
        """Count the warnings. Call it only when every segment was evaluated."""
        found = (watched.warning() for watched in self.evaluation.book.warnings)
        return tuple(warning for warning in found if warning.count)

    def against(self, ledger: Ledger, letters: LetterCounts) -> ThresholdExceeded | None:
        """Return the rule or threshold that forbids publishing, judged by numbers alone; None if
        there is none.
        """
        name, thresholds = self.work.asset.name, self.work.thresholds
        fatal = {rule.path: rule for rule in self.evaluation.book.rules if rule.fatal}
        for row in letters.summary:
            if (rule := fatal.get(str(row["morphism_path"]))) is not None:
                return RuleBroken(name, rule.path, rule.expected, int(row["count"]))
        halt: Halt | None = self.evaluation.checks.halt or thresholds.check_ledger(ledger)
        if halt:
            return TooManyRejected(
                name, halt.reason, halt.errors, halt.threshold, halt.rejected, halt.total
            )
        for one in ledger.references if thresholds != ANYTHING else ():
            if one.exceeded:
                said, limit = one.without_match, str(one.limit)
                return UnmatchedRecords(name, one.step, one.name, said, limit)
        return None

    def _passed(
        self, kept: Kept, made: WrittenRows | None, content: Content | None
    ) -> dict[int, KeyDigest]:
        """Measure the rows of the output where they are now, by level."""
        if made is None:
            return {}
        if made.group_columns is not None:
            return {len(self.evaluation.opened): kept.group_rows(made.group_columns)}
        found = content.passed if content is not None else None
        if found is None:
            found = kept.passed(self.evaluation.output_key)
        if made.level is not None:
            return {made.level: sum(found.values(), KeyDigest())}
        levels = {cut.step_id: n for n, cut in enumerate(self.evaluation.opened, 1)}
        return {levels[step] if step else 0: met for step, met in found.items()}

    def _rows_of_outputs(
        self, split: Split, kept: Kept, made: WrittenRows, passed: Mapping[int, KeyDigest]
    ) -> Check:
        """Compare the rows of all outputs with those that passed: a row in two outputs, or in none,
        makes a difference."""
        found = KeyDigest()
        for name, _ in split.outputs:
            place = f"outputs/{split_folder(name)}"
            if made.group_columns is not None:
                found += kept.group_rows(made.group_columns, place)
            else:
                by_step = kept.passed(self.evaluation.output_key, place)
                found += sum(by_step.values(), KeyDigest())
        expected = sum(passed.values(), KeyDigest())
        return Check(what="rows of its outputs", expected=expected, found=found)


def _rows_still_there(kept: Kept, content: Content) -> Check:
    """Compare the output with what was measured when it was put in its place."""
    expected, found = KeyDigest(content.rows), KeyDigest(kept.rows("output"))
    return Check(what="rows of the output", expected=expected, found=found)


def by_type(letters: LetterCounts) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in letters.summary:
        kind = str(row["error_type"])
        found[kind] = found.get(kind, 0) + int(row["count"])
    return found


def withdraw(folder: Path) -> None:
    """Remove files that only a proved result may leave."""
    for name in ("output", "outputs"):
        clear(folder / name)
    (folder / OUTPUTS).unlink(missing_ok=True)
