"""Errors about walks: evidence is missing, or no longer the same."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class EvidenceGone(TallymanError):
    """The rows exist, but the folder of the run that made them does not."""

    code = "evidence_gone"
    hint = (
        "`tallyman why --version` follows a row of another version; `tallyman run --force` makes "
        "the asset again, with evidence."
    )

    def __init__(self, dataset: str, run: str, folder: str) -> None:
        super().__init__(dataset, run, folder)
        self.dataset, self.run, self.folder = dataset, run, folder

    def __str__(self) -> str:
        return (
            f"rows of {self.dataset} were made by run {self.run}, and the files of that run in "
            f"{self.folder} no longer exist: their origin can no longer be traced."
        )


class DigestsDiffer(TallymanError):
    """A run kept digests, and its plan gives other keys on its inputs now."""

    code = "replay_differs"
    hint = (
        "No record is shown, because these are not the records of that run. `tallyman verify "
        "--exact` compares them key by key."
    )

    def __init__(self, target: str, run: str, records: int, reason: str) -> None:
        super().__init__(target, run, records, reason)
        self.target, self.run, self.records, self.reason = target, run, records, reason

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.records:,} recomputed record(s) are in groups whose digest is "
            f"not the one that run {self.run} stored: {self.reason}."
        )
