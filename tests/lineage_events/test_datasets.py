"""What an event tells of datasets: names, schemas, and only what footers may show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.control.openlineage.asset import code_of_asset
from tallyman.control.openlineage.datasets import input_dataset, of_source, schema_facet
from tallyman.control.openlineage.plan_text import plan_text, step_texts
from tallyman.control.openlineage.run_facets import message_of
from tallyman.control.pipeline.redaction import hidden_columns
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.warehouse.footers import extents
from tests.lineage_events.described import NESTED, lineage_run, written
from tests.lineage_events.plans import airline, ledger_close


def metrics(path: str, hidden: set[str]) -> dict[str, Any]:
    one = lineage_run().dataset("d", "d", extent=extents([path], hidden))
    told = input_dataset(one)
    return dict(told["inputFacets"]["dataQualityMetrics"])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/bookings", "/home/p/data/bookings"),
        ("data/airlines.csv", "/home/p/data/airlines.csv"),
        ("data/*/x.csv", "/home/p/data"),
        ("data/day={partition}/x.csv", "/home/p/data"),
        ("file:///else/where", "/else/where"),
    ],
)
def test_a_source_is_named_by_where_it_lies(path: str, name: str) -> None:
    found = of_source(Source(name="s", path=path, format="csv"), Path("/home/p"))
    assert found.identity == ("file", name)


def test_a_schema_is_told_with_what_is_inside() -> None:
    fields = schema_facet(NESTED)["fields"]
    assert [(f["name"], f["type"], f["ordinal_position"]) for f in fields] == [
        ("id", "bigint", 1),
        ("tags", "array", 2),
        ("prices", "map", 3),
        ("who", "struct", 4),
    ]
    assert "fields" not in fields[0]
    (element,) = fields[1]["fields"]
    assert (element["name"], element["type"]) == ("_element", "struct")
    assert element["fields"][0]["name"] == "tag"
    assert [f["type"] for f in fields[2]["fields"]] == ["string", "decimal(10,2)"]


def test_footers_tell_rows_nulls_and_the_extent_of_numbers(tmp_path: Path) -> None:
    paths = [written(tmp_path, [100, 250]), written(tmp_path, [None, 7], name="b")]
    found = extents(paths)
    assert (found.rows, len(found.files)) == (4, 2)
    assert found.bytes == sum(Path(path).stat().st_size for path in paths)
    revenue = found.columns["total_revenue"]
    assert (revenue.nulls, revenue.least, revenue.most) == (1, 7, 250)
    assert found.columns["flight_date"].least is None
    assert set(found.columns) == {"flight_date", "total_revenue", "segments"}


def test_a_column_of_nulls_has_no_extent_and_spoils_none(tmp_path: Path) -> None:
    empty = written(tmp_path, [None, None], name="empty")
    assert extents([empty]).columns["total_revenue"].least is None
    both = extents([empty, written(tmp_path, [3])]).columns["total_revenue"]
    assert (both.nulls, both.least, both.most) == (2, 3, 3)


def test_what_is_not_known_of_one_file_is_not_told_of_all(tmp_path: Path) -> None:
    silent = str(tmp_path / "silent.parquet")
    pq.write_table(pa.table({"total_revenue": [1, 2]}), silent, write_statistics=False)
    found = extents([silent, written(tmp_path, [3])])
    assert found.rows == 3
    assert found.columns["total_revenue"].least is None
    assert found.columns["total_revenue"].nulls is None
    assert set(found.columns) == {"total_revenue"}


def test_what_is_not_a_number_is_no_extent(tmp_path: Path) -> None:
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"x": [1.0, float("inf")]}), path)
    (column,) = extents([path]).columns.values()
    assert (column.least, column.most) == (1.0, None)


def test_nothing_is_told_of_redacted_columns_nor_of_what_is_made_of_them(tmp_path: Path) -> None:
    plans = [
        Frame("people").withColumnRenamed("Salary", "amount").select("amount", "age"),
        Frame("first").withColumn("double", "amount * 2"),
    ]
    hidden = hidden_columns(plans, ["salary"])
    assert hidden == {"salary", "amount", "double"}
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"Double": [99_000], "AMOUNT": [1], "age": [44]}), path)
    assert set(metrics(path, set(hidden))["columnMetrics"]) == {"age"}
    assert "99000" in str(metrics(path, set())["columnMetrics"])


def test_a_star_hides_every_column(tmp_path: Path) -> None:
    plans = [Frame("people").withColumnRenamed("salary", "amount")]
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"amount": [99_000], "age": [44]}), path)
    told = metrics(path, set(hidden_columns(plans, ["*"])))
    assert (told["rowCount"], told["columnMetrics"]) == (1, {})


# ---- code and queries ---------------------------------------------------------------------------


def test_the_code_of_an_asset_is_its_function_or_its_file(tmp_path: Path) -> None:
    asset = airline().assets["daily_revenue"]
    code = code_of_asset(asset, tmp_path)
    assert code is not None
    assert code.language == "PYTHON"
    assert code.text.startswith("@tm.asset")
    yaml = ledger_close(tmp_path, "yaml").assets["gl_close"]
    code = code_of_asset(yaml, tmp_path / "pipelines")
    assert code is not None
    assert code.language == "YAML"
    assert "gl_close:" in code.text


def test_the_code_of_an_asset_may_use_a_selector_without_quotes(tmp_path: Path) -> None:
    asset = ledger_close(tmp_path, "yaml").assets["gl_close"]
    [file] = (tmp_path / "pipelines").glob("*.yaml")
    file.write_text(file.read_text() + "\nextra:\n  - filter: {where: {{EMEA_ONLY}}}\n")
    code = code_of_asset(asset, tmp_path / "pipelines")
    assert code is not None
    assert "where: {{EMEA_ONLY}}" in code.text


def test_an_error_that_nobody_looked_at_tells_no_more_than_its_code() -> None:
    error = {"code": "new_kind", "message": "the row was 'Jane Doe'", "hint": "Look again."}
    assert message_of(error, "people") == "people: new_kind. Look again."


QUERY = """\
FROM `t`
|> filter(predicate => a > 1, reason => small)  -- 10_filter
|> union(other => (
FROM `u`
|> select(columns => (a, b AS c))  -- 20_union.10_select
), by_name => True)  -- 20_union
|> join(other => (FROM `r`), on => (a), how => left, unmatched => keep, fanout => error)  -- 30_join
|> groupBy(by => (a), aggregates => (sum(b) AS `total`))  -- 40_groupBy"""


def test_a_plan_reads_step_by_step(tmp_path: Path) -> None:
    plan = (
        Frame("t")
        .filter("a > 1", reason="small")
        .unionByName(Frame("u").select("a", "b AS c"))
        .join(Frame("r"), ["a"], how="left")
        .groupBy("a")
        .agg(total="sum(b)")
    )
    assert plan_text(plan) == QUERY
    texts = step_texts(plan)
    assert texts["20_union.10_select"] == "FROM `u`\n|> select(columns => (a, b AS c))"
    assert texts["40_groupBy"].startswith("FROM `30_join`\n|> groupBy(")
    assert plan_text(Frame("t")) == "FROM `t`"
    for asset in (airline().assets["daily_revenue"], ledger_close(tmp_path).assets["gl_close"]):
        plan = asset.plan()
        lines = {line.rpartition("  -- ")[2] for line in plan_text(plan).split("\n")}
        assert set(step_texts(plan)) <= lines
        written = [each for step in plan.steps() for each in step.expressions()]
        assert written
        assert [text for text in written if text not in plan_text(plan)] == []
