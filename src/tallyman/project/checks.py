"""Checks of a past run: are its inputs still the same, and can it be reproduced?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.verify.can_reproduce import Reproducible
from tallyman.control.verify.inputs import Bound, Checked
from tallyman.control.verify.reproduce import AgainListener, Reproduction, pinned_spark
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
        return self._bound(run).check()

    def _bound(self, run: str) -> Bound:
        record = self._runs.find(run)
        options = record.params.options
        assets = [n for n in record.params.assets if n in self.workspace.pipeline.assets]
        evidence, thresholds = options.evidence, options.thresholds
        return Bound(record, Definitions.of(self.workspace, assets, evidence, thresholds))

    def reproduce(
        self,
        run: str,
        *,
        spark_conf: Mapping[str, str] | None = None,
        keep: bool = False,
        listen: AgainListener = lambda *_: None,
    ) -> Reproduced:
        """Make a run again from its pinned inputs in a temporary folder, and compare; nothing is
        published."""
        bound = self._bound(run)
        conf = pinned_spark(
            bound.config.get("spark", {}), self.workspace.settings.spark, spark_conf or {}
        )
        jobs = bound.record.params.options.jobs
        with self.workspace.with_spark(conf) as (workspace, refused):
            definitions = Definitions.of(workspace, bound.definitions.chosen)
            checked = Reproducible(bound, definitions)
            found = Reproduction(checked, difference_facts, listen, jobs, keep).reproduce()
        return replace(found, not_applied=tuple(refused))

    @property
    def _runs(self) -> ProjectRuns:
        return ProjectRuns(self.workspace)
