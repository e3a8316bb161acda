"""Rows that steps make out of records have ledgers of their own; records keep exactly one fate."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

import json
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.engine.conftest import AssetFiles, Ran, Workshop, fates_of

PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("journeys", "data/journeys.json", schema="id string, legs array<string>", key="id")
tm.source("sales", "data/sales.json", key="id",
    schema="id string, shop string, price int NOT NULL, day date, code double")
tm.source("shops", "data/shops.csv", format="csv", schema="shop string, area string", key="shop")

@tm.asset(**ANY)
def segments(journeys):
    return (
        journeys.explode("legs", "leg", name="legs").drop("legs")
        .filter("leg <> 'x'", name="no_x").expect("long", "length(leg) < 3")
    )

@tm.asset(**ANY)
def expanded(sales, shops):
    return (
        sales.filter("price > 3", name="cheap").join(shops, "shop", fanout="expand", name="areas")
        .filter("area = 'north'", name="north")
    )

@tm.asset(**ANY)
def fanned_out(sales, shops):
    return sales.join(shops, "shop", unmatched="filter", name="areas")

def shop_totals(sales):
    return (
        sales.filter("day >= '2024-01-02'", name="early").filter("price <> 7", name="sevens")
        .groupBy("shop", "code").agg(total="sum(price)", n="count(*)", name="by_shop")
    )

@tm.asset(**ANY)
def grouped_filtered(sales):
    return shop_totals(sales).filter("total > 20", name="small")

@tm.asset(**ANY, evidence="digest")
def grouped_filtered_digest(sales):
    return shop_totals(sales).filter("total > 20", name="small")

@tm.asset(**ANY)
def grouped_expected(sales):
    return shop_totals(sales).expect("plausible", "total < 30", code="TOO_MUCH").filter("n > 1", name="single")

@tm.asset(**ANY, evidence="digest")
def grouped_joined_digest(sales, shops):
    unique = shops.dropDuplicates(["shop"])
    return shop_totals(sales).join(unique, "shop", name="known")

@tm.asset(**ANY)
def regrouped(sales):
    return shop_totals(sales).groupBy("shop").agg(codes="count(*)", name="again").expect("few", "codes < 3")

@tm.asset(**ANY)
def windowed(sales):
    w = Window.partitionBy("shop").orderBy("id")
    return (
        sales.filter("price > 1", name="cheap").withColumn("rank", F.row_number().over(w))
        .filter("rank = 1", name="first").dropDuplicates(["day"], name="one_a_day")
    )

@tm.asset(**ANY)
def captured(sales, shops):
    unique = shops.dropDuplicates(["shop"])
    return (
        sales.expect("not_ten", "price <> 10").join(unique, "shop", name="shop_known")
        .groupBy("area").agg(n="count(*)", total="sum(price)").expect("area_named", "area IS NOT NULL")
    )
"""

JOURNEYS = [
    {"id": "j1", "legs": ["a", "b", "x", "c"]},
    {"id": "j2", "legs": ["d", "long", "x"]},
    {"id": "j3", "legs": ["e", None, "f"]},
]
SHOPS = [("s0", "north"), ("s0", "south"), ("s1", "north"), ("s2", ""), ("s3", "north")]


def _sale(i: int) -> dict[str, object]:
    code = [0.0, -0.0, 1.5, None][i % 4]
    return {
        "id": f"i{i:02d}",
        "shop": f"s{i % 5}",
        "price": None if i == 13 else i % 11 + 1,
        "day": f"2024-01-0{1 + i % 7}",
        "code": code,
    }


SALES = [_sale(i) for i in range(60)]


@pytest.fixture(scope="module")
def home(workshop: Callable[..., Workshop], spark: SparkSession) -> Workshop:
    made = workshop(interpreted=True).pipeline(PIPELINE)
    made.lines("journeys.json", JOURNEYS).lines("sales.json", SALES)
    return made.lines("shops.csv", ["shop,area", *(f"{shop},{area}" for shop, area in SHOPS)])


@pytest.fixture(scope="module")
def ran(home: Workshop) -> Ran:
    return home.run()


def _priced() -> list[dict[str, object]]:
    return [s for s in SALES if s["price"] is not None]


def _totals() -> dict[tuple[object, object], list[dict[str, object]]]:
    """Sales by shop and code as SQL groups them: -0.0 and 0.0 are one number."""
    groups: dict[tuple[object, object], list[dict[str, object]]] = defaultdict(list)
    for sale in _priced():
        if str(sale["day"]) >= "2024-01-02" and sale["price"] != 7:
            groups[(sale["shop"], sale["code"])].append(sale)
    return groups


def _total(group: list[dict[str, object]]) -> int:
    return sum(int(str(s["price"])) for s in group)


def _counts(files: AssetFiles) -> dict[str, int]:
    return {p["adjoint_location"].split("/")[-1]: p["record_count"] for p in files.partitions}


@pytest.mark.parametrize(
    "name",
    [
        "segments",
        "expanded",
        "grouped_filtered",
        "grouped_expected",
        "regrouped",
        "windowed",
        "captured",
    ],
)
def test_every_record_has_one_fate_and_every_row_made_of_records_too(ran: Ran, name: str) -> None:
    files = ran[name]
    assert ran.asset(name).error is None
    inputs = (
        Counter(j["id"] for j in JOURNEYS)
        if name == "segments"
        else Counter(s["id"] for s in SALES)
    )
    assert files.accounted() == inputs
    for sub in files.subs:
        assert sub["units_in"] == sum(p["record_count"] for p in sub["partitions"])
        assert sub["unaccounted"] == 0


def test_three_journeys_become_ten_segments(ran: Ran) -> None:
    files = ran["segments"]
    assert files.fates == {"EXPLODED": 3}
    [sub] = files.subs
    assert (sub["opened_by"], sub["unit"], sub["units_in"]) == ("legs", "child", 10)
    assert fates_of(sub["partitions"]) == {"PASS_THROUGH": 6, "FILTERED": 3, "ERROR": 1}
    pairs = files.query(
        "adjoint/parent_child/legs.parquet", "SELECT child_key, parent_key FROM found"
    )
    assert Counter(parent for _, parent in pairs) == {"j1": 4, "j2": 3, "j3": 3}
    assert len({child for child, _ in pairs}) == 10
    assert all(child.rpartition("/")[0] == parent for child, parent in pairs)
    [rejected] = files.rejections
    assert rejected["source_key"] == "j2/1"
    assert rejected["context"]["level"] == "1"


def test_a_join_that_expands_records_parents_and_children(ran: Ran) -> None:
    matches = Counter(shop for shop, _ in SHOPS)
    live = [s for s in _priced() if int(str(s["price"])) > 3]
    known = [s for s in live if s["shop"] in matches]
    files = ran["expanded"]
    assert files.fates == {
        "EXPLODED": len(known),
        "FILTERED": len(_priced()) - len(live),
        "ERROR": 1 + len(live) - len(known),
    }
    [sub] = files.subs
    assert sub["units_in"] == sum(matches[str(s["shop"])] for s in known)
    assert {r["area"] for r in ran.rows("expanded")} == {"north"}
    assert fates_of(sub["partitions"])["PASS_THROUGH"] == len(ran.rows("expanded"))


def test_a_reference_that_is_not_unique_is_refused_with_its_keys(ran: Ran) -> None:
    stopped = ran.asset("fanned_out")
    assert stopped.status == "failed"
    assert stopped.error is not None
    assert stopped.error["code"] == "join_fan_out"
    message = str(stopped.error["message"])
    assert "step areas: 1 key(s) are on more than one row of reference 'shops'" in message
    assert "shop = s0 (2 rows)" in message
    assert not (ran["fanned_out"].folder / "output").exists()


def test_a_filter_on_groups_opens_a_ledger_of_groups(ran: Ran) -> None:
    groups = _totals()
    large = {k for k, g in groups.items() if _total(g) > 20}
    files = ran["grouped_filtered"]
    [sub] = files.subs
    assert (sub["unit"], sub["units_in"]) == ("group", len(groups))
    assert fates_of(sub["partitions"]) == {
        "PASS_THROUGH": len(large),
        "FILTERED": len(groups) - len(large),
    }
    assert len(ran.rows("grouped_filtered")) == len(large)
    # The records are aggregated all the same: what happened to their group is the group's fate.
    assert files.fates["AGGREGATED"] == sum(map(len, groups.values()))


def test_two_filters_are_two_partitions(ran: Ran) -> None:
    files = ran["grouped_filtered"]
    counts = _counts(files)
    assert counts["early.parquet"] == sum(str(s["day"]) < "2024-01-02" for s in _priced())
    late = [s for s in _priced() if str(s["day"]) >= "2024-01-02"]
    assert counts["sevens.parquet"] == sum(s["price"] == 7 for s in late)
    [(predicate,)] = files.query(
        "adjoint/filtered_keys/sevens.parquet", "SELECT DISTINCT filter_predicate FROM found"
    )
    assert predicate == "price <> 7"


def test_a_group_that_fails_makes_errors_of_its_records(ran: Ran) -> None:
    files = ran["grouped_expected"]
    failed = {k: g for k, g in _totals().items() if _total(g) >= 30}
    assert failed
    behind = {str(s["id"]): k for k, g in failed.items() for s in g}
    found = [r for r in files.rejections if r["error_type"] == "validation_error"]
    assert {r["source_key"] for r in found} == set(behind)
    assert {r["error_code"] for r in found} == {"TOO_MUCH"}
    for rejected in found:
        assert (
            json.loads(rejected["context"]["group_key"])["shop"]
            == behind[rejected["source_key"]][0]
        )
    assert files.fates["ERROR"] == len(behind) + 1
    kept = files.query("adjoint/reverse_joins/by_shop.parquet", "SELECT source_key FROM found")
    assert len(kept) == files.fates["AGGREGATED"]
    assert not {key for (key,) in kept} & set(behind)


def test_a_group_lists_the_records_behind_it(ran: Ran) -> None:
    rows = ran["grouped_filtered"].query(
        "adjoint/reverse_joins/by_shop.parquet",
        "SELECT group_key.shop, group_key.code, source_key FROM found",
    )
    found: dict[tuple[object, object], set[str]] = defaultdict(set)
    for shop, code, key in rows:
        found[(shop, code)].add(key)
    assert found == {k: {str(s["id"]) for s in g} for k, g in _totals().items()}


def test_digests_tell_the_same_story_as_keys(ran: Ran) -> None:
    keys, digests = ran["grouped_filtered"], ran["grouped_filtered_digest"]
    story = ("partition_type", "description", "record_count", "key_digest")
    assert [[p[f] for f in story] for p in digests.partitions] == [
        [p[f] for f in story] for p in keys.partitions
    ]
    assert [fates_of(s["partitions"]) for s in digests.subs] == [
        fates_of(s["partitions"]) for s in keys.subs
    ]
    told = ("source_key", "error_type", "morphism_path", "expected", "actual")
    assert [[r[f].replace("_digest", "") for f in told] for r in digests.rejections] == [
        [r[f] for f in told] for r in keys.rejections
    ]
    assert _bag(ran, "grouped_filtered_digest") == _bag(ran, "grouped_filtered")
    assert (
        digests.ledger["verification"]["proof_method"]
        != keys.ledger["verification"]["proof_method"]
    )


def _bag(ran: Ran, asset: str) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in ran.rows(asset))


def test_groups_without_a_match_name_their_records_also_when_digests_were_asked_for(
    ran: Ran,
) -> None:
    files = ran["grouped_joined_digest"]
    assert ran.asset("grouped_joined_digest").error is None
    behind = {str(s["id"]) for (shop, _), g in _totals().items() if shop == "s4" for s in g}
    found = {r["source_key"] for r in files.rejections if r["error_type"] == "join_error"}
    assert found == behind
    assert files.fates["ERROR"] == len(behind) + 1


def test_a_group_of_groups_that_fails_rejects_the_groups_behind_it(ran: Ran) -> None:
    files = ran["regrouped"]
    first, second = files.subs
    codes = Counter(shop for shop, _ in _totals())
    failed = {shop for shop, n in codes.items() if n >= 3}
    assert failed
    assert first["units_in"] == sum(codes.values())
    assert fates_of(first["partitions"]).get("ERROR", 0) == sum(codes[s] for s in failed)
    assert fates_of(second["partitions"]).get("PASS_THROUGH", 0) == len(codes) - len(failed)
    found = {r["source_key"] for r in files.rejections if r["error_type"] == "validation_error"}
    assert {json.loads(key)["shop"] for key in found} == failed


def test_a_window_sees_only_live_rows_and_its_filter_has_its_own_evidence(ran: Ran) -> None:
    firsts: dict[object, dict[str, object]] = {}
    dear = [s for s in _priced() if int(str(s["price"])) > 1]
    for sale in dear:
        firsts.setdefault(sale["shop"], sale)
    by_day: dict[object, str] = {}
    for sale in firsts.values():
        by_day[sale["day"]] = min(str(sale["id"]), by_day.get(sale["day"], "~"))
    assert sorted(r["id"] for r in ran.rows("windowed")) == sorted(by_day.values())
    counts = _counts(ran["windowed"])
    assert counts["cheap.parquet"] == len(_priced()) - len(dear)
    assert counts["first.parquet"] == len(dear) - len(firsts)
    assert counts["one_a_day.parquet"] == len(firsts) - len(by_day)


def test_each_point_of_capture_has_a_path_of_its_own(ran: Ran) -> None:
    paths = {(r["error_type"], r["morphism_path"]) for r in ran["captured"].rejections}
    assert paths == {
        ("null_error", "sales.price"),
        ("refinement_error", "captured.not_ten"),
        ("join_error", "captured.shop_known"),
        ("validation_error", "captured.area_named"),
    }
    assert sum(row["count"] for row in ran["captured"].summary) == len(ran["captured"].rejections)
