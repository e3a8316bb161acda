"""A mutation says what to do in plain values; what it does not say clearly is named by its path."""

from datetime import date

import pytest

from tallyman.domain.version.mutation import (
    DeleteRows,
    Insert,
    Mutation,
    UpdateRows,
    needed,
    needed_by_load,
)
from tallyman.domain.version.table import Table
from tallyman.errors import (
    InvalidMutation,
    MixedMutation,
    Problem,
)

TABLES = {
    table.name: table
    for table in (
        Table.of("city", "name string", "name"),
        Table.of("person", "name string, age int, city string", "name", {"city": "city.name"}),
        Table.of("knows", "src string, dst string", ["src", "dst"], {"src": "person.name"}),
        Table.of("other", "k int", "k"),
    )
}


def _paths(given: object) -> dict[str, str]:
    with pytest.raises(InvalidMutation) as raised:
        Mutation.of(given)
    return {problem.where: problem.message for problem in raised.value.problems}


def _needed(*statements: object) -> set[str]:
    return needed(TABLES, Mutation.of(list(statements)))


def test_statements_are_read_in_order() -> None:
    mutation = Mutation.of(
        {
            "statements": [
                {"insert": {"into": "person", "rows": [{"name": "Eve", "born": date(2017, 1, 2)}]}},
                {"update": {"dataset": "person", "set": {"age": None}, "where": {"name": "Eve"}}},
            ],
            "expected_versions": {"person": 7},
            "message": "Eve moves in",
        }
    )

    assert mutation.statements == (
        Insert("person", ({"name": "Eve", "born": date(2017, 1, 2)},)),
        UpdateRows("person", {"age": None}, {"name": "Eve"}),
    )
    assert (mutation.expected_versions, mutation.message) == ({"person": 7}, "Eve moves in")
    assert mutation.datasets() == {"person"}


def test_a_list_alone_is_the_statements() -> None:
    mutation = Mutation.of([{"delete": {"from": "person", "where": "age > 3"}}])

    assert mutation == Mutation((DeleteRows("person", "age > 3"),), {}, None)


def test_every_mistake_is_named_by_its_path() -> None:
    found = _paths(
        {
            "statements": [
                {"insert": {"into": "", "rows": [{}, {"a": [1]}, 5], "row": 1}},
                {"update": {"dataset": "person", "set": {}}},
                {"delete": {"from": 5, "where": {}}},
                {"upsert": {}},
                {"insert": None},
                "delete",
                {"delete": {"from": "a", "where": " "}, "insert": {}},
            ],
            "expected_versions": {"person": "7", "knows": True},
            "message": 3,
            "mesage": "x",
        }
    )

    assert set(found) == {
        "statements[0].insert.into",
        "statements[0].insert.rows[0]",
        "statements[0].insert.rows[1].a",
        "statements[0].insert.rows[2]",
        "statements[0].insert.row",
        "statements[1].update.set",
        "statements[1].update.where",
        "statements[2].delete.from",
        "statements[2].delete.where",
        "statements[3]",
        "statements[4].insert",
        "statements[5]",
        "statements[6]",
        "expected_versions.person",
        "expected_versions.knows",
        "message",
        "mesage",
    }
    assert '"true" means every row' in found["statements[1].update.where"]


@pytest.mark.parametrize("given", [None, [], {}, {"statements": []}, "delete", 5])
def test_a_mutation_without_statements_is_a_mistake(given: object) -> None:
    assert set(_paths(given)) == {"statements"}


def test_rows_to_insert_are_never_an_empty_list() -> None:
    assert set(_paths([{"insert": {"into": "a", "rows": []}}])) == {"statements[0].insert.rows"}


@pytest.mark.parametrize(
    "other",
    [
        {"insert": {"into": "a", "rows": [{"k": 1}]}},
        {"update": {"dataset": "b", "set": {"k": 1}, "where": "true"}},
    ],
)
def test_deletes_do_not_go_together_with_inserts_or_updates(other: object) -> None:
    gone = {"delete": {"from": "a", "where": "true"}}

    with pytest.raises(MixedMutation) as raised:
        Mutation.of([other, gone, gone])

    assert (raised.value.deletes, raised.value.others) == ((2, 3), (1,))
    assert raised.value.exit_code == 2


def test_a_mutation_needs_the_tables_that_decide_about_it_and_no_others() -> None:
    person = {"name": "Eve"}

    assert _needed({"insert": {"into": "person", "rows": [person]}}) == {"person", "city"}
    assert _needed({"insert": {"into": "other", "rows": [{"k": 1}]}}) == {"other"}
    assert _needed({"update": {"dataset": "person", "set": {"age": 1}, "where": "true"}}) == {
        "person"
    }
    renamed = {"update": {"dataset": "person", "set": person, "where": "true"}}
    assert _needed(renamed) == {"person", "knows"}
    moved = {"update": {"dataset": "person", "set": {"city": "x"}, "where": "true"}}
    assert _needed(moved) == {"person", "city"}
    assert _needed({"delete": {"from": "person", "where": "true"}}) == {"person", "knows"}


def test_a_load_needs_those_who_refer_to_it_only_when_rows_may_go() -> None:
    assert needed_by_load(TABLES, "person", "append") == {"person", "city"}
    assert needed_by_load(TABLES, "person", "merge") == {"person", "city"}
    assert needed_by_load(TABLES, "person", "overwrite") == {"person", "city", "knows"}


def test_an_unknown_table_gets_the_nearest_name() -> None:
    with pytest.raises(InvalidMutation) as raised:
        _needed({"delete": {"from": "persn", "where": "true"}})

    assert raised.value.problems == (
        Problem("statements[0]", "there is no table 'persn'", "person"),
    )
