"""Errors about replaying rejections."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, TallymanError


class RejectionsOutdated(Conflict):
    """The published version was not made by the run whose rejections are to be replayed."""

    code = "rejections_outdated"
    hint = "Nothing was written. `tallyman rejections ls RUN` lists what is open in a run."

    def __init__(self, run: str, target: str, current: str | None) -> None:
        super().__init__(run, target, current)
        self.run, self.target, self.current = run, target, current

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

    def __init__(self, run: str, count: int, by_run: str | None, actor: str) -> None:
        super().__init__(run, count, by_run, actor)
        self.run, self.count, self.by_run, self.actor = run, count, by_run, actor

    def __str__(self) -> str:
        how = f"replayed in run {self.by_run}" if self.by_run else f"discarded by {self.actor}"
        return f"{self.count:,} of the rejections of run {self.run} were already {how}."


class DefinitionChanged(Conflict):
    """The asset's plan is not the plan that rejected the records."""

    code = "definition_changed"
    hint = "Nothing was written. A run with the new definition judges all records again."

    def __init__(self, run: str, asset: str) -> None:
        super().__init__(run, asset)
        self.run, self.asset = run, asset

    def __str__(self) -> str:
        return (
            f"the definition of {self.asset} has changed since run {self.run}, and a replay uses "
            f"the plan of that run. Run the asset instead: `tallyman run {self.asset}`."
        )


class SourceChanged(Conflict):
    """The source's records are not those that were rejected."""

    code = "source_changed"
    hint = "Nothing was written. A run reads the files as they are now."

    def __init__(self, run: str, source: str, why: str, asset: str) -> None:
        super().__init__(run, source, why, asset)
        self.run, self.source, self.why, self.asset = run, source, why, asset

    def __str__(self) -> str:
        return (
            f"the files of {self.source!r} have changed since run {self.run}, and {self.why}. "
            f"Run the asset instead: `tallyman run {self.asset}`."
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

    def __init__(self, lines: int, wrong: Sequence[tuple[str, int, list[str]]]) -> None:
        super().__init__(lines, tuple(wrong))
        self.lines, self.wrong = lines, tuple(wrong)

    def __str__(self) -> str:
        if not self.lines:
            return "the file of corrections is empty."
        ways = "; ".join(
            f"{count:,} {way}: {', '.join(first)}{', …' if count > len(first) else ''}"
            for way, count, first in self.wrong
        )
        return f"of {self.lines:,} lines of corrections {ways}."


class NotReplayable(TallymanError):
    """A replay of this target cannot give a correct result, whatever the records are."""

    code = "not_replayable"
    exit_code = 2
    hint = "Nothing was written. Correct the source, then run the asset."

    def __init__(self, target: str, why: str) -> None:
        super().__init__(target, why)
        self.target, self.why = target, why

    def __str__(self) -> str:
        return f"rejections of {self.target} cannot be replayed: {self.why}."


class ReplayInterrupted(Conflict):
    """A replay did not finish. It cannot be resumed, only started again."""

    code = "replay_interrupted"
    hint = "Nothing of it was published; all its rejections are still open."

    def __init__(self, run: str, replay_of: str) -> None:
        super().__init__(run, replay_of)
        self.run, self.replay_of = run, replay_of

    def __str__(self) -> str:
        return (
            f"run {self.run} was a replay of rejections and did not finish. Start it again: "
            f"`tallyman rejections replay {self.replay_of}`, with the same --with if there was one."
        )
