"""Rules of tables through the command, declared in YAML."""

from __future__ import annotations

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
tables:
  orders: {schema: id int, key: id}
  line:
    schema: id int, order_id int, kind string
    key: id
    references:
      order_id: {to: orders.id, at_least: 1, at_most: 2}
    rules:
      kind: {one_of: [ink, pen]}
"""


def test_rules_in_yaml_are_kept_by_mutate_load_and_rollback(homes: Homes) -> None:
    home = homes.make(Home, "rules")
    (home.path / "pipelines").mkdir()
    (home.path / "pipelines" / "t.yaml").write_text(PIPELINE)

    def mutate(text: str) -> tuple[int, str]:
        (home.path / "m.yaml").write_text(text)
        reply = home.tallyman("mutate", "m.yaml")
        return reply.code, str(reply)

    both = "- insert: {into: orders, rows: [{id: 1}]}\n"
    both += "- insert: {into: line, rows: [{id: 1, order_id: 1, kind: ink}]}\n"
    assert mutate(both)[0] == 0
    code, said = mutate("- insert: {into: line, rows: [{id: 2, order_id: 1, kind: cup}]}\n")
    assert code == 1
    assert "row 1: kind = 'cup' is not one of ink, pen" in said
    code, said = mutate("- insert: {into: orders, rows: [{id: 2}]}\n")
    assert code == 1
    assert "0 row(s) of line refer to orders.id = 2, not at least 1 and at most 2" in said
    assert home.heads() == {"orders": 1, "line": 1}

    (home.path / "lines.csv").write_text("id,order_id,kind\n2,1,pen\n3,1,pen\n")
    reply = home.tallyman("load", "line", "lines.csv")
    assert reply.code == 1
    assert "3 row(s) of line refer to orders.id = 1" in str(reply)

    # A rollback of one table alone would leave an order without a line.
    more = "- insert: {into: orders, rows: [{id: 2}]}\n"
    more += "- insert: {into: line, rows: [{id: 2, order_id: 2, kind: pen}]}\n"
    assert mutate(more)[0] == 0
    reply = home.tallyman("rollback", "line", "--to", "1")
    assert reply.code == 1
    assert "0 row(s) of line refer to orders.id = 2" in str(reply)
