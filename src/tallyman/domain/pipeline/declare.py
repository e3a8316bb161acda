"""Declare sources, tables, shared datasets and assets: what a pipeline file calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import SAFE_NAME, Frame
from tallyman.domain.pipeline import arguments
from tallyman.domain.pipeline.approval import Approval
from tallyman.domain.pipeline.declarations import record
from tallyman.domain.pipeline.partition import Partitioning
from tallyman.domain.pipeline.pipeline import Asset, SharedDataset, Source, where_of
from tallyman.domain.pipeline.split import (
    checked_outputs,
)
from tallyman.domain.pipeline.threshold import REACTIONS, Thresholds
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
from tallyman.domain.version.table import Table
from tallyman.errors import UsageError

Declared = TypeVar("Declared", Source, Asset, SharedDataset, Table)

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


def _record(item: Declared) -> Declared:
    code = getattr(item.function, "__code__", None) if isinstance(item, Asset) else None
    record(item, where_of(item), (code.co_filename, code.co_firstlineno) if code else None)
    return item


def _checked_name(what: str, name: str) -> str:
    if not SAFE_NAME.fullmatch(arguments.text(what, name)) or name.startswith("."):
        raise UsageError(f"{what} {name!r}: use letters, digits, '.', '_' and '-', at most 64")
    return name


def source(  # noqa: PLR0913  one keyword for each property of a source
    name: str,
    path: str,
    format: str = "json",
    schema: str | None = None,
    key: str | Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    *,
    on_empty: str | None = None,
    on_shrink: str | None = None,
) -> Source:
    """Declare data from outside. A relative path is relative to the project.

    `on_empty` and `on_shrink` are "halt", "warn" or "allow": what a run does if there are no
    records, or less than half of those that the current version was made from.
    """
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
    for word, said in (("on_empty", on_empty), ("on_shrink", on_shrink)):
        if said not in (None, *REACTIONS):
            raise UsageError(f"{what}: {word} is halt, warn or allow, not {said!r}")
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
            on_empty=on_empty,
            on_shrink=on_shrink,
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
