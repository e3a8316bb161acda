"""A ledger that was written is read back as it was."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import (
    Check,
    Discrepancy,
    InputAccount,
    KeyDigest,
    Ledger,
    Partition,
    SubLedger,
)
from tallyman.domain.account.ledger_json import files_listed, is_ledger, of_json, to_json
from tallyman.domain.account.stored_ledger import StoredLedger

LANE = st.integers(0, 2**64 - 1)
COUNTS = st.integers(0, 10**9)
NAMES = st.text(min_size=1, max_size=8)
DIGESTS = st.builds(KeyDigest, COUNTS, LANE, LANE, LANE, LANE)
PARTITIONS = st.builds(
    Partition,
    fate=st.sampled_from(Fate),
    description=NAMES,
    digest=DIGESTS,
    location=NAMES,
    key_columns=st.lists(NAMES, max_size=2).map(tuple),
    marked=st.booleans(),
)
INPUTS = st.builds(
    InputAccount,
    dataset=NAMES,
    key_field=NAMES,
    content_hash=st.text("0123456789abcdef", min_size=1).map("sha256:{}".format),
    digest=st.builds(KeyDigest, COUNTS, *[st.integers(0, 2**62)] * 4),
    null_keys=COUNTS,
    duplicate_keys=st.none() | COUNTS,
    blank_lines=COUNTS,
    named_by_place=st.booleans(),
    missing_columns=st.dictionaries(NAMES, COUNTS, max_size=2),
)
SUBS = st.builds(
    SubLedger,
    opened_by=NAMES,
    unit=st.sampled_from(["child", "group", "row"]),
    units=DIGESTS,
    partitions=st.lists(PARTITIONS, max_size=3).map(tuple),
    sources=st.none() | DIGESTS,
)
KEYS = st.lists(NAMES, max_size=2)
FOUND = st.builds(
    Discrepancy,
    missing=COUNTS,
    extra=COUNTS,
    duplicate=COUNTS,
    samples=st.fixed_dictionaries(dict.fromkeys(("missing", "extra", "duplicate"), KEYS)),
)
LEDGERS = st.builds(
    Ledger,
    run_id=NAMES,
    asset=NAMES,
    inputs=st.lists(INPUTS, min_size=1, max_size=3).map(tuple),
    partitions=st.lists(PARTITIONS, max_size=4).map(tuple),
    sub_ledgers=st.lists(SUBS, max_size=2).map(tuple),
    evidence=st.sampled_from(["keys", "digest"]),
    discrepancy=FOUND,
    completed=st.booleans(),
    replay_of=st.none() | NAMES,
    checks=st.lists(st.builds(Check, what=NAMES, expected=DIGESTS, found=DIGESTS), max_size=2).map(
        tuple
    ),
    query=NAMES,
)
FILES = st.none() | st.dictionaries(NAMES, NAMES, max_size=3)
REDACTED = st.lists(NAMES, max_size=2).map(tuple)


@given(LEDGERS, REDACTED, FILES)
def test_what_is_written_is_read_back(
    ledger: Ledger, redacted: tuple[str, ...], files: dict[str, str] | None
) -> None:
    stored = StoredLedger.of(ledger, redacted=redacted, files=files)
    assert of_json(json.loads(json.dumps(to_json(stored)))) == stored
    assert (stored.records_in, stored.unaccounted) == (ledger.records_in, ledger.unaccounted)
    assert (stored.has_keys, stored.proof.balanced) == (ledger.evidence == "keys", ledger.balanced)


@given(st.builds(KeyDigest, COUNTS, *[st.integers()] * 4))
def test_the_lanes_of_a_digest_are_stored_modulo_their_size(digest: KeyDigest) -> None:
    read = KeyDigest.of_text(digest.count, str(digest))
    assert (read.count, str(read)) == (digest.count, str(digest))


@pytest.mark.parametrize("stated", [None, 1, 3, "2"])
def test_a_ledger_with_digests_of_another_version_is_refused(stated: object) -> None:
    written = _written()
    written["digest_version"] = stated
    with pytest.raises(ValueError, match="version"):
        of_json(written)


def test_a_ledger_with_a_shortened_digest_is_refused() -> None:
    written = _written()
    part = written["output_accounting"]["partitions"][0]
    part["key_digest"] = part["key_digest"][:32]
    with pytest.raises(ValueError, match="not a digest"):
        of_json(written)


@given(LEDGERS)
def test_totals_keep_the_sums(ledger: Ledger) -> None:
    whole = StoredLedger.of(ledger)
    found = whole.totals()
    assert (found.accounted.count, found.records_in) == (whole.accounted.count, whole.records_in)
    assert (found.has_keys, found.proof.balanced) == (whole.has_keys, whole.proof.balanced)
    assert len(found.partitions) == len({p.fate for p in whole.partitions if p.digest.count})


def test_the_hash_of_each_input_is_told_by_its_name() -> None:
    read = of_json(_written()).inputs
    assert read.hashes_of(["a", "b"]) == {"a": "sha256:1", "b": "sha256:2"}
    assert read.hashes_of(["a"]) == {}, "one of two hashes is nobody's"


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("output_accounting",), None),
        (("output_accounting", "partitions", 0, "record_count"), "3"),
        (("output_accounting", "partitions", 0, "partition_type"), "LOST"),
        (("output_accounting", "partitions", 0, "key_digest"), "0x1"),
        (("input_accounting", "total_records"), True),
        (("verification",), []),
        (("sub_ledgers",), 1),
    ],
)
def test_what_is_no_ledger_is_refused(place: tuple[Any, ...], wrong: Any) -> None:
    written = _written()
    inside = written
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = wrong
    with pytest.raises(ValueError, match="not a "):
        of_json(written)


def test_a_number_that_was_changed_is_read_as_it_stands() -> None:
    written = _written()
    written["output_accounting"]["unaccounted"] = 7
    assert of_json(written).unaccounted == 7


def test_only_the_ledger_of_a_target_is_one() -> None:
    written = _written()
    assert is_ledger(written)
    assert not is_ledger({"ledger_version": "1.0", "balanced": True, "assets": {}})
    assert files_listed(written) == {"output/a.parquet": "12ab"}
    assert files_listed({"files": ["a"]}) is None
    assert files_listed(None) is None


def _written() -> dict[str, Any]:
    one = Partition(
        fate=Fate.PASSED, description="kept", digest=KeyDigest(3, 1, 2), location="output/"
    )
    inputs = [
        InputAccount(
            dataset=f"data/{name}", key_field="id", content_hash=f"sha256:{n}", digest=KeyDigest(n)
        )
        for n, name in enumerate(("a", "b"), 1)
    ]
    sub = SubLedger(
        opened_by="10_groupBy",
        unit="group",
        units=KeyDigest(2),
        partitions=(),
        sources=KeyDigest(3),
    )
    ledger = Ledger(
        run_id="r1", asset="daily", inputs=tuple(inputs), partitions=(one,), sub_ledgers=(sub,)
    )
    files = {"output/a.parquet": "12ab"}
    return copy.deepcopy(to_json(StoredLedger.of(ledger, redacted=("name",), files=files)))
