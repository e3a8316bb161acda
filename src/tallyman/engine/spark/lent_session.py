"""A running Spark session with other settings for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tallyman.engine.spark.environment import without_secrets

NOT_SET = "not set"


@contextmanager
def lent(
    session: SparkSession, wanted: Mapping[str, str], usual: Mapping[str, str]
) -> Iterator[list[str]]:
    """Apply `wanted` in place of `usual`, and restore afterwards; yield what could not be set."""
    before: dict[str, str | None] = {}
    refused: list[str] = []
    try:
        for name in sorted({*wanted, *usual}):
            there, value = session.conf.get(name, None), wanted.get(name)
            if value == there:
                continue
            if _at_runtime(name) and _set(session, name, value):
                before[name] = there
            else:
                refused.append(f"{name}: {_shown(name, value)} then, {_shown(name, there)} now")
        yield refused
    finally:
        for name, there in before.items():
            _set(session, name, there)


def forget(session: SparkSession, names: Iterable[str]) -> None:
    """Reset settings to Spark's defaults, where they can be changed at all."""
    for name in names:
        _set(session, name, None)


def _at_runtime(name: str) -> bool:
    """True if the setting works at runtime. Spark accepts the others later, but ignores them."""
    return name.startswith("spark.sql.") or not name.startswith("spark.")


def _set(session: SparkSession, name: str, value: str | None) -> bool:
    try:
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)
    except PySparkException:
        return False
    return True


def _shown(name: str, value: str | None) -> str:
    return NOT_SET if value is None else str(without_secrets({name: value})[name])
