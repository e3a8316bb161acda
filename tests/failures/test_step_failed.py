"""A step that Spark cannot evaluate: the message names the step and the cause, and what to do."""

from __future__ import annotations

import pytest

from tallyman.engine.spark.failure import DISK, LOST, MEMORY, UNKNOWN, failure_of, said_plainly
from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm
from pyspark.sql import functions as F

tm.source("orders", "data/orders.jsonl", key="id", schema="id int, v int, word string")


@tm.asset(key="id")
def divided(orders):
    return orders.filter("id > 0", reason="x").withColumn("w", "10 / (v - 2)", name="share")


@tm.asset(key="id")
def cast(orders):
    return orders.withColumn("n", F.col("word").cast("int")).filter("id > 0", reason="x")


@tm.asset(key="id")
def asked_for(orders):
    return orders.withColumn("w", "if(id = 2, raise_error('no twos'), 'fine')")


@tm.asset(key="id")
def beyond(orders):
    return orders.withColumn("w", "element_at(array(1, 2), v)")


@tm.asset(key="id", trace="changes")
def in_place(orders):
    return orders.update({"word": "'x'"}).update({"v": "1 / (v - 2)"}, name="ratio")
"""
EXPECTED = {
    "divided": ("share", "[DIVIDE_BY_ZERO]", "try_divide"),
    "cast": ("10_withColumn", "The value 'two' of the type", "try_cast"),
    "beyond": ("10_withColumn", "The index 3 is out of bounds", "(try_element_at)"),
    "asked_for": ("10_withColumn", "no twos", "raise_error"),
    "in_place": ("ratio", "[DIVIDE_BY_ZERO]", "try_divide"),
}


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    home = homes.make(Home, "failures").pipeline(PIPELINE)
    rows = [{"id": n, "v": n, "word": word} for n, word in ((1, "1"), (2, "two"), (3, "3"))]
    home.data("orders.jsonl", *rows)
    return home


def test_the_message_names_step_cause_and_remedy(home: Home) -> None:
    found = home.tallyman("run", *EXPECTED)
    assert found.code == 1
    by_asset = {one["name"]: one["error"] for one in found.json["assets"]}
    for name, (step, said, remedy) in EXPECTED.items():
        error = by_asset[name]
        assert error["code"] == "step_failed"
        assert error.get("step") == step, error
        assert said in error["message"], error
        assert remedy in error["hint"], error
        assert error["hint"].startswith("Nothing was published.")
        assert str(home.path) not in error["message"]
        assert "ansi" not in error["message"]
    run = home.path / found.json["folder"]
    for name in ("divided", "cast"):
        assert (run / name / "SPARK_ERROR.txt").read_text()
    assert "Traceback" not in home.printed("run", "divided").stderr


@pytest.mark.parametrize(
    ("text", "reason", "advice"),
    [
        (
            "An error occurred while calling o1.parquet.\n: java.lang.OutOfMemoryError: Java heap "
            "space\n\tat x",
            "Spark ran out of memory",
            MEMORY,
        ),
        ("java.io.IOException: No space left on device", "no space left on the disk", DISK),
        ("Answer from Java side is empty", "Answer from Java side is empty", LOST),
        (
            "An error occurred while calling o1.parquet.\n: org.x.OddException: it was odd\n\tat y",
            "it was odd",
            UNKNOWN,
        ),
        ("", "RuntimeError", UNKNOWN),
    ],
)
def test_causes_outside_of_expressions_have_remedies_of_their_own(
    text: str, reason: str, advice: str
) -> None:
    found = failure_of(RuntimeError(text), said_plainly)
    assert reason in found.reason
    assert "calling o1" not in found.reason
    assert found.advice == advice


def test_of_redacted_columns_only_the_kind_is_said() -> None:
    text = (
        "[CAST_INVALID_INPUT] The value 'secret'\n== DataFrame ==\n\"cast\" was called from\n/a:1\n"
    )
    found = failure_of(RuntimeError(text), lambda _: "CAST_INVALID_INPUT: hidden")
    assert "secret" not in found.reason
    python = 'x\nTraceback (most recent call last):\n  File "a", line 1, in f\nValueError: secret\n'
    assert "secret" not in failure_of(RuntimeError(python), lambda _: "hidden").reason
