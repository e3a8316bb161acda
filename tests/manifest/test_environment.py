"""Settings as they may be written down."""

from __future__ import annotations

import pytest

from tallyman.domain.definition.canonical_json import canonical_hash
from tallyman.engine.spark.environment import environment, without_secrets


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


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.box.acct.blob.core.windows.net",
        "spark.executorEnv.OPENAI_API_KEY",
        "spark.executorEnv.DB_PWD",
        "spark.executorEnv.DB_PASS",
        "spark.my.dbPass",
        "spark.my.passphrase",
        "spark.hadoop.fs.s3a.server-side-encryption.key",
        "spark.hadoop.fs.s3a.server-side-encryption-key",
        "spark.my.signing-key",
        "spark.kafka.basic.auth.user.info",
    ],
)
def test_secrets_have_many_names(name: str) -> None:
    assert without_secrets({name: "hush"}) == {name: "***"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.shuffle.partitions", "7"),
        ("spark.sql.files.maxPartitionBytes", "128m"),
        ("spark.hadoop.fs.s3a.endpoint", "https://s3.example.org:9000/a@b"),
        ("spark.hadoop.fs.s3a.path.style.access", "true"),
        ("spark.hadoop.fs.azure.account.keyprovider.acct", "org.example.Provider"),
        ("spark.io.encryption.keySizeBits", "256"),
        ("spark.my.unique_key", "segment_id"),
        ("spark.my.group_key", "flight_date"),
        ("spark.my.passengers", "3"),
        ("spark.sql.analyzer.singlePassResolver.enabled", "true"),
        ("spark.my.design", "x"),
        ("spark.driver.extraJavaOptions", "-Dkey=segment_id -Dpassengers=3 -Xmx1g"),
        ("spark.master", "spark://one.example.org:7077,two.example.org:7077"),
        ("spark.jdbc", "jdbc:oracle:thin:@//db.example.org:1521/x"),
    ],
)
def test_what_is_no_secret_stays_readable(name: str, value: str) -> None:
    assert without_secrets({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "wasbs://h.example.org/x?sv=1&sig=hush%3D&se=2",
            "wasbs://h.example.org/x?sv=1&sig=***&se=2",
        ),
        (
            "-Djavax.net.ssl.trustStorePassword=hush -Dother=1",
            "-Djavax.net.ssl.trustStorePassword=*** -Dother=1",
        ),
        ("-Da.password='hush hush' -Dother=1", "-Da.password=*** -Dother=1"),
        (
            "jdbc:oracle:thin:scott/hush@db.example.org:1521:x",
            "jdbc:oracle:thin:***@db.example.org:1521:x",
        ),
        ("jdbc:oracle:thin:scott/hu@sh@db", "jdbc:oracle:thin:***@db"),
        ("jdbc:x://ann:hush@hush@db.example.org/x", "jdbc:x://***@db.example.org/x"),
        ("jdbc:x://ann:hush/hush@hush@db.example.org/x", "jdbc:x://***@db.example.org/x"),
        ("a://ann:hush@one.example.org,b://bob:hush@two", "a://***@one.example.org,b://***@two"),
        (
            "jdbc:sqlserver://db:1433;password={hush;hush@};a=1",
            "jdbc:sqlserver://db:1433;password=***;a=1",
        ),
        (
            "jdbc:sqlserver://db:1433;password=hush@hush;a=1",
            "jdbc:sqlserver://db:1433;password=***;a=1",
        ),
        (
            'Module required username="ann" password="hu\\"hush";',
            'Module required username="ann" password=***;',
        ),
        ('{"user": "ann", "password": "hush"}', '{"user": "ann", "password": ***}'),
        ("AccountName=a;AccountKey=hush==;Suffix=x", "AccountName=a;AccountKey=***;Suffix=x"),
        ("Authorization: Bearer hushhushhush", "Authorization: Bearer ***"),
    ],
)
def test_of_a_value_only_the_secret_in_it_is_hidden(value: str, shown: str) -> None:
    assert without_secrets({"spark.x": value}) == {"spark.x": shown}


def test_versions_are_those_that_run() -> None:
    found = environment(None, {"spark.sql.ansi.enabled": "true"})
    assert found["packages"]["pyspark"] == found["pyspark_version"]
    assert found["packages"]["tallyman"] == found["tallyman_version"]
    assert found["packages_hash"] == canonical_hash(found["packages"])
    assert found["spark_settings"]["spark.sql.session.timeZone"] == "UTC"
    assert found["java_version"]
