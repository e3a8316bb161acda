"""Sources, assets, and the pipeline they form. Declaring one only records it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from tallyman.domain.approval import Approval
from tallyman.domain.fate import Evidence
from tallyman.domain.frame import SAFE_NAME, Frame
from tallyman.domain.partition import Partitioning
from tallyman.domain.threshold import Thresholds
from tallyman.errors import DefinitionError, Problem, UsageError

Declared = TypeVar("Declared", "Source", "Asset")

FORMATS = ("json", "csv", "parquet")


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
class Asset:
    """A named function of its inputs, made of steps."""

    name: str
    function: Callable[..., Frame]
    inputs: tuple[str, ...]
    key: tuple[str, ...] = ()
    thresholds: Thresholds | None = None
    evidence: Evidence = Evidence.KEYS
    tags: frozenset[str] = frozenset()
    partitioned_by: Partitioning | None = None
    approval: Approval | None = None

    def plan(self) -> Frame:
        """Call the function on empty Frames: the steps it takes."""
        return self.function(*(Frame(name) for name in self.inputs))

    def __call__(self, *frames: Frame) -> Frame:
        return self.function(*frames)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Sources and assets wired into a DAG by the names of their inputs."""

    sources: Mapping[str, Source]
    assets: Mapping[str, Asset]

    @classmethod
    def of(cls, declared: Sequence[Source | Asset]) -> Pipeline:
        """Or DefinitionError with every duplicate name, unknown input and cycle."""
        problems: list[Problem] = []
        seen: dict[str, Source | Asset] = {}
        for item in declared:
            if item.name in seen:
                problems.append(Problem(_where(item), f"the name {item.name!r} is declared twice"))
            seen[item.name] = item
        assets = {name: item for name, item in seen.items() if isinstance(item, Asset)}
        sources = {name: item for name, item in seen.items() if isinstance(item, Source)}
        for item in assets.values():
            for name in item.inputs:
                if name not in seen:
                    near = difflib.get_close_matches(name, list(seen), 1)
                    problems.append(
                        Problem(_where(item), f"unknown input {name!r}", near[0] if near else None)
                    )
        problems += _cycles(assets)
        if problems:
            raise DefinitionError(problems)
        return cls(sources, assets)

    def order(self) -> list[str]:
        """Assets with every asset after those it reads."""
        graph = {a.name: [i for i in a.inputs if i in self.assets] for a in self.assets.values()}
        return list(TopologicalSorter(graph).static_order())


def _cycles(assets: Mapping[str, Asset]) -> list[Problem]:
    """One for each cycle, in the direction of the data: in `a → b`, b reads a."""
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
            # Cut where it closes; what is still a cycle then is another one.
            graph[path[0]].remove(path[-2])
        else:
            return problems


def _where(item: Source | Asset) -> str:
    return f"{'asset' if isinstance(item, Asset) else 'source'} {item.name}"


_declared: ContextVar[list[Source | Asset] | None] = ContextVar("declared", default=None)


@contextmanager
def declaring() -> Iterator[list[Source | Asset]]:
    """Collect what is declared inside the block, in order."""
    collected: list[Source | Asset] = []
    token = _declared.set(collected)
    try:
        yield collected
    finally:
        _declared.reset(token)


def _record(item: Declared) -> Declared:
    if (declared := _declared.get()) is not None:
        declared.append(item)
    return item


def _names(key: str | Sequence[str] | None) -> tuple[str, ...]:
    if key is None:
        return ()
    return (key,) if isinstance(key, str) else tuple(key)


def _checked_name(what: str, name: str) -> str:
    if not SAFE_NAME.fullmatch(name) or name.startswith("."):
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
    if format not in FORMATS:
        raise UsageError(f"source {name}: format is one of {', '.join(FORMATS)}, not {format!r}")
    if schema is None and format != "parquet":
        raise UsageError(f"source {name}: format {format!r} needs a schema")
    texts = {
        k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in (options or {}).items()
    }
    if texts.get("multiLine", "false") == "true":
        raise UsageError(f"source {name}: multiLine is not supported: one record is one line")
    return _record(
        Source(
            name=_checked_name("source", name),
            path=path,
            format=format,
            schema=schema,
            key=_names(key),
            options=texts,
        )
    )


def asset(  # noqa: PLR0913  one keyword for each thing an asset may say
    function: Callable[..., Frame] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    thresholds: Thresholds | str | Mapping[str, object] | None = None,
    evidence: str = "keys",
    tags: Sequence[str] = (),
    name: str | None = None,
    partitioned_by: Partitioning | None = None,
    approval: Approval | None = None,
) -> Asset | Callable[[Callable[..., Frame]], Asset]:
    """Declare a function of Frames as an asset: its parameter names are the inputs."""

    def declare(function: Callable[..., Frame]) -> Asset:
        own = name or getattr(function, "__name__", "asset")
        if evidence not in tuple(Evidence):
            raise UsageError(f"asset {own}: evidence is 'keys' or 'digest', not {evidence!r}")
        return _record(
            Asset(
                name=_checked_name("asset", own),
                function=function,
                inputs=tuple(inspect.signature(function).parameters),
                key=_names(key),
                thresholds=None if thresholds is None else Thresholds.of(thresholds),
                evidence=Evidence(evidence),
                tags=frozenset(tags),
                partitioned_by=partitioned_by,
                approval=approval,
            )
        )

    return declare(function) if function is not None else declare
