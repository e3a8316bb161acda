"""Any bytes as input: every record has one fate, or the run says why not; never a stack trace.

A case is a file of its own, and one run reads hundreds of them. The files come from a plain random
generator: one example of Hypothesis cannot hold that many bytes.
"""

from __future__ import annotations

import inspect
import os
import random
import re
from collections.abc import Callable

import pytest

from tests.fuzz import cases, definitions, test_arguments, test_definitions, test_yaml
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import FULL, by_form

PIPELINE = """\
import tallyman as tm

ANY = dict(thresholds=dict(absolute=0, percentage=1, window=0))
tm.source("lines", path="data/json", format="json", key="id", schema="id string, n int, day date")
tm.source("table", path="data/csv", format="csv", schema="a string, n int, day date",
          options={"header": False})


@tm.asset(**ANY)
def of_json(lines):
    return lines.filter("n > 2", reason="small")


@tm.asset(**ANY)
def of_csv(table):
    return table.filter("n > 2", reason="small")
"""
BOM = "\ufeff".encode()
ANY_BYTES = [
    b"\n", b"\r\n", b"\r", b" ", b"\t", b"\0", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x1a",
    BOM, "\u2028".encode(), "é".encode(), b"'", b"\\", b"/", b"-", b"0", b"1e999",
    b"99999999999999999999", b"2026-02-30", b"294276-01-01", b"NaN", b"x" * 300,
]  # fmt: skip
OF_JSON = [
    b'{"id":"k"', b'{"id":', b"{", b"}", b"[", b"]", b",", b":", b'"', b'"n":', b'"day":"', b"null",
    b"true", b"\\ud83d", b"\\u0000", b"\\u", b'"id":"k",',
]  # fmt: skip
OF_CSV = [b'"', b'""', b",", b'","', b",,", b'"\n', b'a"b', b"#", b"null", b'"x\ny",1,2026-01-01\n']
SOUND = {
    "json": b'{"id":"k7","n":7,"day":"2026-01-07"}\n{"id":"k8","n":1,"day":null}\n',
    "csv": b'k7,7,2026-01-07\n"k, 8",1,\n',
}
PIECES = {"json": [*ANY_BYTES, *OF_JSON], "csv": [*ANY_BYTES, *OF_CSV]}


def content(chance: random.Random, form: str) -> bytes:
    """Bytes without any sense, or a sound file in which a few pieces were exchanged."""
    pieces = PIECES[form]
    if chance.random() < 0.5:
        return b"".join(chance.choices(pieces, k=chance.randrange(12)))
    found = SOUND[form] * chance.randint(1, 2)
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(found) + 1)
        end = min(len(found), start + chance.choice([0, 0, 1, 3]))
        found = found[:start] + chance.choice(pieces) + found[end:]
    return found


def lines_in(text: bytes) -> int:
    """Lines as Spark's text reader has them. A byte order mark alone is an empty file."""
    if text == BOM:
        return 0
    found = re.split(rb"\r\n|\r|\n", text)
    return len(found) - (not found[-1])


@pytest.fixture
def home(homes: Homes) -> Home:
    return homes.make(Home, "bytes").pipeline(PIPELINE)


@pytest.mark.parametrize("number", range(cases.RUNS))
def test_any_bytes(home: Home, number: int) -> None:
    seed = os.environ.get("TALLYMAN_SEED") or (str(random.random()) if FULL else "0")
    chance = random.Random(f"{seed} {number}")
    lines = 0
    for form in cases.FORMATS:
        folder = home.path / "data" / form
        folder.mkdir(parents=True)
        for case in range(cases.FILES):
            written = content(chance, form)
            (folder / f"{case:05}.{form}").write_bytes(written)
            lines += lines_in(written) if form == "json" else 0
    reply = home.tallyman("run")
    assert "Traceback" not in reply.stdout + reply.stderr, (seed, str(reply))
    assert reply.code == 0, (seed, str(reply))
    for made in reply.json["assets"]:
        assert made["records_in"] == sum(made["fates"].values()) > cases.FILES, (seed, made)
        assert made["unaccounted"] == 0, (seed, made)
    [of_json] = [one for one in reply.json["assets"] if one["name"] == "of_json"]
    ledger = home.folder(reply.json["run_id"][:8]) / "of_json" / "ledger.json"
    blank = int(re.findall(r'"blank_lines": (\d+)', ledger.read_text())[0])
    assert of_json["records_in"] + blank == lines, seed


def test_there_are_as_many_cases_as_promised() -> None:
    tests: list[Callable[..., None]] = [
        one
        for module in (test_definitions, test_yaml)
        for name, one in inspect.getmembers(module)
        if name.startswith("test_")
    ]
    assert len(tests) == cases.DEFINITION_TESTS
    assert definitions.quick.max_examples == cases.DEFINITIONS
    assert test_arguments.tried.max_examples == cases.ARGUMENTS
    assert cases.total() >= by_form(1_300, 100_000)
