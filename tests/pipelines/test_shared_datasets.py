"""Datasets across pipelines: a producer, a consumer, and a consumer of the consumer."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.pipelines.conftest import NewPipeline
from tests.world.home import Home

CRM = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, country string, n int")
tm.table("countries", schema="code string, region string", key="code")


@tm.asset(key="id", publish="customers")
def clean(raw):
    return raw.expect("has_country", "country IS NOT NULL").filter("n > 0", reason="not active")


@tm.asset(key="id", publish=False)
def secret(raw):
    return raw
"""
SALES = """\
datasets:
  regions: {dataset: countries}
assets:
  by_region:
    from: {dataset: customers}
    key: region
    publish: sales_by_region
    steps:
      - join: {with: regions, on: country = code, unmatched: error}
      - groupBy: {by: region, agg: {n: sum(n), customers: count(*)}}
  clean:
    from: {dataset: customers}
    key: id
    publish: sales_customers
"""
BOARD = """\
import tallyman as tm

tm.dataset("sales_by_region", name="regions")


@tm.asset(key="region")
def board(regions):
    return regions.filter("n > 1", reason="small")
"""
RAW = (("a", "NL", 1), ("b", "NL", 2), ("c", "BE", 4), ("d", None, 8), ("e", "BE", -1))


def raw(home: Home, *rows: tuple[str, str | None, int]) -> None:
    home.data("raw.jsonl", *({"id": i, "country": c, "n": n} for i, c, n in rows))


def states(home: Home, *words: str) -> dict[str, str]:
    return {one["name"]: one["status"] for one in home.ok("run", *words)["assets"]}


@pytest.fixture(scope="module")
def crm(new_pipeline: NewPipeline) -> Home:
    home = new_pipeline("crm", "thresholds: permissive\n").pipeline(CRM)
    home.data(
        "countries.jsonl", *({"code": c, "region": r} for c, r in (("NL", "low"), ("BE", "low")))
    )
    home.ok("load", "countries", "data/countries.jsonl", "--mode", "append")
    raw(home, *RAW)
    return home


@pytest.fixture(scope="module")
def sales(new_pipeline: NewPipeline, crm: Home) -> Home:
    home = new_pipeline("sales")
    (home.path / "pipelines").mkdir()
    (home.path / "pipelines" / "p.yaml").write_text(SALES)
    return home


@pytest.fixture(scope="module")
def board(new_pipeline: NewPipeline, sales: Home) -> Home:
    return new_pipeline("board").pipeline(BOARD)


@pytest.fixture(scope="module")
def made(crm: Home, sales: Home, board: Home) -> list[Home]:
    """All three, each run once; before its producer ran, a reader finds nothing."""
    unknown = sales.tallyman("run")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "dataset_not_found"), str(unknown)
    assert sales.ok("runs") == []
    crm.ok("run", "--run-id", "crm1")
    sales.ok("run", "--run-id", "sales1")
    board.ok("run", "--run-id", "board1")
    return [crm, sales, board]


def counts(home: Home) -> tuple[int, int]:
    runs = "SELECT count(*) FROM runs WHERE project = 'crm'"
    results = "SELECT count(*) FROM materializations WHERE project = 'crm'"
    return (int(str(home.query(runs)[0][0])), int(str(home.query(results)[0][0])))


def a_reader_gets_columns_key_and_rows_of_the_version(made: list[Home]) -> None:
    crm, sales, board = made
    assert sales.rows("sales_by_region") == [("low", 7, 3)]
    assert sales.rows("sales_customers") == [("a", "NL", 1), ("b", "NL", 2), ("c", "BE", 4)]
    assert board.rows("board") == [("low", 7, 3)]
    # Anybody in the organisation may read what is published, nobody else what is hidden.
    assert board.rows("customers") == crm.rows("customers")
    assert board.tallyman("read", "secret").json["error"]["code"] == "not_found"
    for home in made:
        assert home.ok("verify", "latest")["balanced"]
    # `check` does not read the database.
    assert "of another pipeline" in sales.ok("check")["not_checked"]["by_region"]


def what_was_read_is_in_the_manifest_and_in_the_events(made: list[Home]) -> None:
    _, sales, _ = made
    manifest = json.loads((sales.folder("sales1") / "manifest.json").read_text())
    inputs = manifest["cryptographic_binding"]["input_hashes"]
    bound = inputs["customers"]
    assert (bound["kind"], bound["dataset"], bound["version"]) == ("dataset", "customers", 1)
    assert inputs["regions"]["dataset"] == "countries"
    events = (sales.folder("sales1") / "lineage").rglob("*.json")
    names = {
        one["name"] for file in events for one in json.loads(file.read_text()).get("inputs", ())
    }
    assert {"crm.customers", "crm.countries"} <= names
    assert sales.ok("verify", "inputs", "sales1")["same"]


def lineage_crosses_pipelines_both_ways(made: list[Home]) -> None:
    crm, _, board = made
    up = [(o["depth"], o["pipeline"], o["asset"]) for o in board.ok("lineage", "up", "board")]
    assert up == [
        (1, "sales", "by_region"),
        (2, "crm", "clean"),
        (2, "crm", "countries"),
        (3, "crm", "raw"),
    ]
    reached = [(1, "sales", "by_region"), (1, "sales", "clean"), (2, "board", "board")]
    for words in (
        ("down", "clean"),
        ("impact", "clean"),
        ("impact", "clean", "--granularity", "asset"),
    ):
        found = [(o["depth"], o["pipeline"], o["asset"]) for o in crm.ok("lineage", *words)]
        assert found == reached, words
    assert [o["asset"] for o in board.ok("lineage", "down", "regions")] == ["board"]


def records(origins: list[dict[str, Any]]) -> list[tuple[str, int]]:
    found = []
    for origin in origins:
        found += [(one["file"], one["line"]) for one in origin.get("records", ()) if "file" in one]
        for hop in origin.get("hops", ()):
            found += records(hop.get("inputs", []))
    return found


def why_crosses_all_three_to_file_and_line(made: list[Home]) -> None:
    crm, _, board = made
    answer = board.ok("why", "board", "region=low")
    [hop] = answer["hops"]
    [first] = hop["inputs"][0]["hops"]
    [second] = first["inputs"][0]["hops"]
    assert [h.get("pipeline") for h in (hop, first, second)] == [None, "sales", "crm"]
    assert [h["asset"] for h in (hop, first, second)] == ["board", "by_region", "clean"]
    places = records(hop["inputs"])
    assert [line for _, line in places] == [1, 2, 3]
    for file, line in places:
        path = (board.path / file).resolve()
        assert path == (crm.path / "data" / "raw.jsonl").resolve()
        assert json.loads(path.read_text().splitlines()[line - 1])["n"] > 0
    shown = board.printed("why", "board", "region=low").stdout
    assert "pipeline sales" in shown
    assert "pipeline crm" in shown
    # The joined rows of the table are shown too, with the commit that wrote them.
    [joined] = first["joins"]
    assert joined["origin"]["kind"] == "table"


def where_crosses_all_three(made: list[Home]) -> None:
    crm = made[0]
    answer = crm.ok("where", "raw", "id=a")
    by_asset = {one["asset"]: one for one in answer["became"]}
    then = {(one["pipeline"], one["asset"]): one for one in by_asset["clean"]["then"]}
    assert set(then) == {("sales", "by_region"), ("sales", "clean")}
    [last] = then["sales", "by_region"]["then"]
    assert (last["pipeline"], last["asset"], last["rows"]) == ("board", "board", 1)


def ls_all_names_producers_and_consumers(made: list[Home]) -> None:
    crm, sales, board = made
    rows = {row["dataset"]: row for row in board.ok("ls", "--all")}
    assert set(rows) == {"board", "countries", "customers", "sales_by_region", "sales_customers"}
    one = rows["customers"]
    assert (one["pipeline"], one["producer"], one["version"], one["rows"]) == ("crm", "clean", 1, 3)
    assert one["consumers"] == ["sales.by_region", "sales.clean"]
    assert one["backend"] == "iceberg"
    assert one["location"].startswith(str(crm.path / "warehouse" / "org" / "default" / "dataset"))
    assert rows["sales_by_region"]["consumers"] == ["board.board"]
    assert rows["countries"]["consumers"] == ["sales.by_region"]
    assert "secret" in {row["dataset"] for row in crm.ok("ls", "--all")}
    listed = {row["name"]: row for row in sales.ok("ls")}
    assert (listed["customers"]["kind"], listed["customers"]["version"]) == ("dataset", "v1")
    assert "crm.clean" in board.printed("ls", "--all").stdout


def a_change_of_the_producer_reaches_the_readers_when_they_run(made: list[Home]) -> None:
    crm, sales, board = made
    assert states(sales) == {"by_region": "skipped", "clean": "skipped"}
    raw(crm, *RAW, ("f", "NL", 10))
    assert states(crm, "--run-id", "crm2")["clean"] == "success"
    stale = {row["name"]: row.get("stale") for home in (sales, board) for row in home.ok("ls")}
    assert stale["by_region"] == stale["board"] == "customers changed"
    plan = {one["name"]: one for one in sales.ok("plan")["planned"]}
    assert (plan["by_region"]["action"], plan["by_region"]["reason"]) == (
        "rebuild",
        "customers v1 → v2",
    )
    made_there = counts(crm)
    assert states(sales, "--run-id", "sales2") == {"by_region": "success", "clean": "success"}
    assert states(board, "--run-id", "board2") == {"board": "success"}
    assert board.rows("board") == [("low", 17, 4)]
    # A reader never makes anything of its producer.
    assert counts(crm) == made_there
    stale = {row["name"]: row.get("stale") for home in (sales, board) for row in home.ok("ls")}
    assert stale["by_region"] is stale["board"] is None
    assert {one["action"] for one in sales.ok("plan")["planned"]} == {"reuse"}


def a_rollback_and_an_edit_of_the_producer_reach_the_readers(made: list[Home]) -> None:
    crm, sales, board = made
    crm.ok("rollback", "customers", "--to", "1")
    assert {row["name"]: row.get("stale") for row in sales.ok("ls")}["by_region"]
    assert states(sales) == {"by_region": "success", "clean": "success"}
    assert sales.rows("sales_by_region") == [("low", 7, 3)]
    crm.edit("n > 0", "n > 1")
    assert crm.ok("apply", crm.ok("plan")["id"])["status"] == "success"
    assert states(sales) == {"by_region": "success", "clean": "success"}
    assert states(board) == {"board": "success"}
    assert board.rows("board") == [("low", 16, 3)]


def an_invalidated_input_is_not_read(made: list[Home]) -> None:
    crm, sales, _ = made
    crm.ok("invalidate", "clean", "--cascade")
    refused = sales.tallyman("run")
    assert (refused.code, refused.json["error"]["code"]) == (4, "dependency_not_ready"), str(
        refused
    )
    assert "customers" in refused.json["error"]["message"]
    assert states(crm)["clean"] == "success"
    assert sales.tallyman("run").code == 0


def a_rename_is_reported_with_what_to_write(made: list[Home], new_pipeline: NewPipeline) -> None:
    crm, sales, _ = made
    crm.ok("rename", "customers", "clients")
    runs = len(sales.ok("runs"))
    # Somebody else takes the old name: the reader must not silently read that.
    other = new_pipeline("other").pipeline(CRM.replace('tm.table("countries"', 'tm.table("lands"'))
    other.edit("publish=False", 'publish="other_secret"')
    raw(other, ("x", "NL", 99))
    other.ok("run")
    for command in ("run", "plan"):
        reply = sales.tallyman(command)
        error = reply.json["error"]
        assert (reply.code, error["code"]) == (2, "dataset_renamed"), str(reply)
        for part in ("'customers'", "'clients'", "'crm'"):
            assert part in error["message"]
        assert 'tm.dataset("clients", name="customers")' in error["hint"]
    assert len(sales.ok("runs")) == runs
    file = sales.path / "pipelines" / "p.yaml"
    text = file.read_text().replace("{dataset: customers}", "{dataset: clients, name: customers}")
    file.write_text(text)
    # The same dataset by another name: nothing has to be made again.
    assert states(sales) == {"by_region": "skipped", "clean": "skipped"}
    assert sales.rows("sales_by_region") == [("low", 16, 3)]
    assert (
        sales.ok("why", "sales_by_region", "region=low")["hops"][0]["inputs"][0]["name"]
        == "clients"
    )


def hidden_unpublished_and_unknown_look_the_same(made: list[Home]) -> None:
    crm, sales, board = made
    crm.ok("hide", "clients")
    said: set[tuple[str, str]] = set()
    file = sales.path / "pipelines" / "p.yaml"
    text = file.read_text()
    for name in ("clients", "secret", "nothing_here"):
        file.write_text(text.replace("dataset: clients", f"dataset: {name}"))
        reply = sales.tallyman("run")
        assert (reply.code, reply.json["error"]["code"]) == (2, "dataset_not_found"), str(reply)
        error = reply.json["error"]
        message = error["message"].partition(" Did you mean")[0].replace(name, "NAME")
        said.add((message, error["hint"]))
    assert len(said) == 1
    file.write_text(text)
    near = board.edit('"sales_by_region"', '"sales_by_regions"').tallyman("run").json["error"]
    assert "Did you mean 'sales_by_region'?" in near["message"]
    board.edit('"sales_by_regions"', '"sales_by_region"')
    crm.ok("expose", "clients")
    assert sales.tallyman("run").code == 0


def why_stops_where_a_pipeline_is_out_of_reach(made: list[Home]) -> None:
    crm, sales, _ = made
    place = crm.path / "tallyman.yaml"
    kept = place.read_text()
    place.unlink()
    try:
        [hop] = sales.ok("why", "sales_customers", "id=b")["hops"]
        assert "'crm' cannot be read from here" in hop["inputs"][0]["not_shown"]
    finally:
        place.write_text(kept)


def a_producer_that_moved_is_found_after_its_next_run(made: list[Home]) -> None:
    crm, sales, _ = made
    moved = crm.path.with_name("crm_moved")
    shutil.copytree(crm.path, moved)
    there = Home(moved)
    raw(there, *RAW, ("g", "BE", 20))
    there.ok("run")
    assert states(sales)["by_region"] == "success"
    assert sales.rows("sales_by_region") == [("low", 26, 3)]
    there.close()


def test_three_pipelines_share_datasets(made: list[Home], new_pipeline: NewPipeline) -> None:
    """Each part goes on where the one before ended."""
    a_reader_gets_columns_key_and_rows_of_the_version(made)
    what_was_read_is_in_the_manifest_and_in_the_events(made)
    lineage_crosses_pipelines_both_ways(made)
    why_crosses_all_three_to_file_and_line(made)
    where_crosses_all_three(made)
    ls_all_names_producers_and_consumers(made)
    a_change_of_the_producer_reaches_the_readers_when_they_run(made)
    a_rollback_and_an_edit_of_the_producer_reach_the_readers(made)
    an_invalidated_input_is_not_read(made)
    a_rename_is_reported_with_what_to_write(made, new_pipeline)
    hidden_unpublished_and_unknown_look_the_same(made)
    why_stops_where_a_pipeline_is_out_of_reach(made)
    a_producer_that_moved_is_found_after_its_next_run(made)
