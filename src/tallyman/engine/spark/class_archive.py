"""An archive of Spark's classes, from which Java starts in about half the time.

Java reads, checks and links some 15,000 classes from Spark's jars before the first row. It can keep
them ready in one file that it maps into memory. The file belongs to one Java and one set of jars;
Java itself ignores it if either has changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from tallyman.engine.spark.environment import java_version
from tallyman.errors import UsageError

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
LOG_TO_STDERR = "-Xlog:disable -Xlog:all=error:stderr"
"""Java prints warnings on stdout, among the answers of a command."""

TRAINING = """
import sys
from pyspark.sql import SparkSession, functions as F, Window
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
folder = sys.argv[1]
rows = spark.range(200).selectExpr(
    "id", "cast(id as string) as name", "id % 7 as kind", "cast(id / 3 as decimal(12,2)) as price",
    "cast('2024-01-01' as date) as day", "array(id, id + 1) as many", "struct(id, kind) as pair",
    "xxhash64(id) as hash", "current_timestamp() as moment",
)
rows.drop("many", "pair").write.csv(f"{folder}/csv", header=True)
rows.write.json(f"{folder}/json")
rows.write.partitionBy("kind").parquet(f"{folder}/parquet")
read = spark.read.parquet(f"{folder}/parquet").select("*", "_metadata.file_path").drop("many")
spark.read.schema("id long, name string").json(f"{folder}/json").count()
spark.read.schema("id long, name string").csv(f"{folder}/csv", header=True).count()
spark.read.text(f"{folder}/csv").selectExpr("from_csv(value, 'id long, name string')").count()
grouped = read.groupBy("kind").agg(
    F.sum("price"), F.count("*"), F.countDistinct("name"), F.collect_list("id"), F.max("moment")
)
joined = read.join(grouped, "kind").join(F.broadcast(rows.select("id", "many")), "id", "left")
window = Window.partitionBy("kind").orderBy("id")
joined.withColumn("place", F.row_number().over(window)).filter("place > 2").write.parquet(
    f"{folder}/joined"
)
rows.unionByName(rows).distinct().sort("name").limit(20).toArrow()
spark.sql("select 1 as one").collect()
spark.stop()
"""
"""Reading, writing, joining and grouping a few rows loads the classes that most runs need."""


def archive() -> Path:
    """The place of the archive for this Java and this PySpark, whether or not it exists."""
    known = f"{java_version()} {os.environ.get('JAVA_HOME')} {_jars()}"
    name = f"spark-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tallyman" / name


@contextmanager
def in_use(more: str = "") -> Iterator[None]:
    """Let Java use the archive, if there is one, and more options, when Spark starts."""
    found = archive()
    ours = f"{options(found) if found.is_file() else ''} {more}".strip()
    given = f"{ours} {os.environ.get(SUBMIT_OPTIONS, '')}".strip()
    with variable(SUBMIT_OPTIONS, given) if ours else nullcontext():
        yield


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def options(made: Path) -> str:
    return f"-XX:SharedArchiveFile={made} {LOG_TO_STDERR}"


def make() -> Path:
    """Start Spark once for training and keep its classes: about 20 seconds, 180 MB."""
    made = archive()
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        half = Path(folder) / made.name
        java = f"-XX:ArchiveClassesAtExit={half} {LOG_TO_STDERR}"
        done = subprocess.run(
            [sys.executable, "-c", TRAINING, folder],
            env={**os.environ, SUBMIT_OPTIONS: java, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not half.is_file():
            said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
            raise UsageError(f"Java made no archive of Spark's classes: {said}")
        half.replace(made)
    return made


def _jars() -> str:
    found = find_spec("pyspark")
    package = Path(found.origin).parent if found and found.origin else Path()
    folder = Path(os.environ.get("SPARK_HOME") or package) / "jars"
    return f"{folder} {folder.stat().st_mtime_ns if folder.is_dir() else 0}"
