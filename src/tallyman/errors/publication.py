"""What cannot become current, or cannot go."""

from __future__ import annotations

from tallyman.errors.base import Conflict, NotFound, TallymanError


class VersionConflict(Conflict):
    """Somebody else published first. The body is that of `spec` row O6."""

    code = "conflict"
    retryable = True
    hint = (
        "Nothing was published; readers see what they saw. Look with `tallyman versions`, then do "
        "it again on what is there now; a run reuses what is unchanged."
    )

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(table_key, expected, actual)
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def __str__(self) -> str:
        return (
            f"dataset {self.table_key!r} is at version {self.actual}, "
            f"not at {self.expected} as expected."
        )

    def body(self) -> dict[str, object]:
        """As a client of the service gets it."""
        found = {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}
        return {"error": str(self), "code": self.code, "manifest_conflict": found}

    def facts(self) -> dict[str, object]:
        return {**super().facts(), **self.body()}


class SingleProducer(Conflict):
    """A dataset is produced by one pipeline at a time."""

    code = "single_producer"
    hint = "Publish under another name, or have the other project give the dataset up first."

    def __init__(self, dataset: str, producer: str, project: str) -> None:
        super().__init__(dataset, producer, project)
        self.dataset, self.producer, self.project = dataset, producer, project

    def __str__(self) -> str:
        return (
            f"dataset {self.dataset!r} is produced by {self.producer!r} of project "
            f"{self.project!r}; nobody else can."
        )


class NameTaken(Conflict):
    """Datasets and snapshots share one namespace: both are read by name."""

    code = "name_taken"
    hint = "Nothing was changed. Choose another name."

    def __init__(self, name: str, by: str) -> None:
        super().__init__(name, by)
        self.name, self.by = name, by

    def __str__(self) -> str:
        return f"the name {self.name!r} is taken by a {self.by}."


class SchemaChanged(Conflict):
    """All fragments of a version have the same columns."""

    code = "schema_changed"
    hint = (
        "Nothing was published. Rebuild all of it together: `tallyman plan`, then `tallyman apply`."
    )

    def __init__(self, dataset: str, before: str, after: str) -> None:
        super().__init__(dataset, before, after)
        self.dataset, self.before, self.after = dataset, before, after

    def __str__(self) -> str:
        return (
            f"dataset {self.dataset!r} has the columns {self.before}; what would join it has "
            f"{self.after}."
        )


class FragmentGone(Conflict):
    """`cleanup` took files that were waiting to be published."""

    code = "fragment_gone"
    retryable = True
    hint = "Nothing was published. Run it again."

    def __init__(self, dataset: str) -> None:
        super().__init__(dataset)
        self.dataset = dataset

    def __str__(self) -> str:
        return f"files that were to be published in {self.dataset!r} were cleaned up meanwhile."


class PipelineRolledBack(Conflict):
    """What was rolled back does not come back by an ordinary run."""

    code = "pipeline_rolled_back"
    hint = (
        "Nothing was run. Change the pipeline, or bring this one back on purpose: "
        "`tallyman plan`, then `tallyman apply`."
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
    """The world moved since the plan was made."""

    code = "plan_outdated"
    hint = "Nothing was published; readers see what they saw. Make a new one: `tallyman plan`."

    def __init__(self, plan: str, reason: str) -> None:
        super().__init__(plan, reason)
        self.plan, self.reason = plan, reason

    def __str__(self) -> str:
        return f"plan {self.plan[:8]} is out of date: {self.reason}."


class InUse(Conflict):
    """What is current, pinned or about to be read is never purged."""

    code = "in_use"
    hint = "Nothing was removed."

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"{self.what} cannot be purged: {self.why}."


class NothingToRead(NotFound):
    """A version without files: its dataset was removed by it, or it was purged."""

    def __init__(self, dataset: str, version: int, purged: bool) -> None:
        super().__init__("version", f"{dataset} v{version}")
        self.args = (dataset, version, purged)
        self.purged = purged

    def __str__(self) -> str:
        if self.purged:
            return f"{self.name} was purged: there is nothing to read."
        return f"{self.name} is empty: there is nothing to read."


class DatasetDamaged(TallymanError):
    """A file of a version is gone, cannot be read, or is not byte for byte what was recorded."""

    code = "dataset_damaged"
    hint = (
        "No value of it was used. `tallyman verify dataset NAME` names all damaged files. Make "
        "it again (`tallyman run --force NAME`) or go back to a version that is whole: "
        "`tallyman versions`, `tallyman rollback`."
    )

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(dataset, reason)
        self.dataset, self.reason = dataset, reason

    def __str__(self) -> str:
        return f"dataset {self.dataset!r} cannot be read: {self.reason}"
