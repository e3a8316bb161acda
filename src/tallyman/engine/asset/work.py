"""The work on one target: everything that is decided before its inputs are opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import is_traced
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.definition.working_step import Append
from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.input_volume import VolumeRules
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.columns.tainted import tainted
from tallyman.engine.expressions.column_names import quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.plan import timed_plan


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a target: what is kept, what is removed afterwards, and the project."""

    result: Path
    scratch: Path
    project: Path

    @property
    def output(self) -> Path:
        """Return the folder where passed rows are measured; they stay there if the gate lets
        them.
        """
        return self.result / "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    target: Target
    asset: Asset
    plan: Frame
    run: RunIdentity
    thresholds: Thresholds
    evidence: Evidence
    folders: Folders
    redaction: Redaction
    tag: str | None = None
    """The tag of its Spark jobs, by which they can be interrupted together."""
    attempt_tag: str | None = None
    """A tag for the Spark jobs of this attempt alone, if it has a time limit."""
    attempt: int = 1
    stays: Sequence[str] = ()
    """Existing files of rows to which the output is added."""
    made_from: Mapping[str, str] = field(default_factory=dict)
    """Hashes of everything that rows depend on, by kind: a resume reuses segments with equal ones.
    Empty if segments are not reused.
    """
    volume: VolumeRules = field(default_factory=VolumeRules)
    """What is done about inputs that are empty or shrank."""
    replay_of: str | None = None
    """The run whose rejected records are made again."""

    @property
    def traced(self) -> bool:
        return is_traced(self.asset.trace, self.plan)

    @property
    def partition_label(self) -> str:
        """Name the partition as evidence shows it; `all` for an asset without partitions."""
        declared, partition = self.asset.partitioned_by, self.target.partition
        if declared is None or not partition:
            return "all"
        return declared.folder(partition).partition("=")[2]

    def in_partition(self) -> Column | None:
        """Build a condition that every row of the output must meet; None if any row may be in
        it.
        """
        declared, partition = self.asset.partitioned_by, self.target.partition
        if declared is None or partition is None:
            return None
        return F.expr(f"{quoted(declared.column)} <=> {declared.literal(partition)}")

    def evaluated(self) -> Work:
        """Return the work as it is evaluated: the plan at the run's time, redaction of all columns
        that show a redacted one, and keys as evidence where digests are not enough.
        """
        plan = timed_plan.at(self.plan, self.run.clock)
        hidden = replace(self.redaction, columns=tainted(plan, self.redaction.columns))
        evidence = self.evidence
        if evidence is Evidence.DIGEST and _validates_groups(plan):
            # A group that fails later makes its records ERROR, so their keys must be known.
            evidence = Evidence.KEYS
        return replace(self, plan=plan, redaction=hidden, evidence=evidence)


def _validates_groups(plan: Frame) -> bool:
    steps = list(plan.steps())
    grouped = [n for n, step in enumerate(steps) if _groups(step)]
    if grouped and any(step.rejects for step in steps[grouped[0] :]):
        return True
    return any(_validates_groups(step.other) for step in steps if isinstance(step, Append))


def _groups(step: Step) -> bool:
    if isinstance(step, Append):
        return any(map(_groups, step.other.steps()))
    return step.groups
