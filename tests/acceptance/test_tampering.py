"""A finished run that somebody changed is noticed, and the records concerned are named."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def rewrite_a_part(dataset, change):
    """Put another table in the place of one part file, as a careful forger would."""
    part = min(p for p in dataset.rglob("part-*.parquet") if pq.read_metadata(p).num_rows > 0)
    pq.write_table(change(pq.ParquetFile(part).read()), part)
    # Hadoop's checksum beside the file would give a forger away; this one removes it.
    part.with_name(f".{part.name}.crc").unlink(missing_ok=True)


def with_one_more_row(table, source_key):
    column = table.schema.get_field_index("source_key")
    field = table.schema.field("source_key")
    row = table.slice(0, 1).set_column(column, field, pa.array([source_key], field.type))
    return pa.concat_tables([table, row])


def first_source_key(dataset):
    part = min(p for p in dataset.rglob("part-*.parquet") if pq.read_metadata(p).num_rows > 0)
    return pq.ParquetFile(part).read()["source_key"][0].as_py()


@pytest.fixture
def verify(tallyman):
    return lambda run, *words: tallyman(run.project, "verify", run.run_id, *words)


def numbers(reply):
    return {kind: reply.json[kind] for kind in ("missing", "extra", "duplicate")}


def test_an_untouched_run_is_found_balanced(airline, verify):
    reply = verify(airline, "--exact")
    assert reply.code == 0, str(reply)
    assert reply.json["run_id"] == airline.run_id
    assert reply.json["balanced"] is True
    assert numbers(reply) == {"missing": 0, "extra": 0, "duplicate": 0}


def test_a_dropped_filtered_key_is_missing(small_copy, verify):
    filtered = small_copy.evidence("FILTERED")
    key = first_source_key(filtered)
    rewrite_a_part(filtered, lambda table: table.slice(1))
    reply = verify(small_copy)
    assert reply.code == 1, str(reply)
    assert reply.json["balanced"] is False
    assert numbers(reply) == {"missing": 1, "extra": 0, "duplicate": 0}
    assert reply.json["samples"]["missing"] == [key]


def test_an_error_key_among_the_aggregated_ones_is_a_duplicate(small_copy, verify):
    refused = [r for r in small_copy.rejections if r["error_code"] == "NEGATIVE_PRICE"]
    key = refused[0]["source_key"]
    aggregated = small_copy.evidence("AGGREGATED")
    rewrite_a_part(aggregated, lambda table: with_one_more_row(table, key))
    reply = verify(small_copy)
    assert reply.code == 1, str(reply)
    assert reply.json["balanced"] is False
    assert numbers(reply) == {"missing": 0, "extra": 0, "duplicate": 1}
    assert reply.json["samples"]["duplicate"] == [key]


def test_a_key_that_was_never_read_is_extra(small_copy, verify):
    aggregated = small_copy.evidence("AGGREGATED")
    rewrite_a_part(aggregated, lambda table: with_one_more_row(table, "SEG-9999999"))
    reply = verify(small_copy)
    assert reply.code == 1, str(reply)
    assert reply.json["balanced"] is False
    assert numbers(reply) == {"missing": 0, "extra": 1, "duplicate": 0}
    assert reply.json["samples"]["extra"] == ["SEG-9999999"]


def test_one_changed_byte_of_an_input_is_noticed(small_copy, verify):
    text = b'"ticket_price":115.54'
    path = small_copy.project / "data" / "bookings" / "2024-01-01" / "segments.jsonl"
    before = path.read_bytes()
    changed = text[:-1] + bytes([text[-1] ^ 1])
    assert before.count(text) > 0
    path.write_bytes(before.replace(text, changed, 1))
    reply = verify(small_copy, "--exact")
    assert reply.code == 1, str(reply)
    assert reply.json["balanced"] is False
