"""Partitions are written and read back without loss, and never leave their folder."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.pipeline.partition import (
    KEY_LENGTH,
    Partitioning,
    daily,
    decode,
    encode,
    partitions,
)
from tallyman.errors import UsageError

texts = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from(":|=%'\"\\$./{}\n\0 ~sdtn")),
    max_size=40,
)
values = st.one_of(st.dates(), texts)
words = st.lists(texts.filter(bool), min_size=1, max_size=6, unique=True)


@given(values)
def test_a_key_gives_its_value_back(value: date | str) -> None:
    found = decode(encode(value))

    assert found == value
    assert type(found) is type(value)


@given(values, values)
def test_two_values_never_share_a_key(one: date | str, other: date | str) -> None:
    assert (encode(one) == encode(other)) == (one == other)


@given(values)
def test_a_key_is_one_printable_line_that_fits_its_column(value: date | str) -> None:
    key = encode(value)

    assert key
    assert key.isprintable()
    assert len(key) <= KEY_LENGTH


@given(st.text(max_size=30) | st.from_regex(r"(d|dt|ndt|s|t):[-\w:.]{0,12}", fullmatch=True))
def test_a_text_is_the_one_key_of_its_value_or_no_key_at_all(text: str) -> None:
    try:
        value = decode(text)
    except UsageError:
        return
    assert encode(value) == text


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (date(2025, 1, 15), "d:2025-01-15"),
        ("eu", "eu"),
        ("München", "München"),
        ("a:b", "s:YTpi"),
        ("a|b", "s:YXxi"),
        ("", "s:"),
        ("a\nb", "s:YQpi"),
    ],
)
def test_keys_look_like_this(value: date | str, key: str) -> None:
    assert encode(value) == key
    assert decode(key) == value


@pytest.mark.parametrize("value", ["x" * 256, ":" * 200, "\ud800"])
def test_what_cannot_be_kept_is_refused(value: str) -> None:
    with pytest.raises(UsageError):
        encode(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x:1", "a|b", "d:20250115", "d:2025-13-01", "s:YQ", "s:YTpi==", "s:*"),
        *("t:W10", "dt:2025-01-15T12:00:00Z", "ndt:2025-01-15T12:00:00", "d:2025-01-01T00:00"),
    ],
)
def test_a_second_spelling_of_a_value_is_not_a_key(text: str) -> None:
    with pytest.raises(UsageError, match="is not a partition key"):
        decode(text)


@given(words, texts.filter(bool))
def test_distinct_keys_have_distinct_safe_folders(listed: list[str], column: str) -> None:
    split = Partitioning(column=column, kind="strings", values=("x",))
    folders = [split.folder(encode(value)) for value in listed]

    assert len(set(folders)) == len(listed)
    assert all(re.fullmatch(r"[A-Za-z0-9._%-]+=[A-Za-z0-9._%-]+", name) for name in folders)


@given(st.lists(st.text("漢字", min_size=90, max_size=120), min_size=2, max_size=4, unique=True))
def test_long_values_have_distinct_folders_that_a_file_system_takes(listed: list[str]) -> None:
    split = partitions("region", listed)
    folders = {split.folder(key) for key in split.keys()}  # noqa: SIM118

    assert len(folders) == len(listed)
    assert max(map(len, folders)) <= 255 - 50


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("eu", "region=eu"),
        (".", "region=."),
        ("../x", "region=..%2Fx"),
        ("a=b", "region=a%3Db"),
        ("~", "region=%7E"),
        ("%41", "region=%2541"),
        ("A", "region=A"),
    ],
)
def test_folders_look_like_this(value: str, folder: str) -> None:
    split = partitions("region", [value])
    assert split.folder(split.parse(value)) == folder


def _spark_reads(literal: str) -> str:
    """What Spark makes of a string literal, by its documented escapes."""
    assert re.fullmatch(r"'(?:[^'\\]|\\.)*'", literal, re.S), "one literal and nothing after it"
    escape = re.compile(r"\\u([0-9A-Fa-f]{4})|\\(.)", re.S)
    return escape.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], literal[1:-1])


@given(texts.filter(bool))
def test_a_literal_is_one_string_of_that_value(value: str) -> None:
    split = partitions("region", [value])
    literal = split.literal(split.parse(encode(value)))

    assert _spark_reads(literal) == value
    assert "${" not in literal


def test_the_literal_of_a_day_is_a_date() -> None:
    assert daily("day", "2025-01-01").literal("d:2025-01-31") == "DATE '2025-01-31'"


@given(words)
def test_a_value_and_its_key_mean_the_same_partition(listed: list[str]) -> None:
    try:
        split = partitions("region", listed)
    except UsageError:
        return
    for value in listed:
        key = split.parse(value)
        assert split.parse(key) == key
        assert split.value(key) == split.text(key) == value


def test_a_day_may_be_typed_with_or_without_its_tag() -> None:
    days = daily("day", "2025-01-01", date(2025, 1, 31))

    assert days.parse("2025-01-15") == days.parse("d:2025-01-15") == "d:2025-01-15"
    assert days.value("d:2025-01-15") == date(2025, 1, 15)
    assert days.text("d:2025-01-15") == "2025-01-15"
    assert days.folder("d:2025-01-15") == "day=2025-01-15"


def test_a_backfill_of_days_takes_both_ends() -> None:
    days = daily("day", "2025-01-30")

    assert days.keys("2025-01-31", "d:2025-02-01") == ["d:2025-01-31", "d:2025-02-01"]
    assert days.keys(None, "2025-01-30") == ["d:2025-01-30"]
    assert len(daily("day", "2025-01-01", "2025-01-31").keys()) == 31


def test_a_backfill_of_days_without_an_end_asks_for_one() -> None:
    with pytest.raises(UsageError, match="--to"):
        daily("day", "2025-01-30").keys("2025-01-31", None)


def test_a_backfill_of_values_keeps_the_declared_order() -> None:
    split = partitions("region", ["c", "a:b", "b", "d"])

    assert split.keys() == ["c", "s:YTpi", "b", "d"]
    assert split.keys("a:b", "b") == ["s:YTpi", "b"]
    assert split.keys("b") == ["b", "d"]
    assert split.keys(None, "c") == ["c"]


@pytest.mark.parametrize(
    "split", [partitions("region", ["a", "b"]), daily("day", "2025-01-01", "2025-01-02")]
)
def test_a_backfill_backwards_is_refused(split: Partitioning) -> None:
    first, last = split.keys()
    with pytest.raises(UsageError, match="comes before"):
        split.keys(last, first)


def test_a_key_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a date"):
        daily("day", "2025-01-01").value("eu")
    with pytest.raises(UsageError, match="expected text"):
        partitions("region", ["eu"]).value("d:2025-01-01")


@pytest.mark.parametrize(
    "declare",
    [
        lambda: partitions("region", []),
        lambda: partitions("region", "eu"),
        lambda: partitions("region", ["eu", "us", "eu"]),
        lambda: partitions("region", [""]),
        lambda: partitions("region", ["a:b", "s:YTpi"]),
        lambda: partitions("", ["eu"]),
        lambda: daily("day", "2025-1-1"),
        lambda: daily("day", datetime(2025, 1, 1, tzinfo=UTC)),
        lambda: daily("day", "2025-01-02", "2025-01-01"),
        lambda: Partitioning(column="day", kind="weekly", start=date(2025, 1, 1)),
        lambda: Partitioning(column="day", kind="daily"),
    ],
)
def test_a_partitioning_that_means_nothing_is_refused(declare: Callable[[], Partitioning]) -> None:
    with pytest.raises(UsageError):
        declare()
