"""Mistakes in a test are found before Spark starts, and the message names what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import tallyman as tm
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.errors import DefinitionError, UsageError
from tallyman.testing import TallyKit
from tests.testing import sales
from tests.testing.sales import by_country, clean, of_day, orders

ROW = {"order_id": "A", "day": "2026-01-01", "country": "NL", "amount": 1}


@pytest.mark.parametrize(
    ("asset", "rows", "message"),
    [
        (clean, {"order": []}, "there is no input 'order'. Did you mean 'orders'?"),
        (clean, {"zzz": []}, "there is no input 'zzz'. There are clean, orders."),
        (clean, {}, "no rows are given for orders; [] is an empty input"),
        (by_country, {"clean": []}, "no rows are given for countries"),
        (clean, {"orders": [], "clean": []}, "asset clean is to be made, and rows of it are given"),
        (of_day, {"orders": []}, "asset of_day is partitioned by day: say partition="),
        (clean, {"orders": ROW}, "rows of 'orders': expected a list of rows, not dict"),
        (clean, {"orders": "{}"}, "rows of 'orders': expected a list of rows, not str"),
        (clean, {"orders": 5}, "rows of 'orders': expected a list of rows, not int"),
        (clean, {"orders": [5]}, "row 1 of 'orders': expected columns and values, not int"),
        (clean, {"orders": [ROW, "{}\n{}"]}, "row 2 of 'orders': a line break inside a line"),
        (orders, {}, "is no asset: expected a function declared with @tm.asset"),
        (len, {}, "len is no asset"),
    ],
)
def test_a_mistake_says_what_there_is(
    asset: Any, rows: Mapping[str, Any], message: str, tally: TallyKit
) -> None:
    with pytest.raises(UsageError) as error:
        tally.run(asset, rows)
    assert message in str(error.value)


def test_an_input_that_the_module_does_not_name_is_found_in_a_list(tally: TallyKit) -> None:
    @tm.asset
    def apart(elsewhere: tm.Frame) -> tm.Frame:
        return elsewhere

    with pytest.raises(UsageError, match=r"asset apart reads 'elsewhere', .* Run it with"):
        tally.run(apart, {"elsewhere": []})
    with pytest.raises(DefinitionError, match="unknown input 'elsewhere'"):
        tally.run_pipeline([apart], {})
    with pytest.raises(UsageError, match="expected sources, tables and assets, not 5"):
        tally.run_pipeline([apart, 5], {})  # type: ignore[list-item]
    with pytest.raises(UsageError, match="expected a pipeline, its folder or its declarations"):
        tally.run_pipeline(5, {})  # type: ignore[arg-type]


def test_a_partition_is_one_of_an_asset_that_has_some(tally: TallyKit) -> None:
    with pytest.raises(UsageError, match="no asset that is made is partitioned: '2026-01-02'"):
        tally.run(clean, {"orders": []}, partition="2026-01-02")
    with pytest.raises(UsageError, match="2025-01-02"):
        tally.run(of_day, {"orders": []}, partition="2025-01-02")


def test_an_asset_that_is_selected_is_one_of_the_pipeline(tally: TallyKit) -> None:
    with pytest.raises(UsageError, match=r"there is no asset 'claen'. Did you mean 'clean'\?"):
        tally.run_pipeline([orders, clean], {"orders": []}, select="claen")


def test_a_folder_without_pipelines_is_a_mistake(tally: TallyKit, tmp_path: Any) -> None:
    with pytest.raises(DefinitionError, match="the pipelines folder does not exist"):
        tally.run_pipeline(tmp_path / "pipelines", {})
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(DefinitionError, match=r"notes.txt: no source and no asset is declared"):
        tally.run_pipeline(tmp_path / "notes.txt", {})


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("orders", ROW | {"amuont": 1}, "there is no column 'amuont'. Did you mean 'amount'?"),
        ("orders", ROW | {"amount": object()}, "cannot be written as JSON"),
        ("countries", {"code": ["a"]}, "cannot be written as CSV"),
        ("rates", {"rate": "high"}, "not every 'rate' is double"),
        ("rates", "{}", "a line of text, and it has no lines"),
        ("notes", {"tetx": "x"}, "there is no column 'tetx'. Did you mean 'text'?"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(
    name: str, row: Any, message: str, tally: TallyKit
) -> None:
    given: dict[str, list[Any]] = {"orders": [], "countries": [], "rates": [], "notes": []}
    kinds = (tm.Source, tm.Asset, tm.Table)
    pipeline = Pipeline.of([item for item in vars(sales).values() if isinstance(item, kinds)])
    with pytest.raises(UsageError) as error:
        tally.run_pipeline(pipeline, given | {name: [row]}, partition="2026-01-01")
    assert message in str(error.value)
    assert repr(name) in str(error.value)


def test_what_was_made_can_be_read_until_its_folder_goes() -> None:
    with TallyKit() as tally:
        made = tally.run(clean, {"orders": [ROW]})
        assert len(made.rows) == 1
    assert len(made.rows) == 1
    with pytest.raises(UsageError, match="the files of clean went with the test that made it"):
        _ = made.rejections


def test_rows_of_a_source_without_a_schema_are_needed_to_know_it(tally: TallyKit) -> None:
    untyped = tm.source("untyped", "data", "parquet")

    @tm.asset
    def copied(untyped: tm.Frame) -> tm.Frame:
        return untyped

    with pytest.raises(UsageError, match="'untyped' declares no schema: give it at least one row"):
        tally.run_pipeline([untyped, copied], {"untyped": []})
    made = tally.run_pipeline([untyped, copied], {"untyped": [{"a": 1, "b": ["x"]}]})
    assert made["copied"].rows == [{"a": 1, "b": ["x"]}]
