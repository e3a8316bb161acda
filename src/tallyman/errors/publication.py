"""Errors about publishing, renaming and purging."""

from __future__ import annotations

from tallyman.errors.base import Conflict, NotFound, TallymanError


class VersionConflict(Conflict):
    """Somebody else published first. `body` follows row O6 of the specification."""

    code = "conflict"
    retryable = True
    hint = (
        "Nothing was published; readers see what they saw before. Look at `tallyman versions`, "
        "then repeat the command on the current version; a run reuses unchanged results."
    )

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(table_key, expected, actual)
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def __str__(self) -> str:
        return (
            f"dataset {self.table_key!r} is at version {self.actual}; "
            f"version {self.expected} was expected."
        )

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

    def __init__(self, version: str, stated: int, rows: int, purged: int, others: int) -> None:
        super().__init__(version, stated, rows, purged, others)
        self.version, self.stated, self.rows = version, stated, rows
        self.purged, self.others = purged, others

    def __str__(self) -> str:
        found = f"{self.version} has to have {self.stated:,} rows, and its fragments {self.rows:,}"
        notes = {"are purged": self.purged, "are of partitions that do not change": self.others}
        return "; ".join([found, *(f"{n:,} {what}" for what, n in notes.items() if n)])


class SingleProducer(Conflict):
    """Another pipeline produces this dataset; a dataset has one producer."""

    code = "single_producer"
    hint = (
        'Nothing was made. Publish under another name: `publish="another_name"` on the asset. '
        "To read the dataset instead, declare `tm.dataset(…)`."
    )

    def __init__(self, dataset: str, producer: str, project: str) -> None:
        super().__init__(dataset, producer, project)
        self.dataset, self.producer, self.project = dataset, producer, project

    def __str__(self) -> str:
        return (
            f"dataset {self.dataset!r} is already produced by {self.producer!r} of pipeline "
            f"{self.project!r}; a dataset has one producer."
        )


class DatasetNotFound(NotFound):
    """No other pipeline publishes this dataset for this one to read."""

    code = "dataset_not_found"
    hint = (
        "Nothing was made. A dataset that is not published, hidden or has no version looks like "
        "one that does not exist. `tallyman ls --all` lists what can be read."
    )

    def __init__(self, name: str, nearest: str | None = None) -> None:
        super().__init__("dataset of another pipeline called", name, nearest)
        self.args = (name, nearest)


class DatasetRenamed(TallymanError):
    """A dataset of another pipeline has another name than when this pipeline read it."""

    code = "dataset_renamed"
    exit_code = 2

    def __init__(self, wanted: str, input: str, name: str, project: str) -> None:
        super().__init__(wanted, input, name, project)
        self.wanted, self.input, self.name, self.project = wanted, input, name, project

    @property
    def hint(self) -> str:  # type: ignore[override]
        return (
            f'Nothing was made. Write tm.dataset("{self.name}", name="{self.input}"), or in YAML '
            f"{{dataset: {self.name}, name: {self.input}}}. To read another dataset that has the "
            f"name {self.wanted!r} now, give the input another name."
        )

    def __str__(self) -> str:
        return (
            f"the dataset that earlier results read as {self.input!r} is called {self.name!r} now "
            f"(pipeline {self.project!r}); the pipeline still says {self.wanted!r}."
        )


class PipelineOutOfReach(TallymanError):
    """The files of another pipeline cannot be read from here."""

    code = "pipeline_out_of_reach"
    hint = "Ask in the folder of that pipeline, or where its folder can be read."

    def __init__(self, project: str, why: str) -> None:
        super().__init__(project, why)
        self.project, self.why = project, why

    def __str__(self) -> str:
        return f"the files of pipeline {self.project!r} cannot be read from here: {self.why}."


class NameTaken(Conflict):
    """A dataset or snapshot already has this name; both are read by name."""

    code = "name_taken"
    hint = "Nothing was changed. Choose another name."

    def __init__(self, name: str, by: str) -> None:
        super().__init__(name, by)
        self.name, self.by = name, by

    def __str__(self) -> str:
        return f"the name {self.name!r} is already used by a {self.by}."


class SchemaChanged(Conflict):
    """A new fragment has other columns than the version; all fragments must have the same."""

    code = "schema_changed"
    hint = (
        "Nothing was published. Rebuild the whole dataset: `tallyman plan`, then `tallyman apply`."
    )

    def __init__(self, dataset: str, before: str, after: str) -> None:
        super().__init__(dataset, before, after)
        self.dataset, self.before, self.after = dataset, before, after

    def __str__(self) -> str:
        return (
            f"dataset {self.dataset!r} has the columns {self.before}; the new files have "
            f"{self.after}."
        )


class FragmentGone(Conflict):
    """`cleanup` removed files that were waiting to be published, or they are not of this run."""

    code = "fragment_gone"
    retryable = True
    hint = "Nothing was published. Run the asset again."

    def __init__(self, dataset: str) -> None:
        super().__init__(dataset)
        self.dataset = dataset

    def __str__(self) -> str:
        return (
            f"files to be published in {self.dataset!r} were removed by `cleanup`, or were not "
            "opened for this run."
        )


class PipelineRolledBack(Conflict):
    """This pipeline version was rolled back; an ordinary run must not publish it again."""

    code = "pipeline_rolled_back"
    hint = (
        "Nothing was run. Change the pipeline, or publish this version again on purpose: "
        "`tallyman plan`, then `tallyman apply`. `tallyman run --pipeline-version active` runs the "
        "version that is active now, from its stored plan."
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
    """A dataset or the pipeline changed after the change plan was made."""

    code = "plan_outdated"
    hint = "Nothing was published; readers see what they saw. Make a new plan: `tallyman plan`."

    def __init__(self, plan: str, reason: str) -> None:
        super().__init__(plan, reason)
        self.plan, self.reason = plan, reason

    def __str__(self) -> str:
        return f"plan {self.plan[:8]} is out of date: {self.reason}."


class InUse(Conflict):
    """A version that is current, pinned or about to be read cannot be purged."""

    code = "in_use"
    hint = "Nothing was removed."

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"{self.what} cannot be removed: {self.why}."


class NothingToRead(NotFound):
    """A version has no files: it removed the dataset's rows, or it was purged."""

    def __init__(self, dataset: str, version: int, purged: bool) -> None:
        super().__init__("version", f"{dataset} v{version}")
        self.args = (dataset, version, purged)
        self.purged = purged

    def __str__(self) -> str:
        if self.purged:
            return f"{self.name} was purged: there is nothing to read."
        return f"{self.name} is empty: there is nothing to read."


class DatasetDamaged(TallymanError):
    """A file of a version is missing, unreadable, or differs from its recorded bytes."""

    code = "dataset_damaged"
    hint = (
        "No value of this file was used. `tallyman verify dataset NAME` lists all damaged files. "
        "Make the dataset again (`tallyman run --force NAME`), or go back to an intact version: "
        "`tallyman versions`, `tallyman rollback`."
    )

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(dataset, reason)
        self.dataset, self.reason = dataset, reason

    def __str__(self) -> str:
        return f"dataset {self.dataset!r} cannot be read: {self.reason}"
