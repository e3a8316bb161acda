"""Random steps on a working set: each as text for Tallyman, and as plain Spark, side by side.

A plain step knows nothing of the engine. It is given rows with a column `rid`, which says which row
is which, and hands it on; rows it adds have none yet.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.trace.plain_steps import RID, assign, with_rows

LOADED = {
    "id": "str",
    "n": "int",
    "d": "dec",
    "s": "str",
    "t": "date",
    "ts": "ts",
    "b": "bool",
    "x": "dbl",
    "a": "arr",
}
Plain = Callable[[DataFrame, dict[str, DataFrame]], DataFrame]


@dataclass
class Planned:
    text: str
    plain: Plain
    renamed: dict[str, str] = field(default_factory=dict)


@dataclass
class Steps:
    """A chain in the making. `kinds` are the columns there are now."""

    name: str
    dice: random.Random
    planned: list[Planned] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=lambda: dict(LOADED))

    def __str__(self) -> str:
        lines = "\n        ".join(step.text for step in self.planned)
        return (
            f'\n@tm.asset(trace="changes", thresholds=dict(absolute=0, percentage=1))\n'
            f"def {self.name}(src, ref, more):\n    return (\n        src\n        {lines}\n    )\n"
        )

    def add(self, text: str, plain: Plain, renamed: dict[str, str] | None = None) -> None:
        self.planned.append(Planned(text, plain, renamed or {}))

    # ---- what expressions are made of ----------------------------------------------------

    def a(self, *kinds: str) -> str | None:
        found = [name for name, kind in self.kinds.items() if kind in kinds]
        return self.dice.choice(found) if found else None

    def new(self) -> str:
        return f"c{len(self.planned)}_{self.dice.randint(0, 9)}"

    def condition(self, *, plain: bool = False) -> str:
        name = self.dice.choice(list(self.kinds))
        k = self.dice.randint(0, 6)
        said = {
            "int": [f"{name} > {k}", f"{name} % 3 = 1", f"{name} IS NULL", f"{name} <> {k}"],
            "dec": [f"{name} > 10.5", f"{name} IS NOT NULL", f"{name} < 0"],
            "str": [f"{name} = 's{k}'", f"{name} LIKE '%1%'", f"{name} IS NULL"],
            "date": [f"{name} < DATE'2026-03-01'", f"day({name}) > {k}"],
            "ts": [f"{name} > TIMESTAMP'2026-01-01 00:00:00'", f"{name} IS NULL"],
            "bool": [name, f"NOT {name}", f"{name} IS NULL"],
            "dbl": [f"{name} > 0", f"isnan({name})", f"{name} = 0"],
            "arr": [f"size({name}) > 1", f"array_contains({name}, 2)", f"{name} IS NULL"],
        }[self.kinds[name]]
        first = self.dice.choice(said)
        if not plain and self.dice.random() < 0.3:
            return f"({first}) {self.dice.choice(['AND', 'OR'])} ({self.condition(plain=True)})"
        return first

    def value(self, name: str, kind: str) -> str:
        """Of the same kind; often NULL, often what was there."""
        k = self.dice.randint(1, 6)
        said = {
            "int": [f"coalesce({name}, {k}) * {k} % 97", f"{name} + 0", f"{k}"],
            "dec": [f"{name} * 1.1", f"{name} * 1.000", f"-{name}", f"{name} + 0.01"],
            "str": [f"concat({name}, '!')", f"upper({name})", f"lower({name})", f"'s{k}'"],
            "date": [f"date_add({name}, {k})", f"{name}", "DATE'2026-02-28'"],
            "ts": [f"{name} + INTERVAL '0.000001' SECOND", f"{name}"],
            "bool": [f"NOT {name}", f"({self.condition(plain=True)})", "true"],
            "dbl": [f"{name} * 2", f"-{name}", "double('NaN')", f"{name} + 0.1"],
            "arr": [f"reverse({name})", f"array_append({name}, {k})", "array(1, NULL)", name],
        }[kind]
        said += ["NULL", f"CASE WHEN {self.condition(plain=True)} THEN {said[0]} END"]
        return self.dice.choice(said)

    # ---- changes in place ----------------------------------------------------------------

    def update(self) -> None:
        where = self.condition() if self.dice.random() < 0.6 else None
        names = self.dice.sample(list(self.kinds), self.dice.randint(1, 3))
        given = {name: self.value(name, self.kinds[name]) for name in names}
        key = self.a("str")
        if key and self.dice.random() < 0.4:
            self._update_looked_up(given, where, key)
            return
        if self.dice.random() < 0.3:
            given[added := self.new()] = "n + 1" if "n" in self.kinds else "7"
            self.kinds[added] = "int"
        self.add(f".update({given!r}, where={where!r})", lambda rows, _: assign(rows, given, where))

    def _update_looked_up(self, given: dict[str, str], where: str | None, key: str) -> None:
        if number := self.a("int"):
            given[number] = f"coalesce(fx.f, {number})"
        given[added := self.new()] = "fx.w * 2"
        self.kinds[added] = "dec"
        if self.dice.random() < 0.3:
            where = "fx.f > 2"

        def plain(rows: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
            ref = tables["ref"]
            beside = ref.select(F.struct(*ref.columns).alias("fx"))
            found = rows.join(beside, F.col(key) == F.col("fx.k"), "left")
            return assign(found, given, where).drop("fx")

        self.add(
            f'.update({given!r}, where={where!r}, join={{"fx": (ref, "{key} = fx.k")}})', plain
        )

    def delete(self) -> None:
        where = self.condition()
        self.add(f".delete({where!r})", lambda rows, _: rows.where(f"NOT coalesce({where}, false)"))

    def aggregate(self) -> None:
        names = [n for n, kind in self.kinds.items() if kind not in ("arr", "ts")]
        by = self.dice.sample(names, min(len(names), self.dice.randint(1, 2)))
        rest = [n for n in self.kinds if n not in by]
        made = {self.new(): "count(*)"}
        if rest:
            again = self.dice.choice(rest)
            made[again] = f"max({again})"
        where = self.condition() if self.dice.random() < 0.5 else None
        shown = ", ".join(f"{n}={e!r}" for n, e in made.items())

        def plain(rows: DataFrame, _: dict[str, DataFrame]) -> DataFrame:
            matched = rows.where(where) if where else rows
            groups = matched.groupBy(*by).agg(*(F.expr(e).alias(n) for n, e in made.items()))
            return with_rows(rows, groups)

        self.add(f".aggregate({by!r}, where={where!r}, {shown})", plain)
        self.kinds |= {n: "int" for n in made if n not in self.kinds}

    # ---- rows that are added -------------------------------------------------------------

    def append(self) -> None:
        word, number, amount = self.a("str"), self.a("int"), self.a("dec")
        if word is None:
            return
        taken = (
            {"pid": word} | ({"m": number} if number else {}) | ({"e": amount} if amount else {})
        )
        shown = [f"{old} AS {new}" for old, new in taken.items()]
        where = f"{word} <> 'p3'" if self.dice.random() < 0.5 else None

        def plain(rows: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
            added = tables["more"].selectExpr(*shown)
            return with_rows(rows, added.where(where) if where else added)

        self.add(f".append(more.select({', '.join(map(repr, shown))}), where={where!r})", plain)

    def append_groups(self) -> None:
        word, number = self.a("str"), self.a("int")
        if word is None or number is None:
            return
        made = {"by": [word], "set": {number: "sum(m)"}}

        def plain(rows: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
            groups = tables["more"].groupBy(F.col("g").alias(word)).agg(F.sum("m").alias(number))
            return with_rows(rows, groups)

        self.add(f'.append(more.select("g AS {word}", "m"), aggregate={made!r})', plain)

    # ---- columns -------------------------------------------------------------------------

    def compute(self) -> None:
        old = self.dice.choice(list(self.kinds))
        name = self.dice.choice([old, self.new()])
        said = self.value(old, self.kinds[old])
        said = f"{old}" if said == "NULL" else said
        self.kinds[name] = self.kinds[old]
        self.add(
            f".withColumn({name!r}, {said!r})",
            lambda rows, _: rows.withColumn(name, F.expr(said)),
        )

    def retype(self) -> None:
        name = self.dice.choice(list(self.kinds))
        said, kind = self.dice.choice(
            {
                "int": [(f"cast({name} AS string)", "str"), (f"cast({name} AS bigint)", "int")],
                "dec": [(f"cast({name} AS double)", "dbl"), (f"cast({name} AS string)", "str")],
                "str": [(f"length({name})", "int"), (f"{name} IS NULL", "bool")],
                "date": [(f"cast({name} AS string)", "str"), (f"day({name})", "int")],
                "ts": [(f"cast({name} AS date)", "date"), (f"cast({name} AS string)", "str")],
                "bool": [(f"cast({name} AS string)", "str"), (f"cast({name} AS int)", "int")],
                "dbl": [(f"cast({name} AS string)", "str"), (f"{name} > 1", "bool")],
                "arr": [(f"size({name})", "int"), (f"cast({name} AS array<string>)", "arr")],
            }[self.kinds[name]]
        )
        if said.endswith("array<string>)"):
            return
        self.kinds[name] = kind
        self.add(
            f".withColumns({{{name!r}: {said!r}}})",
            lambda rows, _: rows.withColumn(name, F.expr(said)),
        )

    def rename(self) -> None:
        old, new = self.dice.choice(list(self.kinds)), self.new()
        self.kinds = {new if n == old else n: kind for n, kind in self.kinds.items()}
        self.add(
            f".withColumnRenamed({old!r}, {new!r})",
            lambda rows, _: rows.withColumnRenamed(old, new),
            {old: new},
        )

    def drop(self) -> None:
        name = self.dice.choice(list(self.kinds))
        if len(self.kinds) > 3:
            del self.kinds[name]
            self.add(f".drop({name!r})", lambda rows, _: rows.drop(name))

    def select(self) -> None:
        kept = self.dice.sample(list(self.kinds), max(3, len(self.kinds) - 2))
        old = self.dice.choice(list(self.kinds))
        name = self.new() if self.dice.random() < 0.7 or old in kept else old
        shown = [*kept, f"{self.value(old, self.kinds[old])} AS {name}"]
        if shown[-1].startswith("NULL"):
            shown[-1] = f"{old} AS {name}"
        self.kinds = {n: self.kinds[n] for n in kept} | {name: self.kinds[old]}
        self.add(
            f".select({', '.join(map(repr, shown))})",
            lambda rows, _: rows.selectExpr(*shown, RID),
        )

    # ---- rows that end -------------------------------------------------------------------

    def filter(self) -> None:
        said = self.condition()
        self.add(f".filter({said!r})", lambda rows, _: rows.where(said))

    def expect(self) -> None:
        said = self.condition()
        self.add(f".expect('rule{len(self.planned)}', {said!r})", lambda rows, _: rows.where(said))

    def join(self) -> None:
        key = self.a("str")
        if key is None:
            return
        n = len(self.planned)
        how = self.dice.choice(["error", "filter", "keep", "keep"])
        side = "left" if how == "keep" else "inner"
        names = [f"k AS k{n}", f"f AS f{n}", f"w AS w{n}"]
        self.add(
            f'.join(ref.select({", ".join(map(repr, names))}), "{key} = k{n}", how="{side}", '
            f'unmatched="{how}")',
            lambda rows, tables: rows.join(
                tables["ref"].selectExpr(*names), F.expr(f"{key} = k{n}"), side
            ),
        )
        self.kinds |= {f"k{n}": "str", f"f{n}": "int", f"w{n}": "dec"}

    def output(self) -> None:
        self.add(f".output('exports/{self.name}_{len(self.planned)}')", lambda rows, _: rows)

    def grown(self) -> Steps:
        verbs: list[tuple[Callable[[], None], int]] = [
            *((self.update, 6), (self.delete, 2), (self.aggregate, 2), (self.append, 1)),
            *((self.append_groups, 1), (self.compute, 3), (self.retype, 2), (self.rename, 2)),
            *((self.drop, 1), (self.select, 1), (self.filter, 1), (self.expect, 1)),
            *((self.join, 1), (self.output, 1)),
        ]
        count = self.dice.randint(6, 10)
        for verb in self.dice.choices(*zip(*verbs, strict=True), k=count):
            verb()
        self.add(
            f".output('exports/{self.name}', include_deleted=True, name='last')",
            lambda rows, _: rows,
        )
        return self
