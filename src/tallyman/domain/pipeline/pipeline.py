"""Sources, tables, assets and the pipeline they form. A declaration only records them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias, TypeVar

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import SAFE_NAME, Frame
from tallyman.domain.pipeline import arguments
from tallyman.domain.pipeline.approval import Approval
from tallyman.domain.pipeline.declarations import record
from tallyman.domain.pipeline.follows import trigger_problems
from tallyman.domain.pipeline.partition import Partitioning
from tallyman.domain.pipeline.split import (
    Outputs,
    ReadsOutputs,
    checked_outputs,
    wired,
    with_split,
)
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.pipeline.trigger import (
    MANUAL,
    Trigger,
    checked_concurrency,
    checked_pool,
    checked_priority,
    checked_retry,
    checked_trigger,
)
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.task import DEFAULT_POOL
from tallyman.domain.version.dataset import DATASET_NAME, checked_name
from tallyman.domain.version.table import Reference, Table
from tallyman.errors import DefinitionError, Problem, UsageError
from tallyman.errors.wording import described, nearest

Declared = TypeVar("Declared", "Source", "Asset", "SharedDataset", Table)

FORMATS = ("json", "csv", "parquet")
NOT_READ = {
    "orc": "Spark does not number the rows of ORC files, so a record could not be named; "
    "`spark.read.orc(a).write.parquet(b)` converts them",
    "xml": "a missing end tag would swallow records silently, and the place of a record is not "
    "known; convert the file to JSON lines",
    "iceberg": "rows that the table deleted may still be in its files; write the rows to Parquet",
}
"""Formats that people ask for, and why their records cannot be accounted for."""
STRATEGIES = ("replace", "append")
TRACES = ("off", "changes")
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
"""What a pipeline file declares."""


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
        return with_split(plan, self.split) if self.split and isinstance(plan, Frame) else plan

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
                problems.append(Problem(_where(item), f"the name {item.name!r} is declared twice"))
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
                    problems.append(Problem(_where(item), f"unknown input {name!r}", near))
        for name in outputs.keys() & seen.keys():
            message = f"split: the name {name!r} is declared as something else"
            problems.append(Problem(_where(outputs[name]), message))
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
            yield Problem(_where(asset), message)


_CLAIMS = {"publish_rejections": "rejections", "split": "outputs"}


def _datasets(assets: Mapping[str, Asset], tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Report datasets that two declarations claim: each belongs to one asset or one table."""
    seen = dict.fromkeys(tables, "a table")
    for asset in assets.values():
        if asset.dataset in seen:
            message = f"its dataset {asset.dataset!r} already belongs to {seen[asset.dataset]}"
            yield Problem(_where(asset), message)
        seen.setdefault(asset.dataset, f"asset {asset.name}")
    for asset in assets.values():
        for name in asset.registers:
            what = "publish_rejections" if name == asset.publish_rejections else "split"
            if name in seen:
                message = f"{what}: the dataset {name!r} already belongs to {seen[name]}"
                yield Problem(_where(asset), message)
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
            yield Problem(_where(item), message)


def _references(tables: Mapping[str, Table]) -> Iterator[Problem]:
    """Report invalid references: to an unknown table, not to its key, or to a key of another
    type.
    """
    for table in tables.values():
        for reference in table.references:
            target = tables.get(reference.table)
            if target is None:
                message = f"{reference.column!r} refers to unknown table {reference.table!r}"
                yield Problem(_where(table), message, nearest(reference.table, tables))
            elif mistake := _mistake(table, reference, target):
                yield Problem(_where(table), f"{reference.column!r} refers to {mistake}")


def _mistake(table: Table, reference: Reference, target: Table) -> str | None:
    to = f"{target.name}.{reference.to}"
    if target.key != (reference.to,):
        return f"{to}, but the key of {target.name!r} is {', '.join(target.key)}"
    own, other = table.column(reference.column).type, target.column(reference.to).type
    return f"{to}, which is {other} and not {own}" if own != other else None


def _where(item: Item) -> str:
    kind = "dataset" if isinstance(item, SharedDataset) else type(item).__name__.lower()
    return f"{kind} {item.name}"


def _record(item: Declared) -> Declared:
    code = getattr(item.function, "__code__", None) if isinstance(item, Asset) else None
    record(item, _where(item), (code.co_filename, code.co_firstlineno) if code else None)
    return item


def _checked_name(what: str, name: str) -> str:
    if not SAFE_NAME.fullmatch(arguments.text(what, name)) or name.startswith("."):
        raise UsageError(f"{what} {name!r}: use letters, digits, '.', '_' and '-', at most 64")
    return name


def source(
    name: str,
    path: str,
    format: str = "json",
    schema: str | None = None,
    key: str | Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
) -> Source:
    """Declare data from outside. A relative path is relative to the project."""
    what = f"source {_checked_name('source', name)}"
    arguments.text(f"{what}: path", path)
    if schema is not None:
        arguments.text(f"{what}: schema", schema)
    if format not in FORMATS:
        reason = f": {NOT_READ[format]}" if format in NOT_READ else ""
        known = ", ".join(FORMATS)
        raise UsageError(f"source {name}: format is one of {known}, not {format!r}{reason}")
    if schema is None and format != "parquet":
        raise UsageError(f"source {name}: format {format!r} needs a schema")
    given = arguments.mapping(f"{what}: options", options)
    texts = {str(name): arguments.as_text(value) for name, value in given.items()}
    if format == "json" and texts.get("multiLine", "false") == "true":
        reason = "one record is one line; `jq -c .` converts the file"
        raise UsageError(f"source {name}: multiLine is not supported for JSON: {reason}")
    return _record(
        Source(
            name=name,
            path=path,
            format=format,
            schema=schema,
            key=arguments.names(f"{what}: key", key),
            options=texts,
        )
    )


def table(
    name: str,
    *,
    schema: str,
    key: str | Sequence[str],
    references: Mapping[str, object] | None = None,
    rules: Mapping[str, object] | None = None,
) -> Table:
    """Declare rows that people write with `tallyman mutate` and `tallyman load`, not with a run.

    `references` maps a column to "table.column", the key of another table, or to a mapping with
    `to`, `at_least` and `at_most`. `rules` maps a column to some of `one_of`, `min`, `max` and
    `pattern`.
    """
    bound = arguments.mapping(f"table {name}: references", references)
    ruled = arguments.mapping(f"table {name}: rules", rules)
    return _record(Table.of(name, schema, key, bound, ruled))


def dataset(dataset: str, *, name: str | None = None) -> SharedDataset:
    """Declare a dataset that another pipeline publishes as an input; a run reads its current
    version. `name` is the name of the input if it is not that of the dataset.
    """
    if not DATASET_NAME.fullmatch(arguments.text("dataset", dataset)):
        raise UsageError(f"dataset {dataset!r}: use lower-case letters, digits and '_'")
    own = _checked_name("dataset", name or dataset)
    return _record(SharedDataset(name=own, dataset=dataset))


def _check_strategy(asset: str, strategy: str, unique_key: tuple[str, ...]) -> None:
    if strategy not in STRATEGIES:
        known = " or ".join(map(repr, STRATEGIES))
        raise UsageError(f"asset {asset}: update_strategy is {known}, not {strategy!r}")
    if strategy == "append" and not unique_key:
        raise UsageError(
            f"asset {asset}: update_strategy 'append' needs a unique_key: "
            "without one, running it twice would double its rows"
        )
    if strategy != "append" and unique_key:
        raise UsageError(f"asset {asset}: unique_key is for update_strategy='append'")


def _check_key(asset: str, key: tuple[str, ...], unique_key: tuple[str, ...]) -> None:
    """Require that the key contains the unique_key: appended rows are checked only by the
    latter.
    """
    if key and not set(unique_key) <= set(key):
        raise UsageError(
            f"asset {asset}: its key ({', '.join(key)}) does not contain all of its unique_key "
            f"({', '.join(unique_key)}), so appended rows may repeat it; "
            "set unique=False if that is allowed"
        )


def asset(  # noqa: PLR0913  one keyword for each property of an asset
    function: Callable[..., Frame] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    unique: bool = True,
    thresholds: Thresholds | str | Mapping[str, object] | None = None,
    evidence: str = "keys",
    tags: Sequence[str] = (),
    meta: Mapping[str, object] | None = None,
    name: str | None = None,
    partitioned_by: Partitioning | None = None,
    approval: Approval | None = None,
    update_strategy: str = "replace",
    unique_key: str | Sequence[str] | None = None,
    publish: str | bool = True,
    publish_rejections: str | None = None,
    split: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
    trace: str | None = None,
    trigger: Trigger = MANUAL,
    retry: RetryPolicy | None = None,
    timeout: str | None = None,
    priority: int = 0,
    pool: str = DEFAULT_POOL,
    max_concurrency: int | None = None,
) -> Asset | Callable[[Callable[..., Frame]], Asset]:
    """Declare a function of Frames as an asset; its parameter names are the inputs."""

    def declare(function: Callable[..., Frame]) -> Asset:
        own = arguments.text("asset", name or getattr(function, "__name__", "asset"))
        if not callable(function):
            raise UsageError(f"asset {own}: expected a function, not {arguments.shown(function)}")
        keys = arguments.names(f"asset {own}: key", key)
        unique_keys = arguments.names(f"asset {own}: unique_key", unique_key)
        labels = arguments.names(f"asset {own}: tags", tags)
        notes = arguments.notes(f"asset {own}: meta", meta)
        if evidence not in tuple(Evidence):
            raise UsageError(f"asset {own}: evidence is 'keys' or 'digest', not {evidence!r}")
        _check_strategy(own, update_strategy, unique_keys)
        _check_key(own, keys if unique else (), unique_keys)
        if trace not in (None, *TRACES):
            raise UsageError(f"asset {own}: trace is 'off' or 'changes', not {trace!r}")
        if not DATASET_NAME.fullmatch(publish if isinstance(publish, str) else own):
            raise UsageError(
                f"asset {own}: {publish if isinstance(publish, str) else own!r} is not a name for "
                "a dataset (lower-case letters, digits and '_'); set publish='another_name'"
            )
        outputs = checked_outputs(f"asset {own}: split", split)
        if outputs and update_strategy == "append":
            raise UsageError(f"asset {own}: split is for update_strategy='replace'")
        if publish_rejections is not None:
            checked_name(arguments.text(f"asset {own}: publish_rejections", publish_rejections))
        return _record(
            Asset(
                name=_checked_name("asset", own),
                function=function,
                inputs=tuple(inspect.signature(function).parameters),
                key=keys,
                unique=unique,
                thresholds=None if thresholds is None else Thresholds.of(thresholds),
                evidence=Evidence(evidence),
                tags=frozenset(labels),
                meta=notes,
                partitioned_by=partitioned_by,
                approval=approval,
                update_strategy=update_strategy,
                unique_key=unique_keys,
                publish=publish,
                publish_rejections=publish_rejections,
                split=outputs,
                trace=trace,
                trigger=checked_trigger(own, trigger, partitioned_by),
                retry=checked_retry(own, retry, timeout),
                priority=checked_priority(own, priority),
                pool=checked_pool(own, pool),
                max_concurrency=checked_concurrency(own, max_concurrency),
            )
        )

    return declare(function) if function is not None else declare
