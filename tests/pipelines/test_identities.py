"""What two pipelines call alike: inputs that change places, a producer that takes over, outputs of
a result that was declared invalid."""

from __future__ import annotations

from tests.pipelines.conftest import NewPipeline
from tests.world.home import statuses

PRODUCER = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, n int")


@tm.asset(key="id", split={"small": "n < 10", "large": tm.otherwise})
def clean(raw):
    return raw
"""
CONSUMER = """\
import tallyman as tm

tm.dataset("small", name="one")
tm.dataset("large", name="two")


@tm.asset(key="id")
def both(one, two):
    return one.join(two, "id", how="left")
"""
ROWS = ({"id": "a", "n": 1}, {"id": "b", "n": 20}, {"id": "c", "n": 30})


def test_inputs_that_change_places_are_other_inputs(new_pipeline: NewPipeline) -> None:
    crm = new_pipeline("crm").pipeline(PRODUCER).data("raw.jsonl", *ROWS)
    crm.ok("run")
    sales = new_pipeline("sales").pipeline(
        CONSUMER.replace('one.join(two, "id", how="left")', "one")
    )
    sales.ok("run")
    assert [row[0] for row in sales.rows("both")] == ["a"]
    [became] = crm.ok("where", "raw", "id=a")["became"]
    [then] = became["then"]
    assert (then["asset"], then["role"], then["rows"]) == ("both", "record", 1)
    [elsewhere] = crm.ok("where", "raw", "id=b")["became"]
    assert "then" not in elsewhere
    sales.edit('tm.dataset("small"', 'tm.dataset("middle"')
    sales.edit('tm.dataset("large"', 'tm.dataset("small"')
    sales.edit('tm.dataset("middle"', 'tm.dataset("large"')
    assert statuses(sales.ok("run")) == {"both": "success"}
    assert [row[0] for row in sales.rows("both")] == ["b", "c"]


def test_readers_of_an_output_notice_that_its_result_is_invalid(new_pipeline: NewPipeline) -> None:
    crm = new_pipeline("crm").pipeline(PRODUCER).data("raw.jsonl", *ROWS)
    crm.ok("run")
    sales = new_pipeline("sales").pipeline(CONSUMER.replace("join(two,", "join(two.select('id'),"))
    crm.ok("invalidate", "clean")
    refused = sales.tallyman("run")
    assert (refused.code, "small" in refused.json["error"]["message"]) != (0, True)
    crm.ok("run")
    assert sales.ok("run")["published"]


def test_a_dataset_that_is_taken_over_keeps_its_earlier_rows(new_pipeline: NewPipeline) -> None:
    apart = PRODUCER.replace("small", "little").replace("large", "great").replace("clean", "all")
    crm = new_pipeline("north").pipeline(apart).data("raw.jsonl", *ROWS)
    crm.ok("run")
    crm.edit('"little": "n < 10"', '"tiny": "n < 10"')
    crm.ok("plan")
    crm.ok("apply")
    sales = new_pipeline("south").pipeline(apart).data("raw.jsonl", {"id": "x", "n": 5})
    sales.edit("def all(", "def own(")
    sales.edit('"great": tm', '"huge": tm')
    sales.ok("run")
    assert sales.rows("little") == [("x", 5)]
    assert sales.rows("little", 1) == [("a", 1)]
    sales.ok("rollback", "little", "--to", "1")
    assert sales.rows("little") == [("a", 1)]
