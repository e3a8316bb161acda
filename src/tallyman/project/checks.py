"""Checks of a past run: are its inputs still the same, and can it be reproduced?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tallyman.control.pipeline import past_versions
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.verify.can_reproduce import Reproducible
from tallyman.control.verify.inputs import Bound, Checked
from tallyman.control.verify.reproduce import AgainListener, Reproduction, pinned_spark
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.reproduction import Reproduced
from tallyman.project.runs import ProjectRuns
from tallyman.query.diff.diff import difference_facts


@dataclass(frozen=True, slots=True)
class ProjectChecks:
    """Compares a run with the present."""

    workspace: Workspace

    def check_inputs(self, run: str) -> Checked:
        """Check that config, code and inputs are still what the run was bound to; report the first
        difference."""
        record = ProjectRuns(self.workspace).find(run)
        return _bound(record, past_versions.asked_for(self.workspace, record)).check()

    def reproduce(
        self,
        run: str,
        *,
        spark_conf: Mapping[str, str] | None = None,
        keep: bool = False,
        listen: AgainListener = lambda *_: None,
    ) -> Reproduced:
        """Make a run again from its pinned inputs in a temporary folder, and compare; nothing is
        published. If the files declare another pipeline now, the run's stored plan is used."""
        record = ProjectRuns(self.workspace).find(run)
        then = past_versions.as_of(self.workspace, record)
        bound = _bound(record, then)
        conf = pinned_spark(
            bound.config.get("spark", {}), self.workspace.settings.spark, spark_conf or {}
        )
        jobs = bound.record.params.options.jobs
        with then.with_spark(conf) as (workspace, refused):
            definitions = Definitions.of(workspace, bound.definitions.chosen)
            checked = Reproducible(bound, definitions)
            found = Reproduction(checked, difference_facts, listen, jobs, keep).reproduce()
        stored = then.stored.hash if then.stored else None
        return replace(found, not_applied=tuple(refused), stored_version=stored)


def _bound(record: RunRecord, workspace: Workspace) -> Bound:
    options = record.params.options
    assets = [n for n in record.params.assets if n in workspace.pipeline.assets]
    evidence, thresholds = options.evidence, options.thresholds
    return Bound(record, Definitions.of(workspace, assets, evidence, thresholds))
