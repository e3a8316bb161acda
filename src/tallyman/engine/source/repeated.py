"""Repeated keys: inputs with keys that do not distinguish records are read with their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.engine.expressions.column_names import KEY
from tallyman.engine.source.source import Input

LIMIT = "spark.tallyman.countKeysUpTo"
"""The setting for how many records an input may have so that its repeated keys are counted in the
run. Above it they stay unknown. 0 means no limit.
"""
RECORDS = 1_000_000
INPUT = "_tm_input"


@dataclass(frozen=True, slots=True)
class Repeated:
    """The result of counting. `counts`: records with a key that an earlier record of the same input
    has; None if unknown. `shared`: keys that occur in more than one input.
    """

    counts: Mapping[str, int | None] = field(default_factory=dict)
    shared: int = 0

    def placed(self, name: str) -> bool:
        """True if one key may stand for several records that the asset reads."""
        count = self.counts.get(name)
        return count is not None and (count > 0 or self.shared > 0)


def count(inputs: Mapping[str, Input], *, limit: int | None = None) -> Repeated:
    """Count repeated keys with one shuffle, over the inputs that are small enough."""
    if len(inputs) == 1:
        [(name, only)] = inputs.items()
        if only.remembered is not None and only.remembered.repeated is not None:
            return Repeated({name: only.remembered.repeated})
    spark = next(iter(inputs.values())).spark
    most = int(str(spark.conf.get(LIMIT, str(RECORDS)))) if limit is None else limit
    small = {n: source for n, source in inputs.items() if not most or source.at_most() <= most}
    unknown = dict.fromkeys(inputs)
    if not small:
        return Repeated(unknown)
    here = {name: source.keys_here for name, source in small.items()}
    if (read := {name: keys for name, keys in here.items() if keys is not None}) == here:
        return _counted_here(unknown, read)
    sides = [s.keys().selectExpr(KEY, f"{n} AS {INPUT}") for n, s in enumerate(small.values())]
    each = [F.expr(f"count_if({INPUT} = {n}) AS {_of(n)}") for n in range(len(small))]
    by_key = reduce(DataFrame.unionAll, sides).groupBy(KEY).agg(*each)
    found = [f"sum(greatest({_of(n)} - 1, 0)) AS {_of(n)}" for n in range(len(small))]
    # The inputs that have a key, as a number.
    there = " + ".join(f"CAST({_of(n)} > 0 AS INT)" for n in range(len(small)))
    [row] = by_key.selectExpr(*found, f"count_if({there} > 1) AS shared").collect()
    counts = {name: int(row[_of(n)] or 0) for n, name in enumerate(small)}
    return Repeated(unknown | counts, int(row["shared"]))


def _counted_here(
    unknown: Mapping[str, int | None], keys: Mapping[str, Sequence[str | None]]
) -> Repeated:
    apart = {name: set(listed) for name, listed in keys.items()}
    inputs = Counter(key for one in apart.values() for key in one)
    counts = {name: len(listed) - len(apart[name]) for name, listed in keys.items()}
    return Repeated({**unknown, **counts}, sum(n > 1 for n in inputs.values()))


def _of(number: int) -> str:
    return f"_tm_n{number}"
