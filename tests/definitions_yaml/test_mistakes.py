"""All mistakes of a YAML pipeline at once, each with its line and path; none that YAML makes."""

import re
from pathlib import Path

import pytest

from tallyman.control.compile.load import load
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import Filter, Join, WithColumns
from tallyman.domain.definition.working_step import Delete, Update
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.errors import DefinitionError

DOCS = Path(__file__).parents[2] / "docs"


def loaded(folder: Path, text: str | bytes) -> Pipeline:
    place = folder / "pipelines"
    place.mkdir(exist_ok=True)
    (place / "gl.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    return load(place)


def mistakes(folder: Path, text: str | bytes) -> list[str]:
    with pytest.raises(DefinitionError) as raised:
        loaded(folder, text)
    return [str(problem).removeprefix("pipelines/gl.yaml:") for problem in raised.value.problems]


WRONG = """\
sources:
  lines: {path: data, formt: csv, schema: a int}
  more: {path: [data], format: xml, schema: a int}
tables:
  centers: {schema: "code strin", key: code}
  rates: nothing
selectors:
  EMEA: region = 'EMEA'
  A: "{{B}} OR {{EMEA}}"
  B: "{{A}}"
  C: "{{EMEAA}}"
assets:
  gl_close:
    from: lines
    trace: on
    steps:
      - update: {set: {x: y}, join: {fx: {from: rates}}}
      - update: {set: {x: "coalesce(y, 0)", z: least(y, 0)}}
      - delete: {wher: x}
      - delete: {where: null}
      - limit: 10
      - joyn: {with: rates}
      - join: {with: {frm: rates}, on: a = b}
      - join: {with: {from: rates, where: a, steps: [filter: b]}, on: a = b}
      - join: {with: {from: rates, steps: [filter: {}]}, on: a = b, how: outer}
      - join: {with: rates, on: a = b, how: outer}
      - explode: {column: x, outer: yes}
      - filter
      - filter: {where: a}
        name: b
      - filter: {where: "{{EMAE}}", reason: null}
      - output: {path: exports/x, seq: 1.10}
      - output: ../x
      - groupBy: {by: [a], agg: max(a)}
      - select: []
    stepz: []
  numbered: {from: lines, steps: [delete: {seq: 20}, delete: {seq: 10}]}
  nowhere: {key: a, publish: Big, partitioned_by: {column: a}}
  split: {from: lines, partitioned_by: {column: a, start: yesterday}, thresholds: {absolut: 1}}
  asked: {from: lines, approval: {message: x, timeout_s: soon}, evidence: all}
asset:
  {}
"""


def test_all_mistakes_are_told_at_once_with_their_paths(tmp_path: Path) -> None:
    assert mistakes(tmp_path, WRONG) == [
        "41: asset: unknown key. Did you mean 'assets'?",
        "9: selectors.A: cycle: A → B → A",
        "11: selectors.C: unknown selector 'EMEAA'. Did you mean 'EMEA'?",
        "2: sources.lines.formt: unknown key. Did you mean 'format'?",
        "3: sources.more.path: expected a text, found a list",
        "5: tables.centers: column 'code': 'strin' is not one of string, boolean, tinyint, "
        "smallint, int, bigint, float, double, decimal(p,s), date, timestamp, timestamp_ntz, "
        "binary",
        "6: tables.rates: expected names and values, found 'nothing'",
        "6: tables.rates: 'schema' is missing",
        "6: tables.rates: 'key' is missing",
        "36: assets.gl_close.stepz: unknown key. Did you mean 'steps'?",
        "17: assets.gl_close.steps[0].update.join.fx: 'on' is missing",
        "18: assets.gl_close.steps[1].update.set: '0)' has no expression; within {…} a comma ends "
        "a value: quote an expression that contains one",
        "19: assets.gl_close.steps[2].delete.wher: unknown key. Did you mean 'where'?",
        "20: assets.gl_close.steps[3].delete.where: null is not a condition: leave the key out to "
        "mean all rows",
        "21: assets.gl_close.steps[4].limit: limit cannot be accounted for row by row. Use filter "
        "on a key or a date, so that the rows left out have a reason.",
        "22: assets.gl_close.steps[5].joyn: unknown step. Did you mean 'join'?",
        "23: assets.gl_close.steps[6].join.with.frm: unknown key. Did you mean 'from'?",
        "23: assets.gl_close.steps[6].join.with: 'from' is missing",
        "24: assets.gl_close.steps[7].join.with.where: together with steps, write the condition as "
        "a step: filter: {where: …}",
        "25: assets.gl_close.steps[8].join.with.steps[0].filter: 'where' is missing",
        "26: assets.gl_close.steps[9].join: how is 'inner' or 'left', not 'outer'",
        "27: assets.gl_close.steps[10].explode.outer: expected true or false, found 'yes'",
        "28: assets.gl_close.steps[11]: expected one verb and its values, found 'filter'",
        "29: assets.gl_close.steps[12]: expected one verb and its values, found the keys 'filter', "
        "'name'",
        "31: assets.gl_close.steps[13].filter.where: unknown selector 'EMAE'. Did you mean 'EMEA'?",
        "31: assets.gl_close.steps[13].filter.reason: expected a text, found 'null': leave the key "
        "out, or quote the text",
        "32: assets.gl_close.steps[14].output.seq: expected a whole number, found '1.10'",
        "33: assets.gl_close.steps[15].output: output to '../x': use a path in the project, such "
        "as exports/gl.csv",
        "34: assets.gl_close.steps[16].groupBy.agg: expected columns and their expressions, found "
        "'max(a)'",
        "35: assets.gl_close.steps[17].select: name at least one",
        "14: assets.gl_close: trace is 'off' or 'changes', not 'on'",
        "37: assets.numbered.steps: seq 10 comes after seq 20: numbers must rise along the chain",
        "38: assets.nowhere: 'from' is missing",
        "38: assets.nowhere.partitioned_by: use either 'start' for days, optionally with "
        "'end', or 'values'",
        "39: assets.split.partitioned_by: 'yesterday' is not a day; write it like 2025-01-31",
        "39: assets.split.thresholds.absolut: unknown key. Did you mean 'absolute'?",
        "40: assets.asked.approval.timeout_s: expected a whole number, found 'soon'",
    ]


BOMB = "a: &a [x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "two equal keys": ("sources: {}\nassets: {}\nsources: {}", "3: duplicate key 'sources', firs"),
    "two equal keys, quoted": ("assets:\n  a: {from: x, 'from': y}", "2: duplicate key 'from', f"),
    "an object": ("sources: !!python/object/apply:os.system [ls]", "1: tags such as 'tag:yaml.or"),
    "a type": ("sources: {x: {path: !!float 1.10}}", "1: tags such as 'tag:yaml.org,2002:float'"),
    "a bomb": (BOMB, "6: more than 100,000 values when its aliases are expanded"),
    "a snake": ("assets: &a {x: *a}", "1: an alias refers to a value that contains it"),
    "no YAML": ("assets:\n  a: {from: x\n  b: ]", "3: it is not valid YAML: expected ',' or '}'"),
    "half a selector": ("assets:\n  a:\n    x: {{A}} OR b", "3: it is not valid YAML: expected <"),
    "two documents": ("sources: {}\n---\nassets: {}", "2: it is not valid YAML: but found another"),
    "no text": (b"sources: {x: \xff}", " it is not UTF-8: byte 14"),
    "control characters": ("sources: \0", " it is not valid YAML: unacceptable character #x0000"),
    "too deep": ("[" * 5000, " it is nested too deeply to be read"),
    "a list": ("- sources", "1: expected names and values, found a list"),
    "a list as a key": ("sources: {[a]: b}", "1: a key must be a text, not a list or a mapping"),
}


@pytest.mark.parametrize(("text", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_told_without_reading_on(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    first, *_ = mistakes(tmp_path, text)

    assert first.startswith(said), first


TRAPS = """\
selectors:
  yes: no <> off  -- not really
assets:
  on:
    from: raw-1.10
    key: [y, 1.10, 2026-01-31, 0x1F, 1_000]
    tags: null_is_a_name
    steps:
      - join: {with: no, on: on = no}
      - update:
          set: {on: yes, off: null, n: 1_000, d: 2026-01-31, s: "'a: b'"}
          where: {{yes}}
      - filter: |
          a > 0
          AND b
      - delete: "  "
      - withColumn: {columns: "1", name: "2"}
"""


def test_texts_are_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    sources = (
        "import tallyman as tm\nfor n in ('no', 'raw-1.10'): tm.source(n, 'x', schema='a int')\n"
    )
    (tmp_path / "pipelines" / "p.py").write_text(sources)

    asset = loaded(tmp_path, TRAPS).assets["on"]
    join, update, condition, delete, columns = asset.plan().steps()

    assert asset.inputs == ("raw-1.10", "no")
    assert asset.key == ("y", "1.10", "2026-01-31", "0x1F", "1_000")
    assert asset.tags == {"null_is_a_name"}
    assert isinstance(join, Join)
    assert (join.other.input, join.on) == ("no", "on = no")
    assert isinstance(update, Update)
    assert update.set == (
        *(("on", "yes"), ("off", "null"), ("n", "1_000"), ("d", "2026-01-31"), ("s", "'a: b'")),
    )
    assert update.where == "(no <> off  -- not really\n)"
    assert isinstance(condition, Filter)
    assert condition.predicate == "a > 0\nAND b"
    assert isinstance(delete, Delete)
    assert delete.where is None
    assert isinstance(columns, WithColumns)
    assert dict(columns.columns) == {"columns": "1", "name": "2"}


def test_the_examples_of_the_pages_are_pipelines(tmp_path: Path) -> None:
    pages = (DOCS / "reference/yaml.md", DOCS / "guides/yaml.md")
    text = "\n".join(page.read_text("utf-8") for page in pages)
    whole = re.findall(r"^```yaml[^\n]*\n(sources:.*?)^```", text, re.DOTALL | re.MULTILINE)

    assert len(whole) == 2
    for example in whole:
        assert all(asset.plan() for asset in loaded(tmp_path, example).assets.values())


def test_an_alias_repeats_what_it_names(tmp_path: Path) -> None:
    text = "sources:\n  x: {path: x, schema: a int}\nassets:\n  a: {from: x, steps: &s [filter: a]}"
    pipeline = loaded(tmp_path, f"{text}\n  b: {{from: a, steps: *s}}\n")

    assert [asset.plan().input for asset in pipeline.assets.values()] == ["x", "a"]
    assert all(len(list(asset.plan().steps())) == 1 for asset in pipeline.assets.values())


def test_an_asset_cut_down_to_a_partition_keeps_its_steps(tmp_path: Path) -> None:
    """The function of the asset is given Frames that have steps already."""
    text = "sources: {x: {path: x, schema: a int}}\nassets: {b: {from: x, steps: [union: x]}}"
    asset = loaded(tmp_path, text).assets["b"]

    plan = asset.function(Frame("x").filter("mine"))

    assert [step.kind for step in plan.steps()] == ["filter", "union"]
    assert [step.kind for step in plan.step.other.steps()] == ["filter"]
