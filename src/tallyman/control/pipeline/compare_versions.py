"""Compare two versions of a pipeline: what differs, and which rows are made again because of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.compiled.difference import ItemChange, differences
from tallyman.domain.pipeline.pipeline import Pipeline

NONE_AGAIN = "no rows are made again"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationChange:
    """A declaration that differs, and what that means."""

    item: ItemChange
    effect: str
    """Its meaning, in words."""
    made_again: tuple[str, ...] = ()
    """The assets whose rows are made again because of it, in the order they run."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.item.kind,
            "name": self.item.name,
            "change": self.item.change,
            "edits": [edit.to_json() for edit in self.item.edits],
            "effect": self.effect,
            "made_again": list(self.made_again),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDifference:
    before: str
    after: str
    """The hashes of the two versions."""
    changes: tuple[DeclarationChange, ...]
    made_again: tuple[str, ...]
    """All assets whose rows are made again or for the first time, in the order they run."""

    def to_json(self) -> dict[str, Any]:
        return {
            "before": self.before,
            "after": self.after,
            "same": self.before == self.after,
            "changes": [change.to_json() for change in self.changes],
            "made_again": list(self.made_again),
        }


def compare_versions(before: Workspace, after: Workspace) -> PipelineDifference:
    """Compare two pipelines of one project. What makes rows again is decided by the hashes that
    decide it in a run, under the settings of now."""
    found = differences(json.loads(before.plan_text), json.loads(after.plan_text))
    consequences = _Consequences(after.pipeline, _redefined(before, after))
    changes = tuple(consequences.of(item) for item in found)
    again = {name for change in changes for name in change.made_again}
    return PipelineDifference(
        before=before.version(),
        after=after.version(),
        changes=changes,
        made_again=tuple(name for name in after.pipeline.order() if name in again),
    )


def _redefined(before: Workspace, after: Workspace) -> set[str]:
    """Name the assets of both pipelines whose definition differs in what decides rows."""
    both = set(before.pipeline.assets) & set(after.pipeline.assets)
    then, now = (Definitions.of(workspace, sorted(both)) for workspace in (before, after))
    return {name for name in both if then.hash(name) != now.hash(name)}


@dataclass(frozen=True, slots=True)
class _Consequences:
    pipeline: Pipeline
    redefined: set[str]

    def of(self, item: ItemChange) -> DeclarationChange:
        change = DeclarationChange(item=item, effect=NONE_AGAIN)
        if item.change == "removed":
            return replace(change, effect=_REMOVED[item.kind])
        if item.kind == "table":
            new = item.change == "added"
            return replace(change, effect=_TABLE_NEW if new else _TABLE_CHANGED)
        if item.change == "added":
            return self._added(change)
        if item.kind == "source":
            readers = [n for n, a in self.pipeline.assets.items() if item.name in a.inputs]
            if not readers:
                return replace(change, effect=f"nothing reads it: {NONE_AGAIN}")
            return self._again(change, [name for name in readers if name in self.redefined])
        return self._again(change, [item.name] if item.name in self.redefined else [])

    def _added(self, change: DeclarationChange) -> DeclarationChange:
        if change.item.kind == "source":
            return replace(change, effect="it is read by what names it")
        again = self._with_readers([change.item.name])
        return replace(change, effect="its rows are made by the next run", made_again=again)

    def _again(self, change: DeclarationChange, first: list[str]) -> DeclarationChange:
        if not first:
            only = all(edit.of_plan or edit.where == "schema" for edit in change.item.edits)
            return replace(change, effect=f"formatting only: {NONE_AGAIN}" if only else NONE_AGAIN)
        again = self._with_readers(first)
        return replace(change, effect=f"rows of {_listed(again)} are made again", made_again=again)

    def _with_readers(self, first: Iterable[str]) -> tuple[str, ...]:
        """Add what reads them, directly or through others, in the order it runs."""
        found = set(first)
        order = self.pipeline.order()
        for name in order:
            if set(self.pipeline.assets[name].inputs) & found:
                found.add(name)
        return tuple(name for name in order if name in found)


_REMOVED: Mapping[str, str] = {
    "source": "nothing reads it any more; its files stay",
    "table": "it cannot be changed any more; its versions stay",
    "asset": "it is not made any more; its versions stay, and `tallyman apply` removes its dataset "
    "from what readers see",
}
_TABLE_NEW = "it is empty until `tallyman mutate` or `tallyman load` fills it"
_TABLE_CHANGED = f"its rows stay, later changes follow the new declaration; {NONE_AGAIN}"


def _listed(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
