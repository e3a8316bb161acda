"""Random data through random chains of steps: the accounting holds and the output is what Spark gives.

Each chain is one asset. TALLYMAN_SEED picks other chains; the seed and the chain are in every failure.
"""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tallyman.domain.account.ledger_json import of_json
from tallyman.engine.files.duck import quoted
from tallyman.engine.readback.levels import Levels
from tallyman.engine.readback.records import condition
from tallyman.engine.readback.session import DuckSession, parquet, parquet_files
from tests.engine.conftest import AssetFiles, Ran, Workshop, bag, shape
from tests.engine.test_few_rows import by_spark, content_of, ledger_of
from tests.world.scale import FULL, TURN, some

SEED = int(os.environ.get("TALLYMAN_SEED", "20240115"))
CHAINS = 6
SCHEMA = "id string, a int, b string, c int, d array<int>"
REFERENCE = "b string, label string, factor int"
KEY = "plain_key"


@dataclass
class Chain:
    """One random plan, as text for Tallyman and as functions for plain Spark, grown side by side."""

    name: str
    dice: random.Random
    ending: str
    text: list[str] = field(default_factory=list)
    plain: list[Callable[[DataFrame, DataFrame], DataFrame]] = field(default_factory=list)
    ints: list[str] = field(default_factory=lambda: ["a", "c"])
    words: list[str] = field(default_factory=lambda: ["id", "b"])
    copies: int = 1
    looks_around: bool = False
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = "\n        ".join(self.text)
        return f"""
@tm.asset(thresholds=dict(absolute=0, percentage=1))
def {self.name}(src_{self.name}, ref):
    f = (
        src_{self.name}
        {steps}
    )
    return f
"""

    def add(self, text: str, step: Callable[[DataFrame, DataFrame], DataFrame]) -> None:
        self.text.append(text)
        self.plain.append(step)

    def condition(self) -> str:
        number, word = self.dice.choice(self.ints), self.dice.choice(self.words)
        k = self.dice.randint(-2, 6)
        return self.dice.choice(
            [
                f"{number} > {k - 4}",
                f"{number} <> {k}",
                f"{number} IS NOT NULL",
                f"{number} % 5 <> {abs(k) % 5}",
                f"{word} <> 'b{k}'",
                f"{word} IS NOT NULL OR {number} > {k}",
                f"NOT ({word} = 'b1' AND {number} = {k})",
            ]
        )

    # ---- steps ---------------------------------------------------------------------------

    def filter(self) -> None:
        said = self.condition()
        self.add(f'.filter("{said}")', lambda rows, _: rows.where(said))

    def expect(self) -> None:
        said, rule = self.condition(), f"rule{len(self.text)}"
        self.add(f'.expect("{rule}", "{said}")', lambda rows, _: rows.where(said))

    def compute(self) -> None:
        number, k = self.dice.choice(self.ints), self.dice.randint(1, 5)
        name = self.dice.choice([f"n{len(self.text)}", number])
        self.add(
            f'.withColumn("{name}", "coalesce({number}, {k}) * {k} % 97")',
            lambda rows, _: rows.withColumn(name, F.expr(f"coalesce({number}, {k}) * {k} % 97")),
        )
        self.ints = list(dict.fromkeys([*self.ints, name]))

    def spell(self) -> None:
        word = self.dice.choice(self.words)
        self.add(
            f'.withColumn("{word}", F.concat_ws("~", "{word}", F.lit("!")))',
            lambda rows, _: rows.withColumn(word, F.concat_ws("~", word, F.lit("!"))),
        )

    def rename(self) -> None:
        names = self.dice.choice([self.ints, self.words])
        old, new = self.dice.choice(names), f"r{len(self.text)}"
        self.add(
            f'.withColumnRenamed("{old}", "{new}")',
            lambda rows, _: rows.withColumnRenamed(old, new),
        )
        names[names.index(old)] = new

    def select(self) -> None:
        kept = self.dice.sample(self.ints, self.dice.randint(1, len(self.ints)))
        words = self.dice.sample(self.words, self.dice.randint(1, len(self.words)))
        names = [*words, *kept, "d"]
        shown = ", ".join(json.dumps(n) for n in names)
        self.add(f".select({shown})", lambda rows, _: rows.select(*names, KEY))
        self.ints, self.words = kept, words

    def look_up(self) -> None:
        word, n = self.words[-1], len(self.text)
        how = self.dice.choice(["error", "filter", "keep"])
        side = "left" if how == "keep" else "inner"
        self.add(
            f'.join(ref.filter("factor > 0").select("b AS k{n}", "factor AS f{n}"), "{word} = k{n}", '
            f'how="{side}", unmatched="{how}")',
            lambda rows, ref: rows.join(
                ref.where("factor > 0").selectExpr(f"b AS k{n}", f"factor AS f{n}"),
                F.expr(f"{word} = k{n}"),
                side,
            ),
        )
        self.ints, self.words = [*self.ints, f"f{n}"], [*self.words, f"k{n}"]

    def unite(self) -> None:
        if self.copies > 1 or self.looks_around:
            return
        said = self.condition()
        before = "\n        ".join(self.text)
        self.text = [before, f'.unionByName(src_{self.name}{before}.filter("{said}"))']
        self.plain.append(lambda rows, _: rows.unionByName(rows.where(said)))
        self.copies = 2

    def rank(self) -> None:
        word, name = self.dice.choice(self.words), f"w{len(self.text)}"
        said = f"count(*) OVER (PARTITION BY {word})"
        self.add(
            f'.withColumn("{name}", "cast({said} AS int)")',
            lambda rows, _: rows.withColumn(name, F.expr(f"cast({said} AS int)")),
        )
        self.ints, self.looks_around = [*self.ints, name], True

    def unrepeat(self) -> None:
        names = [self.dice.choice(self.words), self.dice.choice(self.ints)]
        nth = f"row_number() OVER (PARTITION BY {', '.join(names)} ORDER BY {KEY})"
        self.add(
            f".dropDuplicates({names})",
            lambda rows, _: rows.withColumn("nth", F.expr(nth)).where("nth = 1").drop("nth"),
        )

    # ---- endings -------------------------------------------------------------------------

    def group(self) -> None:
        by = self.dice.sample([*self.words, *self.ints], self.dice.randint(1, 2))
        rest = [n for n in self.ints if n not in by] or self.ints
        self.by = tuple(by)
        number, word = self.dice.choice(rest), self.dice.choice(self.words)
        shown = ", ".join(json.dumps(n) for n in by)
        self.add(
            f'.groupBy({shown}).agg(agg_n="count(*)", agg_s="sum({number})", agg_m="max({word})")',
            lambda rows, _: rows.groupBy(*by).agg(
                F.count("*").alias("agg_n"),
                F.sum(number).alias("agg_s"),
                F.max(word).alias("agg_m"),
            ),
        )

    def having(self) -> None:
        self.add('.filter("agg_n > 1")', lambda rows, _: rows.where("agg_n > 1"))
        self.add('.expect("odd", "agg_n <> 4")', lambda rows, _: rows.where("agg_n <> 4"))

    def explode(self) -> None:
        self.add(
            '.explode("d", "e").filter("e <> 2")',
            lambda rows, _: rows.withColumn("e", F.explode("d")).where("e <> 2"),
        )
        self.ints.append("e")

    def expand(self) -> None:
        word, outer = self.words[-1], self.dice.choice([True, False])
        how = "left" if outer else "inner"
        said = f'how="{how}", unmatched="{"keep" if outer else "error"}"'
        self.add(
            f'.join(ref.select("b AS kx", "label"), "{word} = kx", {said}, fanout="expand")',
            lambda rows, ref: rows.join(
                ref.selectExpr("b AS kx", "label"), F.expr(f"{word} = kx"), how
            ),
        )
        self.words += ["kx", "label"]

    def grown(self) -> "Chain":
        verbs = [self.filter, self.expect, self.compute, self.spell, self.rename, self.select]
        verbs += [self.look_up, self.unite, self.rank, self.unrepeat]
        weights = [4, 4, 3, 2, 2, 2, 4, 2, 1, 2]
        for verb in self.dice.choices(verbs, weights, k=self.dice.randint(5, 7)):
            verb()
        if self.ending == "expand" and self.copies > 1:
            self.ending = "pass"
        endings = {
            "pass": [],
            "group": [self.group],
            "having": [self.group, self.having],
            "explode": [self.explode],
            "explode+group": [self.explode, self.group],
            "expand": [self.expand],
        }
        for verb in endings[self.ending]:
            verb()
        return self

    def output(self, rows: DataFrame, reference: DataFrame) -> DataFrame:
        for step in self.plain:
            rows = step(rows, reference)
        return rows.drop(KEY)


ENDINGS = ["pass", "group", "having", "explode", "explode+group", "expand"]


def _chains() -> list[Chain]:
    return [
        Chain(f"chain_{i}", random.Random(SEED * 1000 + i), ENDINGS[i % len(ENDINGS)]).grown()
        for i in range(CHAINS)
    ]


def _records(dice: random.Random) -> list[dict[str, Any]]:
    """Some without an id, some with a value that does not fit (those are errors at the door)."""
    return [
        {
            "id": None if dice.random() < 0.1 else f"i{i:03d}",
            "a": "wrong" if dice.random() < 0.05 else dice.choice([None, *range(-3, 9)]),
            "b": dice.choice([None, *(f"b{n}" for n in range(7))]),
            "c": dice.choice([None, 0, 1, 2, 5]),
            "d": dice.choice([None, [], [1], [2, 3], [4, None, 2], [2]]),
        }
        for i in range(90)
    ]


RECORDS = _records(random.Random(SEED))
GROUPED = [chain for chain in _chains() if chain.ending in ("group", "having")]
OTHERS = [chain for chain in _chains() if chain.ending not in ("group", "having")]
CHAIN = {chain.name: chain for chain in [*some(GROUPED, 1), *some(OTHERS, 2)]}
PIPELINE = (
    f'tm.source("ref", "data/ref.csv", format="csv", schema="{REFERENCE}", key="label")\n'
    + "".join(
        f'tm.source("src_{n}", "data/{n}/in.json", schema="{SCHEMA}", key="id")\n' for n in CHAIN
    )
    + "".join(map(str, CHAIN.values()))
)
LABELS = ["b0,x,1", "b1,y,2", "b2,z,3", "b1,w,0", "b4,v,5", "b6,u,1", "b1,t,-1", "b0,s,0", "b9,r,1"]


def _key(number: int) -> str:
    return RECORDS[number]["id"] or f"@in.json#{number + 1}"


KEYS = Counter(_key(i) for i in range(len(RECORDS)))


def _project(
    workshop: Callable[..., Workshop], wanted: dict[str, set[str]] | None = None
) -> Workshop:
    """All records to every chain, or only those wanted; the others' lines are left blank, so that
    a record without a key keeps its number. In the full form once as Spark compiles
    it, once as it interprets it."""
    made = (
        workshop(interpreted=not FULL or wanted is not None)
        .pipeline(PIPELINE)
        .lines("ref.csv", ["b,label,factor", *LABELS])
    )
    for name in CHAIN:
        chosen = KEYS if wanted is None else wanted.get(name, set())
        lines = [r if _key(i) in chosen else "" for i, r in enumerate(RECORDS)]
        made.lines(f"{name}/in.json", lines)
    return made


@pytest.fixture(scope="module")
def ran(workshop: Callable[..., Workshop]) -> Ran:
    return _project(workshop).run()


@pytest.fixture(scope="module")
def plain(ran: Ran, spark: SparkSession) -> dict[str, DataFrame]:
    sound = [(i, r) for i, r in enumerate(RECORDS) if r["a"] != "wrong"]
    rows = [(r["id"], r["a"], r["b"], r["c"], r["d"], _key(i)) for i, r in sound]
    given = spark.createDataFrame(rows, f"{SCHEMA}, {KEY} string")
    reference = spark.createDataFrame(
        [(b, label, int(f)) for b, label, f in (line.split(",") for line in LABELS)], REFERENCE
    )
    return {name: chain.output(given, reference) for name, chain in CHAIN.items()}


@pytest.fixture(params=list(CHAIN))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _told(name: str) -> str:
    return f"TALLYMAN_SEED={SEED} TALLYMAN_TURN={TURN}{CHAIN[name]}"


def test_every_record_meets_exactly_one_fate(ran: Ran, name: str) -> None:
    assert ran.asset(name).error is None, (ran.asset(name).error, _told(name))
    files = ran[name]
    assert files.balanced, _told(name)
    assert files.accounted() == Counter(dict.fromkeys(KEYS, CHAIN[name].copies)), _told(name)
    assert all(sub["unaccounted"] == 0 for sub in files.subs), _told(name)


def test_the_output_is_what_spark_gives(ran: Ran, plain: dict[str, DataFrame], name: str) -> None:
    found = ran.read(name)
    assert shape(found) == shape(plain[name]), _told(name)
    assert bag(found) == bag(plain[name]), _told(name)


def test_the_compiled_form_alone_gives_the_same_and_few_rows_are_written_as_spark_writes_many(
    ran: Ran, workshop: Callable[..., Workshop]
) -> None:
    document = ran.project.compiled()
    alone = _project(workshop, {name: set(KEYS) for name in CHAIN}).compiled(document)
    with pytest.MonkeyPatch.context() as patch:
        by_spark(patch)
        many = alone.run()
    assert many.project.compiled() == document, f"TALLYMAN_SEED={SEED}"
    for name in CHAIN:
        assert ledger_of(ran[name]) == ledger_of(many[name]), _told(name)
        assert content_of(ran[name].folder) == content_of(many[name].folder), _told(name)


# ---- backward -------------------------------------------------------------------------------


def _rows_with_sources(chain: Chain, files: AssetFiles) -> list[tuple[dict[str, Any], set[str]]]:
    """Rows of the output, each with the keys of the records the evidence puts behind it."""
    rows = [dict(zip(*pair, strict=True)) for pair in _named_rows(files)]
    for row in rows:
        row["keys"] = {row.pop("own_key")}
    if chain.by:
        groups: dict[str, set[str]] = {}
        location = _location(files, "AGGREGATED")
        for group, key in files.query(location, "SELECT group_key, source_key FROM found"):
            groups.setdefault(repr(group), set()).add(key)
        for row in rows:
            row["keys"] = groups[repr({n: row[n] for n in chain.by})]
    if chain.ending.startswith(("explode", "expand")):
        location = _location(files, "EXPLODED")
        parents = dict(files.query(location, "SELECT child_key, parent_key FROM found"))
        for row in rows:
            row["keys"] = {parents[key] for key in row["keys"]}
    return [(row, row.pop("keys")) for row in rows]


def _location(files: AssetFiles, kind: str) -> str:
    levels = [files.partitions, *(sub["partitions"] for sub in files.subs)]
    [found] = [p for level in levels for p in level if p["partition_type"] == kind]
    return str(found["adjoint_location"])


def _named_rows(files: AssetFiles) -> list[tuple[list[str], tuple[Any, ...]]]:
    names = [row[0] for row in files.query("output", "SELECT column_name FROM (DESCRIBE found)")]
    levels = [files.partitions, *(sub["partitions"] for sub in files.subs)]
    [passed] = [p for level in levels for p in level if p["partition_type"] == "PASS_THROUGH"]
    kinds = dict(files.query("output", "SELECT column_name, column_type FROM (DESCRIBE found)"))
    keyed = kinds.get("_tm", "").startswith(('STRUCT("key"', "STRUCT(key"))
    own = ["_tm.key"] if keyed else ["NULL"]
    own += [f'CAST("{c}" AS VARCHAR)' for c in passed.get("key_columns", [])]
    shown = [n for n in names if n != "_tm"]
    listed = ", ".join(f'"{n}"' for n in shown)
    rows = files.query("output", f"SELECT {listed}, coalesce({', '.join(own)}) FROM found")
    return [([*shown, "own_key"], row) for row in rows]


def _canonical(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def _behind(files: AssetFiles, wanted: dict[str, str | None]) -> list[str]:
    with DuckSession() as duck:
        output = parquet(parquet_files(files.folder / "output"))
        types = duck.columns(f"SELECT * FROM {output}")
        where = condition(types, wanted, {name: quoted(name) for name in wanted})
        rows = duck.keep(f"SELECT * FROM {output} WHERE {where}")
        keys, _ = Levels(duck, files.folder, of_json(files.ledger)).behind(rows)
        return [row["k"] for row in duck.rows(f"SELECT k FROM {keys}")]


def test_backward_from_a_group_finds_the_record_that_went_forward(ran: Ran) -> None:
    tried = 0
    for name, chain in CHAIN.items():
        if chain.ending not in ("group", "having"):
            continue
        for row, keys in _rows_with_sources(chain, ran[name])[:3]:
            wanted = {n: None if row[n] is None else str(row[n]) for n in chain.by}
            found = _behind(ran[name], wanted)
            assert set(found) == keys, _told(name)
            assert row["agg_n"] == len(found), _told(name)
            tried += 1
    assert tried, f"no chain ends in a group; TALLYMAN_SEED={SEED}"


def test_the_sources_of_a_row_alone_give_that_row_again(
    ran: Ran, workshop: Callable[..., Workshop]
) -> None:
    chosen: dict[str, tuple[dict[str, Any], set[str]]] = {}
    for name, chain in CHAIN.items():
        # What looks around sees fewer neighbours the second time.
        rows = [] if chain.looks_around else _rows_with_sources(chain, ran[name])
        if rows:
            rows.sort(key=lambda pair: _canonical(pair[0]))
            chosen[name] = chain.dice.choice(rows)
    assert len(chosen) >= len(CHAIN) // 2, f"too few chains left to try; TALLYMAN_SEED={SEED}"
    again = _project(workshop, {name: keys for name, (_, keys) in chosen.items()}).run(*chosen)
    for name, (row, keys) in chosen.items():
        assert set(again[name].accounted()) == keys, _told(name)
        found = [_canonical(r) for r, _ in _rows_with_sources(CHAIN[name], again[name])]
        assert _canonical(row) in found, _told(name)
