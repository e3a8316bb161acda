"""Sequences that once showed a defect, or that somebody thought of."""

from __future__ import annotations

import pytest

from tests.model.conftest import Stage
from tests.model.edits import Apply, EditRule
from tests.model.meaning import Record
from tests.model.play import Verb
from tests.model.replays import Discard, Replay
from tests.model.sequences import fails
from tests.model.tables import Change
from tests.model.upkeep import Cleanup, Kill, RemoveRuns
from tests.model.verbs import DeleteFile, Run, RunBoard, WriteFile
from tests.model.versions import Invalidate, Purge, Rename, Rollback, RollbackCommit, Snapshot
from tests.world.scale import some

A, B, C = (Record(f"mon-n{n}", "mon", "x", n) for n in (1, 2, 3))
BAD, WORSE = (Record(f"mon-n{n}", "mon", "x", -1) for n in (4, 5))
FIXED, FIXED_TOO = (Record(f"mon-n{n}", "mon", "x", 9) for n in (4, 5))
TUE, FIXED_TUE = (Record("tue-a1", "tue", "x", n) for n in (-1, 9))
MON = "raw/mon/a.jsonl"
ITEM = Record("items-a1", "mon", "x", -1)
ITEMS = "items/a.jsonl"
PARTS = Run(("parts",), (), after=True)
GOOD_FORCED = Run(("good",), ("mon",), force=True, after=True)
MON_ALL = Run(("good", "plog"), ("mon",), after=True)
GOOD = Run(("good",), ("mon",))
READERS = Run(("per_day", "labelled"), ())

SEQUENCES: dict[str, list[Verb]] = {
    "a reader reads the rows that a replay added": [
        WriteFile(MON, (A, BAD, WORSE)), GOOD, Replay("good", (FIXED,)), READERS,
        Replay("good", (FIXED_TOO,)), READERS, RunBoard(force=False),
    ],
    "a rollback opens what was replayed on rows that were published before": [
        WriteFile(MON, (A, BAD)), GOOD, WriteFile(MON, (BAD, A)), GOOD,
        Replay("good", (FIXED,)), Rollback("good", 1), Replay("good", (FIXED,)), READERS,
    ],
    "a rollback takes back a replay of combined records": [
        WriteFile(ITEMS, (ITEM,)), Run(("by_kind",), ()),
        Replay("by_kind", (Record(ITEM.id, "mon", "x", 4),)), Rollback("by_kind", 1),
        Run(("by_kind",), ()), Rollback("by_kind", 1),
        Replay("by_kind", (Record(ITEM.id, "mon", "x", 5),)), Run(("by_kind",), ()),
    ],
    "what a run that appended nothing rejected can be replayed": [
        WriteFile(MON, (A, BAD)), Run(("plog",), ("mon",)),
        WriteFile(MON, (BAD, A, WORSE)), Run(("plog",), ("mon",)),
        Replay("plog", (FIXED_TOO,)), Run(("plog_sums",), ()),
        Rollback("plog", 1), Run(("plog", "plog_sums"), ("mon",)),
    ],
    "an invalid result is not read after a run of it was killed": [
        WriteFile(MON, (A, B, BAD)), Invalidate("good", "mon"),
        Kill(GOOD, "asset_recorded", resume=True), READERS,
    ],
    "several targets are replayed at once": [
        WriteFile(MON, (A, BAD)), WriteFile("raw/tue/a.jsonl", (TUE,)),
        Run(("good",), ("mon", "tue")), Replay("good", (FIXED, FIXED_TUE)), READERS,
        Run(("plog",), ("mon", "tue")), Replay("plog", ()), Run(("plog_sums",), ()),
    ],
    "a discard is not undone": [
        WriteFile(MON, (A, BAD, WORSE)), GOOD, Discard("good", BAD.id),
        Replay("good", (FIXED_TOO,)), Rollback("good", 1), Replay("good", ()),
    ],
    "replays and rollbacks of an asset with several outputs": [
        WriteFile(ITEMS, (ITEM, Record("items-a2", "mon", "y", 60))), PARTS,
        Replay("parts", (Record(ITEM.id, "mon", "x", 4),)), Run(("small_sums",), ()),
        Rollback("small", 1), Run(("small_sums",), ()),
        Replay("parts", (Record(ITEM.id, "mon", "x", 14),)), Run(("small_sums",), ()),
        Rollback("parts", 1), PARTS, Cleanup(1), RemoveRuns(),
        Replay("parts", (Record(ITEM.id, "mon", "x", 4),)), Run(("small_sums",), (), force=True),
    ],
    "rows that a replay added survive what other commands do": [
        WriteFile(MON, (A, BAD, WORSE)), GOOD, Replay("good", (FIXED,)), Rename("good"),
        Replay("good", (FIXED_TOO,)), RunBoard(force=False), Rename("good"), RunBoard(force=False),
        Run(("good",), ("mon", "tue"), after=True), Cleanup(None), RemoveRuns(), READERS,
        RollbackCommit(2), READERS, Rollback("good", 1), READERS,
    ],
    "a commit with replays is rolled back, and they are done again": [
        WriteFile(MON, (A, BAD, WORSE)), Run(("good", "plog"), ("mon",), after=True),
        Replay("good", (FIXED,)), Replay("plog", (FIXED,)), READERS, RollbackCommit(3),
        Replay("good", (FIXED,)), Replay("plog", (FIXED_TOO,)),
        Run(("good", "plog"), ("mon",), after=True), GOOD_FORCED, READERS,
        Run(("plog", "plog_sums"), ("mon",), force=True), Replay("good", (FIXED_TOO,)), READERS,
    ],
    "an invalid result that a rollback brings back stays invalid": [
        WriteFile(MON, (A, BAD)), GOOD, WriteFile(MON, (B, BAD)), GOOD, Invalidate("good", "mon"),
        READERS, Rollback("good", 1), READERS, Rollback("good", 1), READERS, RunBoard(force=True),
        Run(("good",), ("tue",), after=True), GOOD, READERS, RunBoard(force=False),
    ],
    "a past version of the pipeline makes its own rows": [
        WriteFile(MON, (A, Record("mon-n2", "mon", "x", 40), BAD)), GOOD, EditRule(30), GOOD,
        Replay("good", (FIXED,)), READERS, Run(("good", "per_day"), ("mon",), past=50),
        GOOD, READERS, Run(("good", "per_day"), ("mon",), past=50), RollbackCommit(1),
        GOOD, EditRule(8), GOOD, READERS, Apply(), READERS,
    ],
    "a killed run leaves readers right, whether it is resumed or not": [
        WriteFile(MON, (A, BAD)), Kill(MON_ALL, "asset_recorded", resume=False), READERS,
        Cleanup(None), Run(("good", "plog"), ("mon",), after=True), WriteFile(MON, (B, A)),
        Kill(MON_ALL, "metadata_written", resume=True), WriteFile(MON, (C, A)),
        Kill(MON_ALL, "committed", resume=False), READERS, MON_ALL, Rollback("plog", 1), MON_ALL,
    ],
    "a rule is edited, applied and rolled back": [
        WriteFile(MON, (A, Record("mon-n2", "mon", "x", 40), BAD)), GOOD, Replay("good", (FIXED,)),
        EditRule(30), Apply(), RunBoard(force=False), RollbackCommit(1), READERS, EditRule(50),
        Apply(), EditRule(30), Apply(), Run(("good",), ("mon",), after=True),
    ],
    "versions that are purged are not needed": [
        WriteFile(MON, (A, BAD)), Run(("good",), ("mon",), after=True), Replay("good", (FIXED,)),
        WriteFile(MON, (B, BAD)), Run(("good",), ("mon",), after=True),
        WriteFile(MON, (C, BAD)), Run(("good",), ("mon",), after=True),
        Snapshot("good", 1), Purge("good", 2), Purge("good", 3), Rollback("per_day", 1),
        Cleanup(1), RemoveRuns(), READERS, Rollback("good", 1), READERS,
    ],
    "a file goes, and a table changes": [
        WriteFile("raw/mon/b.jsonl", ()), Run(("good", "plog"), ("mon",), after=True),
        DeleteFile("raw/mon/b.jsonl"), Run(("good", "plog"), ("mon",), after=True),
        Change("kinds", ("y", None), delete=False), Run(("labelled",), ()),
        Rename("good"), RunBoard(force=False), Run(("good",), ("mon",), force=True), READERS,
        Rollback("kinds", 1), READERS,
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", some(list(SEQUENCES), 2))
def test_after_each_command_readers_see_what_they_must(stage: Stage, name: str) -> None:
    if (failed := fails(stage.new(), SEQUENCES[name], all_possible=True)) is not None:
        raise failed
