"""A value of a redacted column stands in the outputs and nowhere else that a run leaves.

Canaries are planted in every place that could be quoted, and every byte is searched for them.
"""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.forked import Running, command
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes
from tests.world.reply import Reply
from tests.world.scale import FULL

CANARY = "kanarie"
END = "\n---\n"
SETTINGS = f"""\
trace: {{redact: [email, ssn, salary]}}
{INTERPRETED}"""
PIPELINE = """
import tallyman as tm

ANY = dict(thresholds=dict(absolute=0, percentage=1))
PERSON = "email string, ssn string, city string, salary int, tags array<string>"
tm.source("people", "data/people.jsonl", schema=PERSON, key="email")
tm.source("odd_people", "data/odd.jsonl", schema=PERSON, key="email")
tm.source("visits", "data/visits.csv", format="csv", schema="email string, day date, n int", key=["email", "day"])
tm.source("codes", "data/codes.jsonl", schema="code string, factor int", key="code")
tm.source("twice", "data/twice.jsonl", schema="ssn string, factor int", key="ssn")

@tm.asset(key="contact", trace="changes", **ANY)
def checked(people):
    return (people.expect("known", "ssn NOT LIKE '%rule'").expect("both", "NOT (city = 'Ghost' AND ssn IS NOT NULL)")
        .filter("city <> 'nowhere'", reason="nowhere").withColumn("contact", "concat(email, '!')"))

@tm.asset(**ANY)
def onward(checked):
    return checked.filter("city = 'Ulm'").select("contact", "city")

@tm.asset(key="ssn", **ANY)
def by_ssn(people):
    return people.groupBy("ssn").agg(top="max(salary)", who="min(email)", n="count(*)").expect("few", "top < 100").filter("n < 3")

@tm.asset(key="ssn", evidence="digest", **ANY)
def by_ssn_digest(people):
    return people.groupBy("ssn").agg(n="count(*)")

@tm.asset(**ANY)
def looked_up(people, codes):
    return people.join(codes, "ssn = code", unmatched="error")

@tm.asset(**ANY)
def children(people):
    return people.explode("tags", alias="tag").expect("not_bad", "tag <> 'bad'")

@tm.asset(**ANY)
def worked(people):
    return people.update({"salary": "salary + 1"}, where="city = 'Ulm'").delete("ssn LIKE '%rule'").aggregate(["ssn"], n="count(*)")

@tm.asset(**ANY)
def odd(odd_people):
    return odd_people.groupBy("city").agg(n="count(*)")

@tm.asset(key=["email", "day"], **ANY)
def visited(visits):
    return visits.expect("some", "n > 0")

@tm.asset(**ANY)
def fans_out(people, twice):
    return people.join(twice, "ssn")

@tm.asset(**ANY)
def casts(people):
    return people.withColumn("number", "CAST(ssn AS INT)")

@tm.asset(**ANY)
def bad_reference(codes, odd_people):
    return codes.join(odd_people.select("ssn", "city"), "code = ssn", how="left", unmatched="keep")

@tm.asset(trace="changes", **ANY)
def repeated(twice):
    return twice.withColumn("factor", "factor + 1")
"""
GOOD = (
    "checked",
    "onward",
    "by_ssn",
    "by_ssn_digest",
    "looked_up",
    "children",
    "worked",
    "odd",
    "visited",
)
BAD = {
    "fans_out": "join_fan_out",
    "casts": "step_failed",
    "bad_reference": "reference_rejected",
    "repeated": "rows_not_distinct",
}


def person(name: str, ssn: str, city: str = "Ulm", **more: object) -> dict[str, object]:
    return {"email": f"{CANARY}-{name}", "ssn": f"{CANARY}-{ssn}", "city": city, "salary": 5, "tags": ["a"], **more}  # fmt: skip


PEOPLE = [
    person("one", "group"),
    person("two", "group"),
    person("rule", "rule", tags=["bad", "b"]),
    person("ghost", "ghost", city="Ghost"),
    person("filtered", "filtered", city="nowhere"),
    person("rich", "rich", salary=500),
    person("cast", "cast", salary=f"{CANARY}-salary"),
]


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "hushed", SETTINGS).pipeline(PIPELINE).data("people.jsonl", *PEOPLE)
    path = made.path
    lines = [*map(json.dumps, PEOPLE[:2]), f'{{"email":"{CANARY}-cut","ssn":"{CANARY}', "[]"]
    (path / "data" / "odd.jsonl").write_text("\n".join(lines) + "\n")
    made.data("codes.jsonl", *({"code": f"{CANARY}-{c}", "factor": 1} for c in ("group", "rule")))
    made.data("twice.jsonl", *({"ssn": f"{CANARY}-group", "factor": n} for n in range(2)))
    (path / "data" / "visits.csv").write_text(
        f"email,day,n\n{CANARY}-v,2024-01-02,1\n{CANARY}-w,2024-01-03,0\n{CANARY}-x,soon,1\n{CANARY}-y\n"
    )
    return made


def _run_both() -> None:
    """In one process; what fails has a Spark of its own, whose log is searched."""
    for chosen, code in ((GOOD, 0), (BAD, 1)):
        own = ("--master", "local[2]") if code or FULL else ()
        with pytest.raises(SystemExit) as end:
            command("run", *chosen, *own, "--json")
        assert (end.value.code or 0) == code
        sys.stdout.write(END)


@pytest.fixture(scope="module")
def runs(home: Home) -> tuple[str, str]:
    """The run that succeeds and the one in which everything fails, and what they said."""
    code, out, err = Running(home.path, os.environ, _run_both).wait()
    assert code == 0, out + err
    assert CANARY not in out + err
    good, bad, _ = out.split(END)
    return json.loads(good)["run_id"], json.loads(bad)["run_id"]


@pytest.fixture(scope="module")
def verified(home: Home, runs: tuple[str, str]) -> Reply:
    """Every key of the good run is compared once, for all tests."""
    return home.tallyman("verify", runs[0], "--exact")


def texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from texts(part)
    else:
        yield str(value)


def shown_in(file: Path) -> list[str]:
    """What a file holds, as bytes and, where it is compressed, as values."""
    found = [file.read_bytes().decode("utf-8", "replace")]
    if file.suffix == ".parquet":
        table = pq.ParquetFile(file).read()
        found += [str(table.schema), *texts(table.to_pylist())]
    return found


def test_no_file_of_a_run_shows_a_redacted_value(home: Home, runs: tuple[str, str]) -> None:
    assert len(list((home.path / "runs").iterdir())) == len(runs)
    files = [f for f in (home.path / "runs").rglob("*") if f.is_file()]
    kept = [f for f in files if "output" not in f.relative_to(home.path / "runs").parts]
    assert {".jsonl", ".json", ".parquet"} <= {f.suffix for f in kept}
    assert [str(f) for f in kept if any(CANARY in text for text in shown_in(f))] == []
    # The search itself finds what is there: outputs are not redacted.
    assert any(CANARY in text for f in set(files) - set(kept) for text in shown_in(f))


def test_neither_the_database_nor_the_log_shows_one(home: Home, runs: tuple[str, str]) -> None:
    tables = home.query(
        "SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'"
    )
    assert len(tables) > 10
    for (table,) in tables:
        rows = home.query(f"SELECT t::text FROM {table} t WHERE t::text ILIKE %s", f"%{CANARY}%")
        assert not rows, table
    assert CANARY not in (home.path / ".tallyman" / "spark.log").read_text()


def test_no_command_shows_one(home: Home, runs: tuple[str, str], verified: Reply) -> None:
    good, bad = runs
    said = [
        home.tallyman(*words)
        for run in runs
        for words in (
            ("show", run),
            ("rejections", "ls", run),
            ("rejections", "show", run, "--limit", "100"),
            ("report", run),
        )
    ]
    said += [verified, home.tallyman("lineage", "status")]
    assert [CANARY in str(reply) for reply in said] == [False] * len(said)
    home.ok("report", good, "--html", "-o", "report.html")
    assert CANARY not in (home.path / "report.html").read_text()
    errors = {made["name"]: made["error"]["code"] for made in home.ok("show", bad)["assets"]}
    assert errors == BAD


def test_what_is_kept_still_proves_and_finds_every_record(
    home: Home, runs: tuple[str, str], verified: Reply
) -> None:
    good, _ = runs
    assert verified.code == 0, str(verified)
    checked = verified.json
    assert (checked["verified"], checked["missing"], checked["extra"]) == (True, 0, 0)

    [letter] = home.ok("rejections", "show", good, "--key", f"{CANARY}-rule", "--asset", "checked")[
        "rejections"
    ]
    assert letter["actual"].startswith("redacted:")
    assert letter["source_key"].startswith("redacted:")

    found = home.ok("where", "people", f"email={CANARY}-two")
    became = {one["asset"]: one for one in found["became"]}
    assert (
        became["checked"]["rows"] == became["by_ssn"]["rows"] == became["worked"]["rows"] - 1 == 1
    )
    assert [one["asset"] for one in became["checked"]["then"]] == ["onward"]
    assert became["checked"]["then"][0]["rows"] == 1
    assert len(became["looked_up"].get("rejections", [])) == 0
    assert [one["values"]["email"] for one in found["records"]] == ["redacted"]
    rich = {o["asset"]: o for o in home.ok("where", "people", f"email={CANARY}-rich")["became"]}
    assert [r["rule"] for r in rich["by_ssn"]["rejections"]] == ["by_ssn.few"]
    assert rich["by_ssn"]["rejections"][0]["group_key"].startswith('{"ssn":"redacted:')
    visit = home.ok("where", "visits", f"email={CANARY}-w", "day=2024-01-03")
    assert [r["rule"] for r in visit["became"][0]["rejections"]] == ["visited.some"]

    for asset, column, value in (
        ("by_ssn", "ssn", f"{CANARY}-group"),
        ("by_ssn_digest", "ssn", f"{CANARY}-group"),
    ):
        [hop] = home.ok("why", asset, f"{column}={value}")["hops"]
        assert hop["records"] == 2
        assert [len(origin["records"]) for origin in hop["inputs"]] == [2]
        assert hop["shown"] == [{**hop["shown"][0], "ssn": "redacted"}]
    [hop] = home.ok("why", "onward", f"contact={CANARY}-one!")["hops"]
    [record] = hop["inputs"][0]["hops"][0]["inputs"][0]["records"]
    assert (record["line"], record["values"]["city"]) == (1, "Ulm")


def test_what_would_have_to_show_one_is_refused(home: Home, runs: tuple[str, str]) -> None:
    (home.path / "fix.jsonl").write_text(json.dumps(PEOPLE[2]) + "\n")
    refused = home.tallyman("rejections", "replay", runs[0], "--asset", "checked", "--with", "fix.jsonl")  # fmt: skip
    assert (refused.code, refused.json["error"]["code"]) == (2, "not_replayable")
    assert "email, ssn, salary of people is redacted" in refused.json["error"]["message"]
    edit = (
        '@tm.asset(key="ssn", evidence',
        '@tm.asset(partitioned_by=tm.partitions("ssn", ["a"]), key="ssn", evidence',
    )
    home.edit(*edit)
    refused = home.tallyman("run", "by_ssn_digest", "--partition", "a")
    home.edit(*reversed(edit))  # the other tests verify runs of the pipeline as it was
    assert refused.code == 2
    assert "partitioned by 'ssn', which is redacted" in refused.json["error"]["message"]
