"""Errors about replaying rejections."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, TallymanError
from tallyman.errors.wording import run_of


class RejectionsOutdated(Conflict):
    """The published version was not made by the run whose rejections are to be replayed."""

    code = "rejections_outdated"
    hint = "Nothing was written. `tallyman rejections ls RUN` lists what is open in a run."
    run: str
    target: str
    current: str | None

    def __str__(self) -> str:
        if self.current is None:
            return (
                f"the result of {self.target} in run {self.run} is not published, so its "
                "rejections have nothing to join. Make it first: "
                f"`tallyman run {self.target.split('[')[0]}`."
            )
        return (
            f"the published rows of {self.target} were made by run {self.current}, not by run "
            f"{self.run} or its replays. Replay what that run rejected: `tallyman rejections "
            f"replay {self.current}`."
        )


class RejectionsTaken(Conflict):
    """Somebody else replayed or discarded the rejections first."""

    code = "rejections_taken"
    hint = "Nothing was published. `tallyman rejections ls RUN` lists what is still open."
    run: str
    count: int
    by_run: str | None
    actor: str

    def __str__(self) -> str:
        how = f"replayed in run {self.by_run}" if self.by_run else f"discarded by {self.actor}"
        return f"{self.count:,} of the rejections of run {self.run} were already {how}."


class DefinitionChanged(Conflict):
    code = "definition_changed"
    hint = "Nothing was written. A run with the new definition judges all records again."
    text = (
        "the definition of {asset} has changed since run {run}, and a replay uses the plan of that "
        "run. Run the asset instead: `tallyman run {asset}`."
    )
    run: str
    asset: str


class SourceChanged(Conflict):
    """The source's records are not those that were rejected."""

    code = "source_changed"
    hint = "Nothing was written. A run reads the files as they are now."
    run: str
    source: str
    why: str
    asset: str

    def __str__(self) -> str:
        return (
            f"the files of {self.source!r} have changed since run {self.run}, and {self.why}. "
            f"Run the asset instead: `{run_of(self.asset)}`."
        )


class CorrectionsRefused(TallymanError):
    """A file of corrections is malformed; each line must correct one open rejection, once."""

    code = "corrections_refused"
    exit_code = 2
    hint = (
        "Nothing was written. Each line is a JSON object with the key of a rejected record; a "
        'record without a key is named by "_source_key": "@file#3". '
        "`tallyman rejections show RUN --open` lists the open rejections."
    )
    lines: int
    wrong: Sequence[tuple[str, int, list[str]]]

    def __str__(self) -> str:
        if not self.lines:
            return "the file of corrections is empty."
        ways = "; ".join(
            f"{count:,} {way}: {', '.join(first)}{', …' if count > len(first) else ''}"
            for way, count, first in self.wrong
        )
        return f"of {self.lines:,} lines of corrections {ways}."


class NotReplayable(TallymanError):
    code = "not_replayable"
    exit_code = 2
    hint = "Nothing was written. Correct the source, then run the asset."
    text = "rejections of {target} cannot be replayed: {why}."
    target: str
    why: str


class ReplayInterrupted(Conflict):
    code = "replay_interrupted"
    hint = "Nothing of it was published; all its rejections are still open."
    text = (
        "run {run} was a replay of rejections and did not finish. Start it again: `tallyman "
        "rejections replay {replay_of}`, with the same --with if there was one."
    )
    run: str
    replay_of: str
