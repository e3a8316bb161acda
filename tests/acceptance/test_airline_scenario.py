"""The reference scenario: 349,660 records, every one of them accounted for, every number known."""

import json
import re
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import jsonschema
import pyarrow.parquet as pq
import pytest

RECORDS = 349_660
REPOSITORY = Path(__file__).parents[2]

TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}


def exactly(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


PARTITION = exactly(
    partition_type={"enum": ["PASS_THROUGH", "FILTERED", "ERROR", "AGGREGATED", "EXPLODED"]},
    description=TEXT,
    record_count=COUNT,
    adjoint_type={
        "enum": [
            "ReverseJoinMetadata",
            "FilteredKeysMetadata",
            "ErrorRecords",
            "PassThrough",
            "ParentChildMetadata",
        ]
    },
    adjoint_location={"type": "string", "pattern": "^(adjoint|errors|output)"},
    verification=TEXT,
)
LEDGER = exactly(
    ledger_version={"const": "1.0"},
    run_id=TEXT,
    input_dataset=TEXT,
    input_accounting=exactly(
        total_records=COUNT,
        source_key_field={"const": "segment_id"},
        input_hash={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    ),
    output_accounting=exactly(
        partitions={"type": "array", "items": PARTITION},
        total_accounted=COUNT,
        unaccounted=COUNT,
    ),
    verification=exactly(
        accounting_balanced={"type": "boolean"}, proof_method=TEXT, verification_query=TEXT
    ),
)

REJECTION_FIELDS = {
    "source_key",
    "error_type",
    "morphism_path",
    "expected",
    "actual",
    "context",
    "run_id",
    "openlineage_run_id",
    "timestamp",
    "error_code",
}
IDS_AND_TIME = {"run_id", "openlineage_run_id", "timestamp"}


def output_rows(run):
    rows = pq.read_table(run.asset / "output").to_pylist()
    return {row["flight_date"]: (row["total_revenue"], row["segments"]) for row in rows}


def evidence_keys(location):
    """All keys with multiplicity; the folder may be hive-partitioned inside."""
    if location.name == "errors":
        return {json.loads(line)["source_key"] for line in rejection_lines(location)}
    query = "SELECT source_key FROM read_parquet(?, hive_partitioning = true)"
    return [key for (key,) in duckdb.execute(query, [f"{location}/**/*.parquet"]).fetchall()]


def rejection_lines(errors):
    files = sorted(errors.glob("error_type=*/*.json*"))
    return [line for file in files for line in file.read_text().splitlines()]


def without_ids(rejections):
    kept = [{k: v for k, v in row.items() if k not in IDS_AND_TIME} for row in rejections]
    return sorted(json.dumps(row, sort_keys=True) for row in kept)


def accounts(run):
    """What the ledger says about records; the names of its files hold the run id."""
    return {part: run.ledger[part] for part in ("input_accounting", "output_accounting")}


def test_the_example_in_the_repository_is_the_one_the_demo_writes(airline):
    for name in ("tallyman.yaml", "pipelines/airline.py"):
        example = REPOSITORY / "examples" / "airline" / name
        assert example.read_text() == (airline.project / name).read_text()


def test_the_run_reports_where_every_record_went(airline):
    [asset] = airline.reply["assets"]
    assert airline.reply["status"] == "success"
    assert asset["name"] == "daily_revenue"
    assert asset["status"] == "success"
    assert asset["records_in"] == RECORDS
    fates = {fate: count for fate, count in asset["fates"].items() if count}
    assert fates == {"AGGREGATED": 345_000, "FILTERED": 4_000, "ERROR": 660}
    assert asset["unaccounted"] == 0
    assert asset["rows_out"] == 32
    assert asset["duration_ms"] > 0


def test_the_ledger_has_the_form_of_the_specification(airline):
    jsonschema.validate(airline.ledger, LEDGER)
    assert airline.ledger["run_id"] == airline.run_id


def test_the_ledger_balances(airline):
    accounted = airline.ledger["output_accounting"]
    counts = {p["partition_type"]: p["record_count"] for p in accounted["partitions"]}
    assert airline.ledger["input_accounting"]["total_records"] == RECORDS
    assert counts == {"AGGREGATED": 345_000, "FILTERED": 4_000, "ERROR": 660}
    assert accounted["total_accounted"] == sum(counts.values()) == RECORDS
    assert accounted["unaccounted"] == 0


def test_the_ledger_says_how_it_was_proved(airline):
    verification = airline.ledger["verification"]
    assert verification["accounting_balanced"] is True
    assert verification["proof_method"] == "set_equality_with_collision_detection"


def test_each_partition_of_the_ledger_points_at_as_many_keys_as_it_counts(airline):
    entries = airline.ledger["output_accounting"]["partitions"]
    assert len(entries) == 3
    for entry in entries:
        location = airline.asset / entry["adjoint_location"]
        assert location.exists()
        assert len(set(evidence_keys(location))) == entry["record_count"]


def test_no_key_has_two_fates(airline):
    kinds = ("AGGREGATED", "FILTERED", "ERROR")
    keys = [key for kind in kinds for key in evidence_keys(airline.evidence(kind))]
    assert len(keys) == len(set(keys)) == RECORDS


def test_the_ledger_of_the_run_repeats_the_balance_of_its_asset(airline):
    ledger = json.loads((airline.folder / "ledger.json").read_text())
    asset = ledger["assets"]["daily_revenue"]
    assert ledger["ledger_version"] == "1.0"
    assert ledger["run_id"] == airline.run_id
    assert ledger["balanced"] is True
    assert (asset["records_in"], asset["unaccounted"], asset["rows_out"]) == (RECORDS, 0, 32)
    assert asset["fates"]["AGGREGATED"] == 345_000
    assert (airline.folder / asset["ledger"]).samefile(airline.asset / "ledger.json")


def test_there_are_726_rejections_of_660_records(airline):
    rejections = airline.rejections
    assert len(rejections) == 726
    assert len({row["source_key"] for row in rejections}) == 660
    assert Counter(row["error_type"] for row in rejections) == {
        "refinement_error": 198,
        "type_cast_error": 132,
        "null_error": 132,
        "join_error": 132,
        "parse_error": 132,
    }


def test_each_rejection_has_all_ten_fields(airline):
    rejections = airline.rejections
    assert len(rejections) == 726
    for row in rejections:
        assert set(row) >= REJECTION_FIELDS
        assert [field for field in REJECTION_FIELDS if row[field] is None] == []
        assert row["run_id"] == airline.run_id


def test_a_rejection_is_stored_under_its_error_type(airline):
    folders = list((airline.asset / "errors").glob("error_type=*"))
    assert len(folders) == 5
    for folder in folders:
        lines = [line for file in folder.glob("*.json*") for line in file.read_text().splitlines()]
        assert {json.loads(line)["error_type"] for line in lines} == {folder.name.split("=")[1]}


def test_a_rejection_carries_the_code_of_its_rule_or_one_derived_from_its_path(airline):
    negative = [row for row in airline.rejections if row["error_code"] == "NEGATIVE_PRICE"]
    assert len(negative) == 132
    assert {row["actual"] for row in negative} == {"-50.00"}
    for row in airline.rejections:
        if row["error_code"] != "NEGATIVE_PRICE":
            derived = f"{row['error_type']}_{row['morphism_path'].replace('.', '_')}".upper()
            assert row["error_code"] == derived


def test_a_record_with_two_faults_has_two_rejections(airline):
    per_key = Counter(row["source_key"] for row in airline.rejections)
    twice = {key for key, count in per_key.items() if count > 1}
    assert twice == {f"SEG-{i:07d}" for i in range(0, RECORDS, 5300)}


def test_the_summary_counts_every_rejection(airline):
    groups = json.loads((airline.asset / "errors" / "_summary.json").read_text())
    counted = Counter((row["error_type"], row["morphism_path"]) for row in airline.rejections)
    assert sum(group["count"] for group in groups) == 726
    assert {(g["error_type"], g["morphism_path"]): g["count"] for g in groups} == counted


def test_the_samples_of_the_summary_are_the_smallest_values(airline):
    groups = json.loads((airline.asset / "errors" / "_summary.json").read_text())
    assert len(groups) >= 5
    for group in groups:
        rows = [
            row
            for row in airline.rejections
            if row["error_type"] == group["error_type"]
            and row["morphism_path"] == group["morphism_path"]
        ]
        assert group["sample_actual_value"] == min(row["actual"] for row in rows)
        assert group["sample_error_code"] == min(row["error_code"] for row in rows)


def test_the_output_has_one_exact_row_per_day(airline, scenario):
    rows = output_rows(airline)
    assert len(rows) == 32
    assert rows == scenario(RECORDS).days
    assert sum(total for total, _ in rows.values()) == Decimal("120685131.90")
    assert min(count for _, count in rows.values()) == 10_759
    assert max(count for _, count in rows.values()) == 10_803


@pytest.mark.parametrize(
    ("day", "total", "segments"),
    [
        (date(2024, 1, 15), "3763418.88", 10_759),
        (date(2024, 1, 16), "3779999.09", 10_801),
        (date(2024, 2, 15), "3778996.48", 10_800),
    ],
)
def test_a_day_has_the_revenue_of_the_specification(airline, day, total, segments):
    assert output_rows(airline)[day] == (Decimal(total), segments)


def test_the_evidence_of_the_aggregation_names_group_key_and_source(airline):
    location = airline.evidence("AGGREGATED")
    assert location == airline.asset / "adjoint/reverse_joins/daily_revenue_aggregation.parquet"
    table = pq.read_table(location)
    assert {"group_key", "source_key", "morphism_id", "run_id", "epoch"} <= set(table.column_names)
    assert table.num_rows == 345_000
    days = Counter(group["flight_date"] for group in table["group_key"].to_pylist())
    assert days == {day: segments for day, (_, segments) in output_rows(airline).items()}


def test_the_evidence_of_the_filter_names_its_predicate(airline):
    location = airline.evidence("FILTERED")
    assert location == airline.asset / "adjoint/filtered_keys/flown_status_filter.parquet"
    table = pq.read_table(location)
    expected = {"source_key", "filter_predicate", "morphism_id", "run_id", "epoch"}
    assert expected <= set(table.column_names)
    assert table.num_rows == 4_000
    [predicate] = table["filter_predicate"].unique().to_pylist()
    assert "FLOWN" in predicate


def test_the_filtered_keys_are_the_cancelled_segments(airline, scenario):
    expected = {f"SEG-{i:07d}" for i in scenario(RECORDS).filtered_indexes}
    assert set(evidence_keys(airline.evidence("FILTERED"))) == expected


def test_a_day_leads_back_to_its_source_keys(airline, tallyman):
    asked = ("daily_revenue", "flight_date=2024-01-15", "--keys", "--version", "1")
    reply = tallyman(airline.project, "why", *asked)
    assert reply.code == 0, str(reply)
    [hop] = reply.json["hops"]
    assert (hop["asset"], hop["version"], hop["run"]) == ("daily_revenue", 1, airline.run_id)
    step = {"step": "daily_revenue_aggregation", "did": "combined", "count": 10_759}
    assert (hop["steps"], hop["records"]) == ([step], 10_759)
    [segments] = hop["inputs"]
    keys = segments["keys"]
    assert len(keys) == len(set(keys)) == sum(segments["files"].values()) == 10_759
    assert all(int(key.removeprefix("SEG-")) % 32 == 0 for key in keys)


def test_a_day_leads_back_to_its_original_records_and_their_lines(airline, tallyman):
    day = "flight_date=2024-01-15"
    reply = tallyman(airline.project, "why", "daily_revenue", day, "--limit", "0")
    assert reply.code == 0, str(reply)
    [hop] = reply.json["hops"]
    [segments] = hop["inputs"]
    values = [record["values"] for record in segments["records"]]
    assert segments["count"] == len(values) == 10_759
    assert {record["flight_date"] for record in values} == {"2024-01-15"}
    assert {record["status"] for record in values} == {"FLOWN"}
    assert sum(Decimal(str(r["ticket_price"])) for r in values) == Decimal("3763418.88")
    one = segments["records"][-1]
    line = (airline.project / one["file"]).read_text().splitlines()[one["line"] - 1]
    assert f'"segment_id":"{one["key"]}"' in line
    [airlines] = hop["joins"]
    assert {record["values"]["code"] for record in airlines["origin"]["records"]} == {
        record["airline"] for record in values
    }


def test_a_day_without_output_is_no_row(airline, tallyman):
    reply = tallyman(airline.project, "why", "daily_revenue", "flight_date=1999-01-01")
    assert (reply.code, reply.json["error"]["code"]) == (2, "not_found"), str(reply)


def test_a_record_leads_forward_to_its_row_its_filter_or_its_rejections(airline, tallyman):
    """Number 0 is rejected twice, 1 is cancelled, 32 is in a day; 2120 is half a line."""
    became = {}
    for number in (0, 1, 32, 2120):
        asked = ("segments", f"segment_id=SEG-{number:07d}", "--run", airline.run_id)
        reply = tallyman(airline.project, "where", *asked)
        assert reply.code == 0, str(reply)
        [became[number]] = reply.json["became"]
    rules = {(r["rule"], r["step"], r["actual"]) for r in became[0]["rejections"]}
    assert rules == {
        ("segments.ticket_price", "ingest", "NOT_A_NUMBER"),
        ("daily_revenue.distance_not_negative", "20_expect", "-100"),
    }
    [ended] = became[1]["filtered"]
    assert (ended["step"], ended["reason"]) == ("flown_status_filter", "not flown")
    assert (became[32]["dataset"], became[32]["version"]) == ("daily_revenue", 1)
    assert [row["flight_date"] for row in became[32]["shown"]] == ["2024-01-15"]
    assert [r["error_type"] for r in became[2120]["rejections"]] == ["parse_error"]


def test_an_airline_was_joined_by_the_segments_that_reached_the_join(airline, tallyman):
    segments = [
        json.loads(line)
        for file in (airline.project / "data" / "bookings").rglob("*.jsonl")
        for line in file.read_text().splitlines()
        if '"airline":"AC"' in line
    ]
    reached = [
        s
        for s in segments
        if s["status"] == "FLOWN"
        and s["flight_date"]
        and isinstance(s["ticket_price"], float)
        and s["ticket_price"] > 0
    ]
    reply = tallyman(airline.project, "where", "airlines", "code=AC")
    [found] = reply.json["became"]
    assert (found["role"], found["joined_by"]) == ("reference", len(reached)), str(reply)
    assert 0 < len(reached) < len(segments)


def test_the_rejections_can_be_listed_and_shown(airline, tallyman):
    listed = tallyman(airline.project, "rejections", "ls", airline.run_id)
    shown = tallyman(airline.project, "rejections", "show", airline.run_id, "--limit", "5")
    assert listed.code == shown.code == 0
    assert sum(group["count"] for group in listed.json) == 726
    assert {group["asset"] for group in listed.json} == {"daily_revenue"}
    assert shown.json["count"] == 726
    assert len(shown.json["rejections"]) == 5


def test_the_run_folder_can_be_read_with_ls(airline):
    stamp, short_id = re.fullmatch(r"(\d{4}_\d{6})_(.+)", airline.folder.name).groups()
    assert stamp
    assert airline.run_id.startswith(short_id)
    assert airline.folder.parent == airline.project / "runs"
    for name in ("manifest.json", "config.json", "ledger.json", "processing_report.json"):
        json.loads((airline.folder / name).read_text())
    for name in ("errors", "adjoint/reverse_joins", "adjoint/filtered_keys", "output"):
        assert (airline.asset / name).is_dir()


def test_a_second_run_is_the_same_but_for_its_ids(small, tallyman):
    reply = tallyman(small.project, "run", "--force")
    assert reply.code == 0, str(reply)
    second = type(small)(small.project, reply.json)
    assert second.run_id != small.run_id
    assert second.folder != small.folder
    assert accounts(second) == accounts(small)
    assert output_rows(second) == output_rows(small)
    assert without_ids(second.rejections) == without_ids(small.rejections)
    summaries = [(run.asset / "errors" / "_summary.json").read_text() for run in (second, small)]
    assert summaries[0] == summaries[1]
    for kind in ("AGGREGATED", "FILTERED"):
        pair = [Counter(evidence_keys(run.evidence(kind))) for run in (second, small)]
        assert pair[0] == pair[1]


@pytest.mark.parametrize("run_id", ["../x", "x" * 65], ids=["outside", "too long"])
def test_a_run_id_that_is_no_file_name_is_refused(airline_project, tallyman, run_id):
    project = airline_project(100)
    reply = tallyman(project, "run", "--run-id", run_id)
    assert reply.code == 2, str(reply)
    assert not (project / "runs").exists()
    assert [path.name for path in project.parent.iterdir()] == ["airline"]


def test_a_run_id_that_was_used_is_refused(airline_project, tallyman):
    project = airline_project(100)
    generated = tallyman(project, "run")
    given = tallyman(project, "run", "--run-id", "monday")  # skipped: nothing has changed
    assert [generated.code, given.code] == [0, 0], f"{generated} {given}"
    before = sorted((project / "runs").iterdir())
    for run in (generated, given):
        again = tallyman(project, "run", "--run-id", run.json["run_id"])
        assert again.code == 2, str(again)
    assert sorted((project / "runs").iterdir()) == before
