"""Sources, tables, assets and the pipeline they form. A declaration only records them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.approval import Approval
from tallyman.domain.pipeline.follows import trigger_problems
from tallyman.domain.pipeline.partition import Partitioning
from tallyman.domain.pipeline.split import (
    Outputs,
    ReadsOutputs,
    wired,
    with_split,
)
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.pipeline.trigger import (
    MANUAL,
    Trigger,
)
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.task import DEFAULT_POOL
from tallyman.domain.version.table import Reference, Table
from tallyman.errors import DefinitionError, Problem, UsageError
from tallyman.errors.wording import described, nearest

RUN_FOLDER_NAMES = frozenset(
    (
        "attempts",
        "config.json",
        "ledger.json",
        "lineage",
        "manifest.json",
        "processing_report.json",
        "seal.json",
    )
)
"""Names in a run folder next to the folders of its assets; in any case, because some file
systems do not distinguish it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Data from outside, with a schema and a key."""

    name: str
    path: str
    format: str
    schema: str | None = None
    key: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    on_empty: str | None = None
    """What happens if it has no records; None: as the asset says that reads it."""
    on_shrink: str | None = None
    """What happens if it has less than half of the records it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDataset:
    """A dataset that another pipeline of the organisation publishes, as an input. Its columns and
    its key are those of the version that a run reads.
    """

    name: str
    """The name of the input."""
    dataset: str
    """The name that its producer publishes it under."""


Item: TypeAlias = "Source | Asset | SharedDataset | Table"
"""A declaration of a pipeline file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A named function of its inputs, made of steps."""

    name: str
    function: Callable[..., Frame]
    inputs: tuple[str, ...]
    key: tuple[str, ...] = ()
    unique: bool = True
    """True if no two rows of a partition, or of an unpartitioned asset, may have the same key."""
    thresholds: Thresholds | None = None
    evidence: Evidence = Evidence.KEYS
    tags: frozenset[str] = frozenset()
    meta: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Notes for people and tools, by name; they decide nothing about the result."""
    partitioned_by: Partitioning | None = None
    approval: Approval | None = None
    update_strategy: str = "replace"
    unique_key: tuple[str, ...] = ()
    publish: str | bool = True
    """The name of the dataset if it is not the asset's name; False hides it from outside
    readers.
    """
    publish_rejections: str | None = None
    """The name of the dataset of its rejections, if there is one."""
    split: Outputs = ()
    """The outputs among which its rows are divided, and the condition of each, in order."""
    trace: str | None = None
    """"changes" records each change of a row, "off" none; None lets the steps decide."""
    trigger: Trigger = MANUAL
    """Decides when tasks are made; like the fields below, it decides nothing about the result."""
    retry: RetryPolicy | None = None
    """None: a local run tries once and without a limit, a task as often as is usual."""
    priority: int = 0
    pool: str = DEFAULT_POOL
    max_concurrency: int | None = None

    @property
    def dataset(self) -> str:
        return self.publish if isinstance(self.publish, str) else self.name

    @property
    def registers(self) -> tuple[str, ...]:
        """List the datasets that it declares next to its own."""
        rejections = () if self.publish_rejections is None else (self.publish_rejections,)
        return (*(name for name, _ in self.split), *rejections)

    @property
    def written(self) -> Asset:
        """The asset as it was declared, before its inputs were wired."""
        return self.function.written if isinstance(self.function, ReadsOutputs) else self

    def plan(self) -> Frame:
        """Call the function on empty Frames to get its steps."""
        return self(*(Frame(name) for name in self.inputs))

    def written_plan(self) -> Frame:
        """Return the steps that the author wrote, without those that a split adds."""
        return self.written._called(*(Frame(name) for name in self.written.inputs))

    def __call__(self, *frames: Frame) -> Frame:
        plan = self._called(*frames)
        return with_split(plan, self.split) if self.split else plan

    def _called(self, *frames: Frame) -> Frame:
        """Call the function. It must not end the program: a scheduler would take that for a
        success."""
        try:
            return self.function(*frames)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"while calling the function of asset {self.name}") from None
        except SystemExit as error:
            raise UsageError(
                f"the function ended the program: SystemExit({error.code!r})"
            ) from error
        except Exception:
            raise
        except BaseException as error:
            raise UsageError(described(error)) from error


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Sources, tables, shared datasets and assets wired into a DAG by the names of their inputs."""

    sources: Mapping[str, Source]
    assets: Mapping[str, Asset]
    tables: Mapping[str, Table] = field(default_factory=dict)
    shared: Mapping[str, SharedDataset] = field(default_factory=dict)

    @classmethod
    def of(cls, declared: Sequence[Item]) -> Pipeline:
        """Wire the declarations; DefinitionError lists every duplicate name, unknown input and
        cycle.
        """
        problems: list[Problem] = []
        seen: dict[str, Item] = {}
        for item in declared:
            # Each asset in YAML that reads a shared dataset declares it.
            if isinstance(item, SharedDataset) and seen.get(item.name) == item:
                continue
            if item.name in seen:
                problems.append(
                    Problem(where_of(item), f"the name {item.name!r} is declared twice")
                )
            seen[item.name] = item
        assets = {name: item for name, item in seen.items() if isinstance(item, Asset)}
        sources = {name: item for name, item in seen.items() if isinstance(item, Source)}
        tables = {name: item for name, item in seen.items() if isinstance(item, Table)}
        shared = {name: item for name, item in seen.items() if isinstance(item, SharedDataset)}
        outputs = {name: item for item in assets.values() for name, _ in item.split}
        known = {**outputs, **seen}
        for item in assets.values():
            for name in item.inputs:
                if name not in known:
                    near = nearest(name, known)
                    problems.append(Problem(where_of(item), f"unknown input {name!r}", near))
        for name in outputs.keys() & seen.keys():
            message = f"split: the name {name!r} is declared as something else"
            problems.append(Problem(where_of(outputs[name]), message))
        assets = {name: wired(item, outputs) for name, item in assets.items()}
        problems += trigger_problems(assets, sources, tables)
        problems += _reserved_names(assets)
        problems += [*_datasets(assets, tables), *_references(tables), *_cycles(assets)]
        problems += _own_datasets(assets, tables, shared)
        if problems:
            raise DefinitionError(problems)
        return cls(sources, assets, tables, shared)

    def order(self) -> list[str]:
        """List the assets, each after those it reads."""
        graph = {a.name: [i for i in a.inputs if i in self.assets] for a in self.assets.values()}
        return list(TopologicalSorter(graph).static_order())


def _cycles(assets: Mapping[str, Asset]) -> list[Problem]:
    """Report one problem per cycle, in the direction of the data: in `a → b`, b reads a."""
    graph = {a.name: [i for i in a.inputs if i in assets] for a in assets.values()}
    order = {name: place for place, name in enumerate(graph)}
    problems: list[Problem] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            path: list[str] = error.args[1][:-1]
            start = path.index(min(path, key=order.__getitem__))
            path = [*path[start:], *path[:start], path[start]]
            problems.append(Problem(f"asset {path[0]}", f"cycle: {' → '.join(path)}"))
            # Cut the cycle where it closes; if a cycle remains, it is another one.
            graph[path[0]].remove(path[-2])
        else:
            return problems


def _reserved_names(assets: Mapping[str, Asset]) -> Iterator[Problem]:
    """Report assets whose folder would be a file or folder that every run folder has."""
    for asset in assets.values():
        if asset.name.lower() in RUN_FOLDER_NAMES:
            message = (
                f"{asset.name!r} is the name of a file or folder of every run folder; "
                "name the asset differently, and set publish= to keep the name of its dataset"
            )
            yield Problem(where_of(asset), message)


_CLAIMS = {"publish_rejections": "rejections", "split": "outputs"}


def _datasets(assets: Mapping[str, Asset], tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Report datasets that two declarations claim: each belongs to one asset or one table."""
    seen = dict.fromkeys(tables, "a table")
    for asset in assets.values():
        if asset.dataset in seen:
            message = f"its dataset {asset.dataset!r} already belongs to {seen[asset.dataset]}"
            yield Problem(where_of(asset), message)
        seen.setdefault(asset.dataset, f"asset {asset.name}")
    for asset in assets.values():
        for name in asset.registers:
            what = "publish_rejections" if name == asset.publish_rejections else "split"
            if name in seen:
                message = f"{what}: the dataset {name!r} already belongs to {seen[name]}"
                yield Problem(where_of(asset), message)
            seen.setdefault(name, f"the {_CLAIMS[what]} of asset {asset.name}")


def _own_datasets(
    assets: Mapping[str, Asset],
    tables: Mapping[str, Table],
    shared: Mapping[str, SharedDataset],
) -> Iterator[Problem]:
    """Report shared datasets that this pipeline makes itself: its assets read them by asset."""
    own = {asset.dataset: asset.name for asset in assets.values()} | {t: t for t in tables}
    for item in shared.values():
        if item.dataset in own:
            message = f"this pipeline makes {item.dataset!r} itself: read {own[item.dataset]!r}"
            yield Problem(where_of(item), message)


def _references(tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Report invalid references: to an unknown table, not to its key, or to a key of another
    type.
    """
    for table in tables.values():
        for reference in table.references:
            target = tables.get(reference.table)
            if target is None:
                message = f"{reference.column!r} refers to unknown table {reference.table!r}"
                yield Problem(where_of(table), message, nearest(reference.table, tables))
            elif mistake := _mistake(table, reference, target):
                yield Problem(where_of(table), f"{reference.column!r} refers to {mistake}")


def _mistake(table: Table, reference: Reference, target: Table) -> str | None:
    to = f"{target.name}.{reference.to}"
    if target.key != (reference.to,):
        return f"{to}, but the key of {target.name!r} is {', '.join(target.key)}"
    own, other = table.column(reference.column).type, target.column(reference.to).type
    return f"{to}, which is {other} and not {own}" if own != other else None


def where_of(item: Item) -> str:
    """Name the item as problems do: asset daily_sales."""
    kind = "dataset" if isinstance(item, SharedDataset) else type(item).__name__.lower()
    return f"{kind} {item.name}"
