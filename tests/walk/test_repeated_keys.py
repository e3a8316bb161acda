"""Keys that repeat, and keys with NULL in them: `why` and `where` name exactly the records.

An oracle in plain Python says, for every row of every dataset, which lines it was made from, and
for every line, what became of it.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallyman as tm
from tallyman.domain.history.walk import Became, Hop
from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

tm.source("js", path="data/js", format="json", key="k",
          schema="k string, u int, g int, v int, items array<string>")
tm.source("same", path="data/js", format="json", key="k",
          schema="k string, u int, g int, v int, items array<string>")
tm.source("comp", path="data/comp.csv", format="csv", key=["a", "b"],
          schema="a string, b int, u int, v int")
tm.source("keyed", path="data/keyed", format="parquet", key="id",
          schema="id bigint, u int, v int")
tm.source("nulls", path="data/nulls.parquet", format="parquet", key="id",
          schema="id bigint, u int, v int")
tm.source("cities", path="data/cities.csv", format="csv", schema="g int, city string", key="city")
ANY = dict(thresholds=dict(absolute=0, percentage=1))


@tm.asset(**ANY)
def kept(js):
    return js.expect("positive", "v > 0", name="positive").filter("v <> 7", name="sevens")


@tm.asset(key="g")
def of_kept(kept):
    return kept.groupBy("g").agg(n="count(*)", name="grouped")


@tm.asset(key="g", **ANY)
def by_g(js):
    return (js.filter("v <> 7", name="sevens").groupBy("g").agg(n="count(*)", name="grouped")
            .expect("few", "n < 3", name="few"))


@tm.asset(key="g", evidence="digest", **ANY)
def by_g_digest(same):
    return same.filter("v <> 7", name="sevens").groupBy("g").agg(n="count(*)", name="grouped")


@tm.asset(**ANY)
def exploded(js):
    return (js.select("u", "v", "items").explode("items", "item", name="items").drop("items")
            .filter("item <> 'x'", name="no_x"))


@tm.asset(**ANY)
def expanded(js, cities):
    joined = js.select("u", "v", "g").join(
        cities, "g", fanout="expand", unmatched="filter", name="met")
    return joined.filter("city <> 'Rome'", name="no_rome")


@tm.asset
def comp_all(comp):
    return comp.filter("v <> 7", name="sevens")


@tm.asset
def comp_first(comp):
    return comp.dropDuplicates(["v"], name="first")


@tm.asset(trace="off")
def comp_set(comp):
    return comp.aggregate(["a", "b"], n="count(*)", name="added").delete("v = 7", name="sevens")


@tm.asset(**ANY)
def both(js, keyed):
    left = js.select("k", "u", "v").filter("v <> 7", name="left_sevens")
    return left.union(keyed.select("CAST(id AS string) AS k", "u", "v"))


@tm.asset
def passed(keyed):
    return keyed.filter("v <> 7", name="sevens")


@tm.asset(trace="off")
def null_set(nulls):
    return (nulls.update({"v": "v + 1"}, where="u > 1", name="more").delete("v = 7", name="sevens")
            .aggregate(["v"], n="count(*)", name="added"))


@tm.asset
def uncounted(comp):
    return comp.filter("v <> 7", name="sevens")
"""

JS = {
    "a.jsonl": [
        {"k": "dup", "u": 1, "g": 1, "v": 5, "items": ["p", "q"]},
        {"k": "dup", "u": 2, "g": 2, "v": 5, "items": ["p"]},
        {"k": "dup", "u": 3, "g": 1, "v": -1, "items": ["p"]},
        {"k": "dup", "u": 4, "g": 2, "v": 7, "items": []},
        None,  # a blank line: records after it stand one line further
        {"k": "one", "u": 5, "g": 1, "v": 2, "items": ["x", "q"]},
        {"k": "dup", "u": 6, "g": 1, "v": "bad", "items": ["p"]},
        {"k": "4", "u": 7, "g": None, "v": 3, "items": None},
    ],
    "b.jsonl": [
        {"k": "dup", "u": 8, "g": 2, "v": 9, "items": ["q", "q"]},
        {"k": "two", "u": 9, "g": 3, "v": -5, "items": ["x"]},
        {"k": "two", "u": 10, "g": 3, "v": 4, "items": ["x", "p"]},
    ],
}
COMP = [
    ("x", 1, 1, 5),
    ("x", 1, 2, 6),
    ("x", None, 3, 5),
    (None, None, 4, 6),
    (None, 1, 5, 5),
    ("y", 2, 6, 7),
    ("x", 1, 7, 8),
]
KEYED = {"p.parquet": [(1, 21, 5), (1, 22, 7), (2, 23, 5)], "q.parquet": [(1, 24, 5), (4, 25, 5)]}
NULLS = [(1, 1, 5), (1, 2, 5), (None, 3, 6), (None, 4, 5), (2, 5, 9)]
CITIES = [(1, "Oslo"), (1, "Rome"), (2, "Rome"), (2, "Bonn"), (3, "Kiev")]


# ---- the oracle ----------------------------------------------------------------------------

Place = tuple[str, int]


@dataclass(frozen=True)
class Line:
    """A record: where it stands, and its values."""

    file: str
    number: int
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def place(self) -> Place:
        return f"data/{self.file}", self.number


def lines(file: str, names: str, rows: list[Any], first: int = 1) -> list[Line]:
    return [
        Line(file, n, dict(zip(names.split(), row, strict=True)))
        for n, row in enumerate(rows, first)
    ]


RECORDS = {
    "js": [
        Line(f"js/{file}", n, row)
        for file, rows in JS.items()
        for n, row in enumerate(rows, 1)
        if row is not None
    ],
    "comp": lines("comp.csv", "a b u v", COMP, 2),
    "keyed": [one for f, rows in KEYED.items() for one in lines(f"keyed/{f}", "id u v", rows)],
    "nulls": lines("nulls.parquet", "id u v", NULLS),
}


@dataclass
class Expected:
    """Of one asset: each row with the lines behind it; and where lines, or children of them,
    ended: how, and at which step."""

    rows: list[tuple[dict[str, Any], list[Line]]] = field(default_factory=list)
    ended: Counter[tuple[Place, str, str]] = field(default_factory=Counter)

    def end(self, line: Line, how: str, step: str) -> None:
        self.ended[line.place, how, step] += 1

    def readable(self) -> list[Line]:
        for line in RECORDS["js"]:
            if line["v"] == "bad":
                self.end(line, "rejected", "ingest")
        return [line for line in RECORDS["js"] if line["v"] != "bad"]

    def no_sevens(self, of: list[Line], step: str = "sevens") -> list[Line]:
        for line in of:
            if line["v"] == 7:
                self.end(line, "filtered", step)
        return [line for line in of if line["v"] != 7]

    def one_row_each(self, of: list[Line], **more: None) -> Expected:
        self.rows += [({"u": line["u"], **more}, [line]) for line in of]
        return self


def groups(of: list[Line], *by: str) -> list[tuple[dict[str, Any], list[Line]]]:
    found: dict[tuple[Any, ...], list[Line]] = {}
    for line in of:
        found.setdefault(tuple(line[name] for name in by), []).append(line)
    return [({**dict(zip(by, key, strict=True)), "n": len(s)}, s) for key, s in found.items()]


def kept() -> Expected:
    found = Expected()
    positive = []
    for line in found.readable():
        if line["v"] > 0:
            positive.append(line)
        else:
            found.end(line, "rejected", "positive")
    return found.one_row_each(found.no_sevens(positive))


def of_kept() -> Expected:
    return Expected(groups([line for _, [line] in kept().rows], "g"))


def by_g(*, most: int) -> Expected:
    found = Expected()
    for row, some in groups(found.no_sevens(found.readable()), "g"):
        if row["n"] < most:
            found.rows.append((row, some))
        else:
            for line in some:
                found.end(line, "rejected", "few")
    return found


def exploded() -> Expected:
    found = Expected()
    for line in found.readable():
        if not line["items"]:
            found.end(line, "filtered", "items.empty")
        for item in line["items"] or ():
            if item == "x":
                found.end(line, "filtered", "no_x")
            else:
                found.rows.append(({"u": line["u"], "item": item}, [line]))
    return found


def expanded() -> Expected:
    found = Expected()
    for line in found.readable():
        cities = [city for g, city in CITIES if g == line["g"]]
        if not cities:
            found.end(line, "filtered", "met")
        for city in cities:
            if city == "Rome":
                found.end(line, "filtered", "no_rome")
            else:
                found.rows.append(({"u": line["u"], "city": city}, [line]))
    return found


def comp_first() -> Expected:
    """The smallest key stays, and of equal keys the first line. `@…` is before `{…`."""
    found, seen = Expected(), set()
    keyless = [line for line in RECORDS["comp"] if None in (line["a"], line["b"])]
    keyed = [line for line in RECORDS["comp"] if line not in keyless]
    for line in [*keyless, *keyed]:
        if line["v"] in seen:
            found.end(line, "filtered", "first")
        else:
            found.one_row_each([line])
        seen.add(line["v"])
    return found


def comp_set() -> Expected:
    found = Expected(groups(RECORDS["comp"], "a", "b"))
    return found.one_row_each(found.no_sevens(RECORDS["comp"]), n=None)


def both() -> Expected:
    found = Expected()
    left = found.no_sevens(found.readable(), "left_sevens")
    return found.one_row_each([*left, *RECORDS["keyed"]])


def filtered(source: str) -> Expected:
    found = Expected()
    return found.one_row_each(found.no_sevens(RECORDS[source]))


def null_set() -> Expected:
    more = [
        Line(line.file, line.number, {**line.values, "v": line["v"] + (line["u"] > 1)})
        for line in RECORDS["nulls"]
    ]
    found = Expected()
    left = found.no_sevens(more)
    found.rows += groups(left, "v")
    return found.one_row_each(left, n=None)


EXPECTED = {
    "kept": kept,
    "of_kept": of_kept,
    "by_g": lambda: by_g(most=3),
    "exploded": exploded,
    "expanded": expanded,
    "comp_all": lambda: filtered("comp"),
    "comp_first": comp_first,
    "comp_set": comp_set,
    "both": both,
    "passed": lambda: filtered("keyed"),
    "null_set": null_set,
}
READERS = {
    "js": ("kept", "by_g", "exploded", "expanded", "both"),
    "comp": ("comp_all", "comp_first", "comp_set"),
    "keyed": ("both", "passed"),
    "nulls": ("null_set",),
}


# ---- the project ---------------------------------------------------------------------------


def write_data(data: Path) -> None:
    (data / "js").mkdir(parents=True)
    (data / "keyed").mkdir()
    for file, rows in JS.items():
        text = "".join(json.dumps(row) + "\n" if row else "\n" for row in rows)
        (data / "js" / file).write_text(text)
    for name, header, some in (("comp", "a,b,u,v", COMP), ("cities", "g,city", CITIES)):
        shown = [",".join("" if v is None else str(v) for v in row) for row in some]
        (data / f"{name}.csv").write_text("\n".join([header, *shown]) + "\n")
    kinds = {"id": pa.int64(), "u": pa.int32(), "v": pa.int32()}
    for file, values in {
        **{f"keyed/{f}": r for f, r in KEYED.items()},
        "nulls.parquet": NULLS,
    }.items():
        columns = [
            pa.array(c, t) for c, t in zip(zip(*values, strict=True), kinds.values(), strict=True)
        ]
        pq.write_table(pa.table(columns, list(kinds)), data / file)


@dataclass(frozen=True)
class Case:
    home: Home
    large: str
    """The run for which seven records are too many to count keys."""
    project: tm.Project


@pytest.fixture(autouse=True)
def _own_mode(own_mode: None) -> None:
    """The project stays open from test to test."""


@pytest.fixture(scope="module")
def case(homes: Homes) -> Iterator[Case]:
    home = homes.make(Home, "repeated").pipeline(PIPELINE)
    write_data(home.path / "data")
    home.ok("run", *EXPECTED, "by_g_digest")
    shutil.rmtree(home.path / ".tallyman" / "doors")  # where the first run left the count
    large = home.ok("run", "uncounted", "--spark-conf", "spark.tallyman.countKeysUpTo=5")
    with tm.Project.open(home.path) as project:
        yield Case(home, large["run_id"], project)


def leaves(hop: Hop) -> Iterator[tuple[str, int]]:
    for origin in hop.inputs:
        for further in origin.hops:
            yield from leaves(further)
        for record in origin.records:
            assert record.file is not None
            assert record.line is not None
            yield record.file, record.line
        if not origin.hops:
            assert origin.count == len(origin.records) == sum(origin.files.values())


def asked(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: "null" if value is None else str(value) for name, value in row.items()}


@pytest.mark.parametrize("asset", EXPECTED)
def test_why_names_exactly_the_lines_behind_every_row(case: Case, asset: str) -> None:
    wanted = EXPECTED[asset]().rows
    assert wanted
    for row, _ in wanted:
        behind = {line.place for other, some in wanted if other == row for line in some}
        found = case.project.why(asset, asked(row), limit=None)
        assert found.rows == sum(other == row for other, _ in wanted), row
        [hop] = found.hops
        assert sorted(leaves(hop)) == sorted(behind), row
        assert (hop.records, hop.steps[-1].count) == (len(behind), len(behind)), row
        assert not hop.notes


def ended(found: Became) -> Counter[tuple[str, str]]:
    rejected = Counter(("rejected", one.step) for one in found.rejections)
    for one in found.filtered:
        rejected["filtered", one.step] += one.count
    return rejected


def shown(row: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(str(row[name]) for name in sorted(names))


@pytest.mark.parametrize("source", RECORDS)
def test_where_tells_what_became_of_every_line_and_of_no_other(case: Case, source: str) -> None:
    for line in RECORDS[source]:
        place = f"@{Path(line.file).name}#{line.number}"
        found = case.project.where(source, {"@": place}, limit=None)
        assert [(one.file, one.line) for one in found.records] == [line.place]
        by_asset = {one.asset: one for one in found.became}
        for asset in READERS[source]:
            expected, became = EXPECTED[asset](), by_asset[asset]
            ends = {
                (how, step): n for (at, how, step), n in expected.ended.items() if at == line.place
            }
            assert dict(ended(became)) == ends, (asset, place)
            rows = [row for row, some in expected.rows if line.place in {one.place for one in some}]
            assert became.rows == len(rows), (asset, place)
            names = {name for row in rows for name in row}
            got = sorted(
                tuple(str(row.get(name)) for name in sorted(names)) for row in became.shown
            )
            assert len(got) == len(rows)
            if len({frozenset(row) for row in rows}) == 1:
                assert got == sorted(shown(row, names) for row in rows), (asset, place)
            assert not became.notes


def test_a_run_that_kept_digests_replays_to_the_same_lines(case: Case) -> None:
    for row, some in by_g(most=99).rows[:2]:
        question = [f"{name}={value}" for name, value in asked(row).items()]
        [hop] = case.home.ok("why", "by_g_digest", *question, "--limit", "0")["hops"]
        assert hop["replayed"]
        found = sorted((r["file"], r["line"]) for r in hop["inputs"][0]["records"])
        assert found == sorted(line.place for line in some)
    [became] = case.home.ok("where", "same", "@b.jsonl#1")["became"]
    assert (became["replayed"], became["shown"]) == (True, [{"g": 2, "n": 2}])


def test_what_was_not_counted_is_said_and_verify_counts_it(case: Case) -> None:
    door = json.loads(next(case.home.path.glob("runs/*/uncounted/ledger.json")).read_text())
    assert door["input_accounting"]["duplicate_keys"] is None
    command = f"tallyman verify {case.large} --exact"
    [hop] = case.project.why("uncounted", {"u": "1"}).hops
    assert sorted(leaves(hop)) == [
        ("data/comp.csv", n) for n in (2, 3, 8)
    ]  # all that share its key
    assert [command in note for note in hop.notes] == [True]
    by_asset = {one.asset: one for one in case.project.where("comp", {"u": "1"}).became}
    assert [command in note for note in by_asset["uncounted"].notes] == [True]
    assert not by_asset["comp_all"].notes
    # By key alone, a record with NULL in its key is none of the others that have no key either.
    keyless = case.project.where("comp", {"a": "null", "b": "null"})
    assert {one.asset: one.rows for one in keyless.became}["uncounted"] == 1
    assert command in case.home.printed("show", case.large)[1].replace("\n", " ")
    verdict = case.home.ok("verify", case.large, "--exact")
    assert (verdict["verified"], verdict["repeated_keys"]) == (True, {"uncounted": 2})
