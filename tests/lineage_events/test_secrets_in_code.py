"""The text of an asset goes to receivers: what is a secret in it does not, the rest does."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tallyman.control.compile.compiling import compiled_pipeline
from tallyman.control.openlineage.asset import code_of_asset
from tallyman.control.openlineage.plan_text import plan_text
from tallyman.control.openlineage.run_facets import message_of
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, Source
from tallyman.engine.code.shown_code import shown_code
from tests.lineage_events.plans import ledger_close

SIMPLE = [
    'df.option("password", "hunter2")',
    "df.option('password', 'hunter2')",
    'spark.conf.set("fs.s3a.secret.key", "hunter2")',
    'spark.conf.set(f"fs.azure.account.key.{account}.dfs", "hunter2")',
    'spark.conf.set(key="fs.s3a.secret.key", value="hunter2")',
    'os.environ["API_KEY"]="hunter2"',
    "os.environ['DB_PWD'] = 'hunter2'",
    'os.environ.setdefault("API_KEY", "hunter2")',
    'pwd = "hunter2"',
    'pwd: str = "hunter2"',
    'pwd: str | None = "hunter2"',
    'given = {"password": "hunter2", "a": 1}',
    "given = {'db.passphrase' : 'hunter2'}",
    'given = [("password", "hunter2")]',
    'password = "a\\"hunter2"',
    "password = 'a\\'hunter2'",
    'password = """a\nhunter2"""',
    "password = '''hunter2'''",
    'password = f"hunter2{x}"',
    'password = r"hunter2"',
    'password = b"hunter2"',
    'password = Rb"hunter2"',
    'password = ("a" "hunter2")',
    'password = "a" + "hunter2"',
    'load(password="hunter2", key="segment_id")',
    'login.password("hunter2")',
    'if password == "hunter2": pass',
    '"jdbc:x://db.example.org/x?password=hunter2"',
    '"jdbc:x://me:p@hunter2@db.example.org/x"',
    '"jdbc:oracle:thin:scott/hunter2@db.example.org"',
    '"wasbs://h.example.org/x?sig=hunter2&a=1"',
    'options = "-Dx.trustStorePassword=hunter2 -Da=1"',
    "# password = 'hunter2'",
    "# see https://me:hunter2@h.example.org/x",
]
PARSED = [
    'password = os.environ.get("X") or "hunter2"',
    'password = decode(decode("hunter2"), 8)',
    'user, password = "ann", "hunter2"',
    'def f(a, *, password=decode("hunter2")): ...',
    'given = {"password": decode("hunter2")}',
    'password = [\n    "a",\n    "hunter2",\n]',
    'password = "é" if x else "hunter2"',
    "pwd = 41172842172",
]
YAML = [
    "password: hunter2",
    "a:\n  - password: hunter2\n",
    '"password": hunter2',
    "password: 'hunter2'",
    'password: "a\\"hunter2"',
    "a: {b: 1, password: hunter2, c: 2}",
    "password: |\n  one\n  hunter2\nb: 2\n",
    "a:\n  password: >-\n    one\n\n    hunter2\n  b: 2\n",
    "db_pwd: hunter2",
    "url: jdbc:x://db.example.org/x;password=hunter2;a=1",
]
PARSED_YAML = [
    "password: one\n  hunter2\n",
    "password: &p hunter2\nb: *p\n",
    "x: {password: &p hunter2}\ny: {b: *p}\n",
    "a: &p hunter2\npassword: *p\n",
    "password: !!str hunter2\n",
    "? password\n: hunter2\n",
    "password: [one, hunter2]\n",
    "password:\n  first: hunter2\n",
    "env:\n  - name: DB_PASSWORD\n    value: hunter2\n",
    "é: ü\npassword:\n  hunter2\n",
]
HARMLESS = [
    "x = 'kept'\npassengers: 3",
    'bookings = tm.source("bookings", path="data", key="segment_id", format="csv")',
    "@tm.asset(key=['flight_date'], unique_key=\"a\", group_key='b')",
    'frame.groupBy("group_key", "day").agg(total="sum(price)", name="per_day")',
    'spark.conf.set("spark.sql.shuffle.partitions", "7")',
    'spark.conf.set("spark.hadoop.fs.s3a.endpoint", "https://s3.example.org")',
    "def f(\n    token: str,\n    password: str,\n):\n    return {token: password}",
]


def told(language: str, text: str) -> str:
    return shown_code(language, text).text


@pytest.mark.parametrize("text", [*SIMPLE, *PARSED])
def test_secrets_in_python_are_hidden_and_it_is_still_python(text: str) -> None:
    found = told("PYTHON", text)
    assert "hunter2" not in found
    assert "41172842172" not in found
    assert "***" in found
    compile(found, "told", "exec")
    inside = told("PYTHON", "\n".join(f"    {line}" for line in text.split("\n")))
    assert "hunter2" not in inside
    assert inside.startswith("    ")


@pytest.mark.parametrize("text", [*YAML, *PARSED_YAML])
def test_secrets_in_yaml_are_hidden_and_it_is_still_yaml(text: str) -> None:
    found = told("YAML", text)
    assert "hunter2" not in found
    assert "***" in found
    if "&p" not in text:  # an anchor is hidden with its value
        same = set(yaml.compose(text).value[0][0].value)
        assert set(yaml.compose(found).value[0][0].value) == same


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_told(text: str) -> None:
    assert told("PYTHON", text) == text


def test_what_is_no_secret_in_yaml_is_told() -> None:
    text = "key: segment_id\nunique_key: [a, b]  # all\nwhere: {{EMEA}}\nx: |\n  a = 'b'\n\ny: 1\n"
    assert told("YAML", text) == text


def test_where_a_statement_names_a_secret_no_constant_is_shown() -> None:
    text = 'a = 1\nload("x", key=7, password="hunter2")\nb = f"{a} kept"  # no secret\n'
    hidden = "a = 1\nload('***', key='***', password='***')\nb = f\"{a} kept\"  # ***\n"
    assert told("PYTHON", text) == hidden
    given = "a: 1\nb: {password: x, c: 2, d: {e: 3}}\n"
    assert told("YAML", given) == "a: 1\nb: {password: '***', c: '***', d: {e: 3}}\n"


@pytest.mark.parametrize(
    ("language", "text"),
    [("PYTHON", "x = ('hunter2'"), ("PYTHON", "x = 'hunter2"), ("YAML", "a: {b: 'hunter2'")],
)
def test_of_what_cannot_be_parsed_nothing_is_shown(language: str, text: str) -> None:
    assert told(language, text) == "***"


def test_a_plan_is_told_without_constants_next_to_a_secret() -> None:
    plan = Frame("t").filter("token = 'hunter2' and a > 1").filter("a <> 'x'").select("token", "a")
    text = plan_text(plan)
    assert "hunter2" not in text
    assert "a <> 'x'" in text
    assert "`token`" in text or "token" in text


def test_an_asset_is_told_without_what_its_function_keeps_secret(tmp_path: Path) -> None:
    def secretive(bookings: Frame) -> Frame:
        pwd = "".join(["hunter", "2!"])
        return bookings.filter(f"id <> '{pwd}'")

    bookings = Source(name="bookings", path="data", format="parquet")
    made = Asset(name="secretive", function=secretive, inputs=("bookings",))
    compiled = compiled_pipeline(Pipeline({"bookings": bookings}, {"secretive": made})).assets[
        "secretive"
    ]
    code = code_of_asset(compiled, tmp_path)
    assert code is not None
    assert "2!" not in code.text
    assert "bookings.filter(" in code.text


def test_a_file_of_assets_is_told_without_its_secrets(tmp_path: Path) -> None:
    asset = ledger_close(tmp_path, "yaml").assets["gl_close"]
    (file,) = (tmp_path / "pipelines").glob("*.yaml")
    file.write_text(file.read_text() + "\nextra:\n  - name: DB_PASSWORD\n    value: hunter2\n")
    code = code_of_asset(asset, tmp_path / "pipelines")
    assert code is not None
    assert "gl_close:" in code.text
    assert "hunter2" not in code.text


def test_an_error_is_told_without_the_address_that_failed() -> None:
    error = {"code": "storage_failed", "message": "jdbc:x://db;password=hunter2 is away"}
    assert message_of(error, "a") == "jdbc:x://db;password=*** is away"
