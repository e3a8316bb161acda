"""Lines of a small file, looked at in this process: what a Spark job finds in the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tallyman.engine.files.listing import list_files
from tallyman.engine.source import lines
from tests.world.scale import some

CASES = (
    ("\n", b"a,b\n1,2\n"),
    ("\n", b"\xef\xbb\xbfa\nb"),
    ("\n", b'a\r\n\n\none "open\nline"\n\n'),
    ("\n", "é\u2028x\x0b\x0c\x1c\x85y\nz\x00\n".encode()),
    ("\n", b"\xef\xbb\xbf\xef\xbb\xbfa\n"),
    ("\n", b""),
    ("\n", b"\n"),
    ("\n", b"\xef\xbb\xbf"),
    (None, b"a\r\nb\rc\n\r\n"),
    (None, b"a\r"),
    ("\r\n", b"a\nb\r\nc\r\n"),
    ("||", b"a||||b|"),
)
OPEN = lines.LineMark(f"contains({lines.TEXT}, 'open')", lambda text: "open" in text)


@contextmanager
def by_a_job(spark: SparkSession) -> Iterator[None]:
    """A setting that may divide files, though not these."""
    spark.conf.set(lines.SPLITTING[0], "128MB")
    try:
        yield
    finally:
        spark.conf.unset(lines.SPLITTING[0])


@pytest.mark.parametrize(("separator", "content"), some(CASES, 4), ids=repr)
def test_a_small_file_has_the_lines_that_spark_finds(
    spark: SparkSession, tmp_path: Path, separator: str | None, content: bytes
) -> None:
    (tmp_path / "x é.csv").write_bytes(content)
    files = list_files("s", "x é.csv", tmp_path)
    here = lines.splits(spark, files, separator, OPEN)
    assert here.table is None
    with by_a_job(spark):
        job = lines.splits(spark, files, separator, OPEN)
    assert (job.table is None) == (not job.lines)
    assert (here.lines, here.marked) == (job.lines, job.marked)
    assert list(here.first_lines.values()) == list(job.first_lines.values())
    read, wanted = (
        lines.numbered(spark, files, known, separator).orderBy(lines.NUMBER).collect()
        for known in (here, job)
    )
    assert read == wanted
    assert [row[lines.NUMBER] for row in read] == list(range(1, here.lines + 1))


def test_what_spark_may_divide_or_read_differently_is_looked_at_by_a_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b"a\nb\xff\n")
    assert lines.splits(spark, list_files("s", "x.csv", tmp_path), "\n").table is not None
    file.write_bytes(b"a\nb\n")
    assert lines.splits(spark, list_files("s", "x.csv", tmp_path), "\n").table is None
    monkeypatch.setattr(lines, "ONE_SPLIT", 3)
    assert lines.splits(spark, list_files("s", "x.csv", tmp_path), "\n").table is not None
