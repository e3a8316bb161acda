"""The compiled form: equal bytes for equal pipelines, the same plan from a document and back."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from tallyman.domain.compiled.declared import SECTIONS
from tallyman.domain.compiled.form import (
    json_schema,
    read,
    read_text,
    text_of_document,
    write,
)
from tallyman.domain.compiled.kinds import Grammar
from tallyman.domain.compiled.steps import VERBS
from tallyman.domain.definition.step import Warn
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.errors import DefinitionError
from tests.compiled.documents import dispatched, plans
from tests.definitions_yaml.test_two_forms_one_plan import IN_PYTHON, IN_YAML
from tests.world.home import Home
from tests.world.scale import FULL

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "pipeline.schema.json"
VALIDATOR = Draft202012Validator(json_schema())


def home(folder: Path, file: str, text: str) -> Home:
    (folder / "pipelines").mkdir(parents=True)
    (folder / "tallyman.yaml").write_text("name: compiled\n")
    (folder / "pipelines" / file).write_text(text)
    return Home(folder)


def compiled(folder: Path, file: str, text: str) -> str:
    reply = home(folder, file, text).printed("compile")
    assert reply.code == 0, reply
    return reply.stdout


def again(document: Any) -> str:
    pipeline = Pipeline.of(read(document))
    return text_of_document(write(pipeline))


SHARED_IN_PYTHON = """\
import tallyman as tm

tm.dataset("customers")
tm.dataset("countries", name="lands")


@tm.asset(key="id")
def active(customers):
    return customers.filter("n > 0", reason="not active")


@tm.asset(key="id")
def placed(customers, lands):
    return customers.join(lands, "country = code")
"""
SHARED_IN_YAML = """\
datasets:
  lands: {dataset: countries}
assets:
  active:
    from: {dataset: customers}
    key: id
    steps: [{filter: {where: n > 0, reason: not active}}]
  placed:
    from: {dataset: customers}
    key: id
    steps: [{join: {with: lands, on: country = code}}]
"""


def test_datasets_of_other_pipelines_have_one_form(tmp_path: Path) -> None:
    python = compiled(tmp_path / "python", "p.py", SHARED_IN_PYTHON)
    document = json.loads(python)
    assert document["datasets"] == {
        "customers": {"dataset": "customers"},
        "lands": {"dataset": "countries"},
    }
    VALIDATOR.validate(document)
    assert compiled(tmp_path / "yaml", "p.yaml", SHARED_IN_YAML) == python
    assert compiled(tmp_path / "json", "p.json", python) == python
    own = SHARED_IN_PYTHON.replace("def active", "def customers_")
    mistaken = (
        ("dataset customers: this pipeline makes 'customers'", own, 'publish="customers", key'),
        (
            "the name 'customers' is declared twice",
            'tm.table("customers", schema="id int", key="id")',
        ),
    )
    for number, (message, text, *replaced) in enumerate(mistaken):
        changed = text.replace("key", replaced[0], 1) if replaced else SHARED_IN_PYTHON + text
        reply = home(tmp_path / str(number), "p.py", changed).printed("compile")
        assert (reply.code, message in reply.stderr) == (2, True), str(reply)


def test_python_yaml_and_json_of_one_pipeline_are_equal_to_the_byte(tmp_path: Path) -> None:
    python = compiled(tmp_path / "python", "p.py", IN_PYTHON)

    assert compiled(tmp_path / "yaml", "p.yaml", IN_YAML) == python
    assert compiled(tmp_path / "json", "p.json", python) == python
    indented = json.dumps(json.loads(python), indent=4)
    assert compiled(tmp_path / "indented", "p.json", indented) == python


def test_the_order_of_declarations_and_of_files_does_not_count(tmp_path: Path) -> None:
    source = 'import tallyman as tm\ntm.source("{}", "data", schema="a int")\n'
    one = compiled(tmp_path / "one", "p.py", source.format("x") + source.format("y"))
    other = home(tmp_path / "other", "a.py", source.format("y"))
    (other.path / "pipelines" / "b.py").write_text(source.format("x"))

    assert other.printed("compile").stdout == one


DERIVED = {"name", "function", "inputs", "columns", "column", "table", "to", "kind", "by_name"} | {
    "seq"
}
"""Fields that are the name of an entry, part of another key, or follow from other keys."""


def test_every_field_has_a_key() -> None:
    """A field added to an asset, a source or a verb later is missing here until it has a key."""
    records = [*SECTIONS.values(), *VERBS.values()]
    for kind in (key.kind for record in SECTIONS.values() for key in record.keys.values()):
        inner = getattr(kind, "record", getattr(kind, "kind", kind))
        records += [inner] if isinstance(inner, Grammar) else []
    for record in records:
        written = {key.of or name for name, key in record.keys.items()}
        missing = {each.name for each in fields(record.made)} - written
        assert missing <= DERIVED, (record.made, missing)
    assert len(records) > 25
    kinds = {record.made.kind for record in VERBS.values()}  # type: ignore[attr-defined]
    assert kinds | {Warn.kind} == {step.kind for step in Step.__subclasses__()}


def test_the_published_schema_is_that_of_the_form() -> None:
    text = json.dumps(json_schema(), indent=2) + "\n"
    if os.environ.get("TALLYMAN_RECORD"):
        PUBLISHED.write_text(text)
    assert PUBLISHED.read_text() == text


def test_the_schema_describes_what_compile_prints(tmp_path: Path) -> None:
    document = json.loads(compiled(tmp_path, "p.py", IN_PYTHON))

    VALIDATOR.validate(document)
    document["assets"]["close"]["steps"][0]["update"]["sett"] = []
    assert not VALIDATOR.is_valid(document)


@settings(
    max_examples=5_000 if FULL else 150,
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(plans(), dispatched())
def test_a_document_read_and_written_is_the_same(
    plan: dict[str, Any], options: dict[str, Any]
) -> None:
    sources = {"orders": {"format": "json", "path": "data", "schema": "a int"}}
    tables = {"rates": {"schema": "a int", "key": ["a"]}}
    used = list(_inputs(plan))
    unused = sorted({"orders", "rates"} - set(used))
    asset = {**plan, **({"inputs": [*used, *unused]} if unused else {}), **options}
    document = {"tallyman": 1, "sources": sources, "tables": tables, "assets": {"made": asset}}

    VALIDATOR.validate(document)
    assert json.loads(again(document)) == document


def _inputs(plan: dict[str, Any]) -> dict[str, None]:
    found = {plan["from"]: None}
    for step in plan.get("steps", ()):
        [values] = step.values()
        others = [values.get("with", values.get("from")), *(p for _, p in values.get("join", ()))]
        for other in filter(None, others):
            found |= _inputs(other)
    return found


SOUND = {
    "tallyman": 1,
    "sources": {"orders": {"path": "data", "format": "json", "schema": "id int"}},
    "assets": {"a": {"from": "orders", "steps": []}},
}
MISTAKES: dict[str, tuple[str, Any, str, str]] = {
    "no version": ("tallyman", None, "tallyman", "expected the version"),
    "another version": ("tallyman", 2, "tallyman", "expected the version"),
    "a number for SQL": (
        "assets.a.steps", [{"filter": {"where": 5}}], "assets.a.steps[0].filter.where",
        "expected an expression, found 5",
    ),
    "a text for a number": (
        "assets.a.steps", [{"delete": {"seq": "5"}}], "assets.a.steps[0].delete.seq",
        "expected a whole number, found '5'",
    ),
    "a text for true": (
        "assets.a.unique", "true", "assets.a.unique", "expected true or false, found 'true'",
    ),
    "null": ("assets.a.steps", None, "assets.a.steps", "expected a list, found null"),
    "half a letter": (
        "assets.a.steps", [{"filter": {"where": "\ud83d"}}], "assets.a.steps[0].filter.where",
        "not valid Unicode",
    ),
    "half a letter in a name": (
        "assets.a.meta", {"\ud83d": "x"}, "assets.a.meta", "not valid Unicode",
    ),
    "a column twice": (
        "assets.a.steps", [{"withColumn": {"columns": [["a", "1"], ["a", "2"]]}}],
        "assets.a.steps[0].withColumn.columns", "named twice",
    ),
    "no pair": (
        "assets.a.steps", [{"withColumn": {"columns": [["a", "1", "2"]]}}],
        "assets.a.steps[0].withColumn.columns[0]", "expected [name, value], found a list",
    ),
    "many steps": (
        "assets.a.steps", [{"delete": {}}] * 100_000, "assets.a.steps", "more than 500 steps",
    ),
    "an input not listed": ("assets.a.inputs", [], "assets.a.inputs", "which is not listed"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_document_is_named_by_its_path(case: str) -> None:
    path, value, where, message = MISTAKES[case]
    document = json.loads(json.dumps(SOUND))
    *place, last = path.split(".")
    node = document
    for key in place:
        node = node[key]
    node[last] = value
    with pytest.raises(DefinitionError) as raised:
        read(document, "pipelines/p.json")

    [problem] = raised.value.problems
    assert problem.where == f"pipelines/p.json: {where}"
    assert message in problem.message


def test_all_mistakes_of_a_document_are_named_at_once() -> None:
    sources = {"orders": {"path": 5, "keys": "id"}}
    assets = {"a": {"from": "orders", "steps": [{"filter": 1}, {"drop": [2]}]}, "b": {}}
    with pytest.raises(DefinitionError) as raised:
        read({"tallyman": 2, "sources": sources, "assets": assets})

    assert [problem.where for problem in raised.value.problems] == [
        "tallyman", "sources.orders.keys", "sources.orders.path",
        "assets.a.steps[0].filter", "assets.a.steps[1].drop[0]", "assets.b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ('{"tallyman": 1, "tallyman": 1}', "given twice"),
        ('{"tallyman": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "expected names and values, found a list"),
        (b"\xff", "not UTF-8"),
        ("[" + " " * 10_000_000 + "]", "more than 10,000,000 bytes"),
    ],
)
def test_a_text_that_is_no_document_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_text(text)
