"""Errors about publishing, renaming and purging."""

from __future__ import annotations

from dataclasses import field

from tallyman.errors.base import Conflict, NotFound, TallymanError


class VersionConflict(Conflict):
    """Somebody else published first. `body` follows row O6 of the specification."""

    code = "conflict"
    retryable = True
    hint = (
        "Nothing was published; readers see what they saw before. Look at `tallyman versions`, "
        "then repeat the command on the current version; a run reuses unchanged results."
    )
    text = "dataset {table_key!r} is at version {actual}; version {expected} was expected."
    table_key: str
    expected: int
    actual: int

    def body(self) -> dict[str, object]:
        """Build the response body that a client of the service gets."""
        found = {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}
        return {"error": str(self), "code": self.code, "manifest_conflict": found}

    def facts(self) -> dict[str, object]:
        return {**super().facts(), **self.body()}


class VersionNotWhole(Conflict):
    """The fragments of a new version do not add up to it."""

    code = "version_not_whole"
    exit_code = 1
    hint = (
        "Nothing was published; readers see what they saw before. Run again; if it happens again, "
        "this is a defect of Tallyman."
    )
    version: str
    stated: int
    rows: int
    purged: int
    others: int

    def __str__(self) -> str:
        found = f"{self.version} has to have {self.stated:,} rows, and its fragments {self.rows:,}"
        notes = {"are purged": self.purged, "are of partitions that do not change": self.others}
        return "; ".join([found, *(f"{n:,} {what}" for what, n in notes.items() if n)])


class SingleProducer(Conflict):
    code = "single_producer"
    hint = (
        'Nothing was made. Publish under another name: `publish="another_name"` on the asset. '
        "To read the dataset instead, declare `tm.dataset(…)`."
    )
    text = (
        "dataset {dataset!r} is already produced by {producer!r} of pipeline {project!r}; a "
        "dataset has one producer."
    )
    dataset: str
    producer: str
    project: str


class DatasetNotFound(NotFound):
    """No other pipeline publishes this dataset for this one to read."""

    code = "dataset_not_found"
    hint = (
        "Nothing was made. A dataset that is not published, hidden or has no version looks like "
        "one that does not exist. `tallyman ls --all` lists what can be read."
    )
    what: str = field(default="dataset of another pipeline called", init=False)


class DatasetRenamed(TallymanError):
    code = "dataset_renamed"
    exit_code = 2
    text = (
        "the dataset that earlier results read as {input!r} is called {name!r} now (pipeline "
        "{project!r}); the pipeline still says {wanted!r}."
    )
    wanted: str
    input: str
    name: str
    project: str

    @property
    def hint(self) -> str:  # type: ignore[override]
        return (
            f'Nothing was made. Write tm.dataset("{self.name}", name="{self.input}"), or in YAML '
            f"{{dataset: {self.name}, name: {self.input}}}. To read another dataset that has the "
            f"name {self.wanted!r} now, give the input another name."
        )


class PipelineOutOfReach(TallymanError):
    code = "pipeline_out_of_reach"
    hint = "Ask in the folder of that pipeline, or where its folder can be read."
    text = "the files of pipeline {project!r} cannot be read from here: {why}."
    project: str
    why: str


class NameTaken(Conflict):
    code = "name_taken"
    hint = "Nothing was changed. Choose another name."
    text = "the name {name!r} is already used by a {by}."
    name: str
    by: str


class SchemaChanged(Conflict):
    code = "schema_changed"
    hint = (
        "Nothing was published. Rebuild the whole dataset: `tallyman plan`, then `tallyman apply`."
    )
    text = "dataset {dataset!r} has the columns {before}; the new files have {after}."
    dataset: str
    before: str
    after: str


class FragmentGone(Conflict):
    code = "fragment_gone"
    retryable = True
    hint = "Nothing was published. Run the asset again."
    text = (
        "files to be published in {dataset!r} were removed by `cleanup`, or were not opened for "
        "this run."
    )
    dataset: str


class PipelineRolledBack(Conflict):
    """This pipeline version was rolled back; an ordinary run must not publish it again."""

    code = "pipeline_rolled_back"
    hint = (
        "Nothing was run. Change the pipeline, or publish this version again on purpose: "
        "`tallyman plan`, then `tallyman apply`. `tallyman run --pipeline-version active` runs the "
        "version that is active now, from its stored plan."
    )
    text = "this version of the pipeline was rolled back by {actor} at {at} (commit {commit:.8})."
    commit: str
    actor: str
    at: str


class PlanOutdated(Conflict):
    code = "plan_outdated"
    hint = "Nothing was published; readers see what they saw. Make a new plan: `tallyman plan`."
    text = "plan {plan:.8} is out of date: {reason}."
    plan: str
    reason: str


class InUse(Conflict):
    """A version that is current, pinned or about to be read cannot be purged."""

    code = "in_use"
    hint = "Nothing was removed."
    text = "{what} cannot be removed: {why}."
    what: str
    why: str


class NothingToRead(NotFound):
    """A version has no files: it removed the dataset's rows, or it was purged."""

    what: str = field(default="version of", init=False)
    nearest: str | None = field(default=None, init=False)
    version: int
    purged: bool

    def __str__(self) -> str:
        found = "was purged" if self.purged else "is empty"
        return f"{self.name} v{self.version} {found}: there is nothing to read."


class DatasetDamaged(TallymanError):
    """A file of a version is missing, unreadable, or differs from its recorded bytes."""

    code = "dataset_damaged"
    hint = (
        "No value of this file was used. `tallyman verify dataset NAME` lists all damaged files. "
        "Make the dataset again (`tallyman run --force NAME`), or go back to an intact version: "
        "`tallyman versions`, `tallyman rollback`."
    )
    text = "dataset {dataset!r} cannot be read: {reason}"
    dataset: str
    reason: str
