"""Which records a source rejects is decided by what it declares, not by what an asset reads."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import Ran, Workshop

GOOD, BAD = '{"id":"ok%d","n":1,"price":2.5,"tags":["x"]}', '"price":"NOT_A_NUMBER","tags":["x"]}'
REGULAR = [
    *(GOOD % i for i in range(9)),
    '{"id":"price","n":1,' + BAD,
    '{"id":"tags","n":1,"price":1,"tags":7}',
    '{"id":"two","n":1,"price":"x","tags":{}}',
    '{"id":"cut","n":1,"price":',
]
# One line that Spark's reader would skip makes the whole input be read line by line. The record
# whose key stands only inside another field has none, whichever of its fields do not fit.
CAREFUL = [*REGULAR, "[]", '{"tags":["\\"id\\":\\"inner\\""],"n":1,"price":"x"}']
CSV = ["id,n,price,left_out", "ok,1,2.5,z", "price,1,NOT_A_NUMBER,z", "few,1", "day,1,,7"]
REJECTED = {
    "regular": {"price", "tags", "two", "cut"},
    "careful": {"price", "tags", "two", "cut", "@careful.json#14", "@careful.json#15"},
    "csv": {"price", "few"},
    "parquet": {"b"},
}
PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
RECORD = "id string, n int, price decimal(10,2), tags array<string>"
tm.source("regular", "data/regular.json", schema=RECORD, key="id")
tm.source("careful", "data/careful.json", schema=RECORD, key="id")
tm.source("csv", "data/in.csv", format="csv", schema="id string, n int, price decimal(10,2)", key="id")
tm.source("parquet", "data/rows", format="parquet", schema="id string, n int, price double NOT NULL", key="id")
tm.source("many", "data/many.json", schema="id string, n int, price double", key="id")
tm.source("looked_up", "data/looked_up.json", schema="id string, city string, people int", key="id")
tm.source("charged", "data/charged.json", schema="id string, balance int, fee int, place string", key="id")

@tm.asset(thresholds=dict(absolute=0, percentage=0.5))
def broken_where_nobody_looks(many):
    return many.groupBy("n").agg(c="count(*)")

@tm.asset(**ANY)
def joined(parquet, looked_up):
    return parquet.join(looked_up.select(F.col("id").alias("code"), "city"), "id = code", how="left", unmatched="keep")

@tm.asset(evidence="digest", **ANY)
def regular_digested(regular):
    return regular.groupBy("n").agg(c="count(*)")

@tm.asset(**ANY)
def billed(charged):
    return (charged
        .expect("has_balance", "balance IS NOT NULL")
        .expect("both", "balance IS NOT NULL AND fee < 10")
        .expect("low_fee", "fee < 10")
        .withColumn("net", "balance - fee")
        .withColumnRenamed("fee", "costs")
        .expect("has_net", "net IS NOT NULL")
        .expect("has_costs", "costs IS NOT NULL"))
""" + "".join(
    f"""
@tm.asset(**ANY)
def {name}_counted({name}):
    return {name}.groupBy("n").agg(c="count(*)")

@tm.asset(**ANY)
def {name}_whole({name}):
    return {name}
"""
    for name in REJECTED
)
ASSETS = [line[4 : line.index("(")] for line in PIPELINE.splitlines() if line.startswith("def ")]
BROKEN = {"broken_where_nobody_looks": "structural_error", "joined": "reference_rejected"}


@pytest.fixture(scope="module")
def home(workshop: Callable[..., Workshop]) -> Workshop:
    made = workshop(interpreted=True).pipeline(PIPELINE)
    made.lines("regular.json", REGULAR).lines("careful.json", CAREFUL).lines("in.csv", CSV)
    (made.home / "data" / "rows").mkdir()
    rows = pa.table({"id": ["a", "b"], "n": pa.array([1, 1], pa.int32()), "price": [1.5, None]})
    pq.write_table(rows, made.home / "data" / "rows" / "one.parquet")
    made.lines("many.json", (f'{{"id":"i{i}","n":1,"price":"x{i}"}}' for i in range(1_200)))
    made.lines("looked_up.json", ['{"id":"a","city":"Ulm","people":"many"}'])
    made.lines(
        "charged.json",
        [
            '{"id":"fine","balance":5,"fee":1}',
            '{"id":"no balance","balance":"n/a","fee":1}',
            '{"id":"no balance, high fee","balance":"n/a","fee":11}',
            '{"id":"nothing","balance":"n/a","fee":"n/a"}',
            '{"id":"null","fee":1}',
            '{"id":"cut","balance":1',
        ],
    )
    return made


@pytest.fixture(scope="module")
def ran(home: Workshop) -> Ran:
    return home.run(*(name for name in ASSETS if name not in BROKEN))


def told(ran: Ran, asset: str) -> list[tuple[str, ...]]:
    names = ("source_key", "error_type", "morphism_path", "expected", "actual")
    return sorted(tuple(letter[name] for name in names) for letter in ran[asset].rejections)


@pytest.mark.parametrize("source", REJECTED)
def test_a_record_is_rejected_alike_whatever_the_asset_reads(ran: Ran, source: str) -> None:
    whole = told(ran, f"{source}_whole")
    assert {key for key, *_ in whole} == REJECTED[source]
    for asset in (name for name in ASSETS if name.startswith(f"{source}_")):
        assert ran[asset].balanced
        assert told(ran, asset) == whole
        assert ran[asset].fates["ERROR"] == len(REJECTED[source])


def test_what_is_not_read_is_not_carried(ran: Ran) -> None:
    [evidence] = [
        p for p in ran["regular_counted"].partitions if p["partition_type"] == "AGGREGATED"
    ]
    described = ran["regular_counted"].query(evidence["adjoint_location"], "DESCRIBE found")
    assert {row[0] for row in described} == {"group_key", "source_key", "_tm_rejections"}


def test_the_breaker_and_references_look_at_every_declared_column(home: Workshop) -> None:
    failed = home.run(*BROKEN).result.assets
    assert {asset.name: asset.error and asset.error["code"] for asset in failed} == BROKEN


def test_a_rule_is_not_charged_where_its_field_could_not_be_read(ran: Ran) -> None:
    assert sorted((key, path.partition(".")[2]) for key, _, path, *_ in told(ran, "billed")) == [
        ("cut", "line"),
        ("no balance", "balance"),
        ("no balance, high fee", "balance"),
        ("no balance, high fee", "low_fee"),
        ("nothing", "balance"),
        ("nothing", "fee"),
        ("null", "both"),
        ("null", "has_balance"),
    ]


def test_where_and_replays_agree_with_it(home: Workshop, ran: Ran) -> None:
    project = home.open()
    found = project.where("regular", {"id": "price"}).to_json()
    reached = {each["asset"]: each for each in found["became"]}
    assert {name: [r["rule"] for r in each["rejections"]] for name, each in reached.items()} == {
        name: ["regular.price"] for name in ASSETS if name.startswith("regular_")
    }

    (home.home / "fix.jsonl").write_text(
        '{"id":"price","n":1,"price":3,"tags":[]}\n{"id":"two","n":1,"price":"still","tags":[]}\n'
    )
    chosen = project.runs.chosen(ran.result.run_id, asset="regular_counted")
    replayed = project.rejections.replay(chosen, corrected=home.home / "fix.jsonl")
    [outcome] = replayed.outcomes
    assert (outcome.replayed, outcome.passed, outcome.rejected) == (2, 1, 1)
    assert replayed.run is not None
    again = Ran(project, replayed.run)
    assert again["regular_counted"].fates == {"AGGREGATED": 10, "ERROR": 3}
    assert [letter for letter in told(again, "regular_counted") if letter[0] == "two"] == [
        ("two", "type_cast_error", "regular.price", "decimal(10,2)", "still")
    ]
