"""Tables say what their rows are made of; all that is wrong with one is said at once."""

import pytest

import tallyman as tm
from tallyman.domain.pipeline.pipeline import Pipeline, Source
from tallyman.domain.version.table import Column, Reference
from tallyman.errors import DefinitionError, UsageError

KNOWS = tm.table(
    "knows",
    schema="src string not null, dst string not null",
    key=["src", "dst"],
    references={"src": "person.name", "dst": "person.name"},
)
PERSON = tm.table("person", schema="name string, age int", key="name")


def _problems(*tables: tm.Table) -> list[str]:
    with pytest.raises(DefinitionError) as raised:
        Pipeline.of(tables)
    return [str(problem) for problem in raised.value.problems]


def _type(text: str) -> str:
    return tm.table("t", schema=f"k int, v {text}", key="k").column("v").type


def test_a_table_is_its_columns_its_key_and_its_references() -> None:
    assert PERSON.columns == (
        Column(name="name", type="string", nullable=False),
        Column(name="age", type="int", nullable=True),
    )
    assert (PERSON.key, KNOWS.key) == (("name",), ("src", "dst"))
    assert KNOWS.references[1] == Reference(column="dst", table="person", to="name")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("STRING", "string"),
        ("integer", "int"),
        ("Long NOT  NULL", "bigint"),
        ("decimal", "decimal(10,0)"),
        ("DECIMAL( 38 , 2 ) not\nnull", "decimal(38,2)"),
        ("decimal(5)", "decimal(5,0)"),
        ("timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_types_have_one_spelling(text: str, meant: str) -> None:
    assert _type(text) == meant


@pytest.mark.parametrize(
    "text",
    ["array<int>", "map<string,int>", "decimal(39,0)", "decimal(2,3)", "int comment 'x'", "in"],
)
def test_other_types_are_refused_with_the_column_and_what_is_supported(text: str) -> None:
    with pytest.raises(UsageError, match=r"column 'v'.*decimal\(p,s\).*binary"):
        _type(text)


def test_names_in_backticks_may_hold_anything() -> None:
    table = tm.table("t", schema="`a, b` int, `c``d` string not null", key="a, b")

    assert [(column.name, column.nullable) for column in table.columns] == [
        ("a, b", False),
        ("c`d", False),
    ]


def test_all_mistakes_of_a_table_are_in_one_error() -> None:
    with pytest.raises(UsageError) as raised:
        tm.table(
            "t",
            schema="a int, A string, _tm_x int, b list, oops",
            key=["a", "a", "aa"],
            references={"z": "person.name", "b": "person"},
        )

    text = str(raised.value)
    for part in (
        "'A' is declared twice",
        "'_tm_x': names that start with _tm are reserved",
        "'list' is not one of",
        "'oops' is not a column",
        "the key names a column twice",
        "the key names 'aa', which is not a column; did you mean 'a'?",
        "a reference names 'z'",
        "'person': write it as table.column",
    ):
        assert part in text


@pytest.mark.parametrize("schema", ["", " ", ","])
def test_a_table_has_columns_and_a_key(schema: str) -> None:
    with pytest.raises(UsageError):
        tm.table("t", schema=schema, key=())


@pytest.mark.parametrize("name", ["a" * 129, "A", "1a", "_a", "a-b", "a.b", "", "a\n", "é"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        tm.table(name, schema="k int", key="k")


def test_a_name_is_given_once_among_all_kinds() -> None:
    source = Source(name="person", path="x", format="json")

    with pytest.raises(DefinitionError, match="table person: the name 'person' is declared twice"):
        Pipeline.of([source, PERSON])


def test_a_reference_names_a_table_that_is_there() -> None:
    (problem,) = _problems(
        tm.table("t", schema="k string", key="k", references={"k": "persn.name"}), PERSON
    )

    assert problem == "table t: 'k' refers to unknown table 'persn'. Did you mean 'person'?"


def test_a_reference_names_a_whole_key_of_the_same_type() -> None:
    wrong = tm.table(
        "t",
        schema="k int, a string, b string, c int",
        key="k",
        references={"a": "person.age", "b": "knows.src", "c": "person.name"},
    )

    assert _problems(wrong, PERSON, KNOWS) == [
        "table t: 'a' refers to person.age, but the key of 'person' is name",
        "table t: 'b' refers to knows.src, but the key of 'knows' is src, dst",
        "table t: 'c' refers to person.name, which is string and not int",
    ]
