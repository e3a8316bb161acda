"""Settings as they may be written down."""

from __future__ import annotations

from tallyman.engine.environment import environment, without_secrets


def test_a_value_whose_name_says_secret_is_hidden() -> None:
    given = {
        "spark.hadoop.fs.s3a.access.key": "AKIA",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.ssl.keyPassword": "hush",
        "spark.hadoop.token": "hush",
        "spark.my.apiKey": "hush",
        "spark.sql.shuffle.partitions": "7",
    }
    shown = without_secrets(given)
    assert [name for name, value in shown.items() if value != "***"] == [
        "spark.sql.shuffle.partitions"
    ]
    assert shown["spark.sql.shuffle.partitions"] == "7"


def test_a_password_in_an_address_is_hidden() -> None:
    shown = without_secrets({"spark.jdbc": "jdbc:postgresql://ann:hush@db.example.org/x?ssl=1"})
    assert shown == {"spark.jdbc": "jdbc:postgresql://***@db.example.org/x?ssl=1"}


def test_a_password_in_the_query_of_an_address_is_hidden() -> None:
    shown = without_secrets({"spark.jdbc": "jdbc:x://db.example.org/x?user=ann&password=hush&a=1"})
    assert shown == {"spark.jdbc": "jdbc:x://db.example.org/x?user=ann&password=***&a=1"}


def test_versions_are_those_that_run() -> None:
    found = environment(None, {"spark.sql.ansi.enabled": "true"})
    assert found["packages"]["pyspark"] == found["pyspark_version"]
    assert found["packages"]["tallyman"] == found["tallyman_version"]
    assert found["spark_settings"]["spark.sql.session.timeZone"] == "UTC"
    assert found["java_version"]
