"""Closing the account: the partitions of the ledger, measured on kept files."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import Check, KeyDigest, Partition, SubLedger
from tallyman.engine.evidence.kept import EVIDENCE, WHOLE_GROUP, GroupedKeys, Kept, LetterCounts
from tallyman.engine.expressions.column_names import ERROR
from tallyman.engine.segment.cuts import Opened
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.fate_book import FatePart


@dataclass(frozen=True, slots=True)
class Closed:
    partitions: tuple[Partition, ...]
    sub_ledgers: tuple[SubLedger, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one asset. Level 0 are records; each cut that makes new rows opens a level."""

    evaluation: Evaluation
    """Its segments counted the rows that ended; the kept files must contain the same."""
    kept: Kept
    letters: LetterCounts
    witnesses: Mapping[str, Future[KeyDigest]]
    _evidence: dict[str, GroupedKeys] = field(default_factory=dict)
    """The measured evidence of groups, by step."""

    def close(self, passed: Mapping[int, KeyDigest], *, marked: bool) -> Closed:
        """Build the partitions of the records, and a sub-ledger for every further level. `passed`
        are the rows of the output, by level; `marked` if each row names the step that made it.
        """
        opened = self.evaluation.opened
        levels = [self._ended(level) for level in range(len(opened) + 1)]
        units: list[KeyDigest] = []
        stayed: list[KeyDigest | None] = []
        checks = [_count("dead letters", self.letters.promised, self.letters.count)]
        for cut in opened:
            made, below, found = self._cut(cut)
            units.append(made)
            stayed.append(None if cut.consumes else below)
            checks += found
            if cut.consumes:
                place = _place(cut)
                levels[cut.stage.level].insert(
                    0, _partition(cut.fate, cut.description, below, place)
                )
        checks += self._behind_groups()
        for level, met in passed.items():
            key = self.evaluation.output_key
            rows = _partition(Fate.PASSED, "Rows of the output", met, "output/")
            levels[level].append(replace(rows, key_columns=key, marked=marked))
        subs = tuple(
            SubLedger(
                opened_by=cut.step_id,
                unit=cut.unit,
                units=units[number],
                partitions=tuple(levels[number + 1]),
                sources=stayed[number],
            )
            for number, cut in enumerate(opened)
        )
        return Closed(tuple(levels[0]), subs, tuple(checks))

    # ---- rows that ended -------------------------------------------------------------------

    def _ended(self, level: int) -> list[Partition]:
        found = [
            self._filtered(number, part)
            for number, part in self.evaluation.book.parts.items()
            if part.fate is Fate.FILTERED and part.level == level
        ]
        errors, staged = self._rejected(level)
        if errors.count or staged.count or (self.evaluation.book.rules and level == 0):
            (self.kept.folder / "errors").mkdir(exist_ok=True)
            failed = _partition(Fate.ERROR, "Records that failed a rule", errors, "errors/")
            found.append(replace(failed, staged=staged))
        return found

    def _filtered(self, number: int, part: FatePart) -> Partition:
        place = f"adjoint/filtered_keys/{part.step_id}.parquet"
        return Partition(
            fate=Fate.FILTERED,
            description=part.description,
            digest=self.kept.keys(place),
            location=place,
            staged=self._staged(part.level, number),
        )

    def _rejected(self, level: int) -> tuple[KeyDigest, KeyDigest]:
        """Digest the ERROR rows of a level, kept and staged: rows that failed themselves, or with
        their group; for a level of groups, the groups.
        """
        staged = self._staged(level, ERROR)
        made = self.evaluation.opened[level - 1] if level else None
        if made is not None and made.unit == "group":
            found = self.letters.groups.get(made.step_id, KeyDigest())
        else:
            found = self.letters.direct.get(level, KeyDigest())
        for cut in self.evaluation.opened:
            if cut.unit == "group" and cut.stage.level == level:
                behind = self.letters.sources.get(cut.step_id, KeyDigest())
                found, staged = found + behind, staged + behind
        return found, staged

    def _staged(self, level: int, part: int) -> KeyDigest:
        stages = [s for s in self.evaluation.staged if s.level == level]
        met = (self.evaluation.checks.ended(s).totals.get(part, KeyDigest()) for s in stages)
        return sum(met, KeyDigest())

    def _behind_groups(self) -> list[Check]:
        """Check that the rows of all groups together are the rows of the evidence: each group
        carries the digest of the rows it was computed from. Groups that were combined or multiplied
        again are read where they were written for that.
        """
        opened = self.evaluation.opened
        checks: list[Check] = []
        for level, cut in enumerate(opened, 1):
            if cut.unit != "group":
                continue
            found = self._groups_at(level)
            if found is None:
                continue
            step = cut.step_id
            failed = self.letters.sources.get(step, KeyDigest())
            expected = self._grouped(cut).sources + failed
            what = f"rows in the groups of {step}"
            checks.append(Check(what=what, expected=expected, found=found))
        return checks

    def _grouped(self, cut: Opened) -> GroupedKeys:
        """Measure the evidence of groups, once.

        Many keys are not read a second time. The groups were computed from these very files, and
        each has count and digest of the keys it was computed from: that is their measurement. Which
        groups there are, and how many rows, is read from the files again.
        """
        if (known := self._evidence.get(cut.step_id)) is not None:
            return known
        place, found = _place(cut), None
        as_computed = cut.kept_as_written and cut.step_id not in self.letters.groups
        if as_computed and self.kept.many(place):
            sources = self._groups_at(self.evaluation.opened.index(cut) + 1)
            groups = self.kept.groups(place)
            if sources is not None and groups is not None:
                found = GroupedKeys(sources, groups)
        found = found or self.kept.grouped(place)
        self._evidence[cut.step_id] = found
        return found

    def _groups_at(self, level: int) -> KeyDigest | None:
        """Add up the rows of all groups of a level, as the groups report them; None if they do not.
        With digests as evidence, a group and its digest are one row.
        """
        opened = self.evaluation.opened
        found = self._carried(opened[level]) if level < len(opened) else self.kept.sources()
        if found is None:
            return None
        ended = (s.sources_ended() for s in self.evaluation.staged if s.level == level)
        return sum(ended, found)

    def _carried(self, after: Opened) -> KeyDigest | None:
        """Add up the rows of groups that a later step combined or multiplied, where its segment
        wrote them: in the evidence, unless some of the later groups failed.
        """
        if not after.stage.sources:
            return None
        if after.kept_as_written and after.step_id not in self.letters.groups:
            return self.kept.carried(_place(after)) or KeyDigest()
        return after.stage.sources_live()

    # ---- rows that were made ---------------------------------------------------------------

    def _cut(self, cut: Opened) -> tuple[KeyDigest, KeyDigest, list[Check]]:
        """Return the rows that a cut made, the rows it made them from, and checks of its
        evidence.
        """
        place, name = _place(cut), cut.step_id
        witness = self.witnesses.get(name)
        if cut.unit == "child":
            evidence = self.kept.children(place)
            strays = _count(f"children of {name} under another parent", 0, evidence.strays)
            checks = [strays]
            if witness is not None:
                made = witness.result().count
                checks.append(_count(f"children made by {name}", made, evidence.children.count))
            return evidence.children, evidence.parents, checks
        grouped = self._grouped(cut)
        checks = []
        if cut.groups is None:  # the digest may be known without a second look at the keys
            what, rows = f"rows in the evidence of {name}", self.kept.rows(place)
            checks.append(_count(what, grouped.sources.count, rows))
        if witness is not None:
            expected, what = witness.result(), f"keys in the groups of {name}"
            found = grouped.sources
            if cut.groups is None:
                found = self.kept.pairs(place) + self.letters.pairs.get(name, KeyDigest())
            checks.append(Check(what=what, expected=expected, found=found))
        failed = self.letters.groups.get(name, KeyDigest()) if cut.consumes else KeyDigest()
        groups = grouped.groups + failed
        return WHOLE_GROUP if cut.whole and not groups.count else groups, grouped.sources, checks


def _count(what: str, expected: int, found: int) -> Check:
    return Check(what=what, expected=KeyDigest(expected), found=KeyDigest(found))


def _place(cut: Opened) -> str:
    return f"{EVIDENCE[cut.unit]}/{cut.step_id}.parquet"


def _partition(fate: Fate, description: str, met: KeyDigest, location: str) -> Partition:
    return Partition(fate=fate, description=description, digest=met, location=location)
