"""The same pipeline in Python and in YAML: the same declarations, and one hash for one meaning."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallyman.cli.start.init import PIPELINE, PIPELINE_AS_YAML
from tallyman.control.compile.load import load
from tallyman.domain.compiled.declared import ASSET, SOURCE, TABLE
from tallyman.domain.compiled.form import text_of_document, write
from tallyman.domain.compiled.steps import VERBS
from tallyman.domain.definition.frame import Frame, Grouped
from tallyman.domain.definition.plan import frames
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.pipeline import declare
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.plan.canonical import definition_hash
from tallyman.errors import DefinitionError

IN_PYTHON = """
import tallyman as tm

lines = tm.source(
    "lines", path="data/{partition}/lines.csv", format="csv", key=["journal", "line"],
    schema="journal string, line int, tags array<string>", options={"header": False, "sep": ";"},
)
centers = tm.table("centers", schema="code string, region string", key="code")
rates = tm.table("rates", schema="currency string, center string, rate decimal(9,4)",
                 key=["currency"], references={"center": "centers.code"})
plans = tm.source("plans", path="data/plans.jsonl", schema="account string, amount int",
                  on_empty="allow", on_shrink="warn")
NO_DRAFTS = "(status <> 'DRAFT' AND (region = 'EMEA'))"


@tm.asset(
    key=["journal", "line"], unique=False, thresholds={"absolute": 5, "percentage": 0.10},
    evidence="digest", tags=["finance", "daily"],
    meta={"owner": "finance", "tier": 1, "pii": False},
    partitioned_by=tm.daily("day", "2026-01-01", "2026-12-31"),
    approval=tm.approval("large", when="sum(amount) > 10", timeout_s=60),
    update_strategy="append", unique_key="journal", publish="ledger",
)
def rows_in(lines, plans):
    return (
        lines.select("journal", "line", "tags", "coalesce(amount, 0) AS amount", name="few")
        .drop("unused", "this")
        .withColumns({"twice": "amount * 2", "half": "amount / 2"}, name="both")
        .withColumn("nothing", "null")
        .withColumnRenamed("half", "part")
        .filter("status = 'PAID'", reason="not paid", name="paid")
        .expect("positive", "amount > 0", code="E1")
        .expect("small", "amount < 1000000", severity="warn")
        .unionByName(lines.filter(NO_DRAFTS))
        .union(plans)
        .dropDuplicates(["journal"])
        .dropDuplicates()
        .join(plans.withColumn("x", "1").drop("amount"), "account = account",
              how="left", unmatched="error", fanout="error")
        .join(plans, ["account", "line"], unmatched="filter", fanout="expand", max_unmatched="5%")
        .explode("tags", "tag", outer=True)
        .groupBy("journal", "line")
        .agg(total="sum(amount)", lines="count(*)", name="groups")
    )


@tm.asset(key="journal", trace="off", thresholds="strict", publish_rejections="close_rejected",
          split={"large": "total > 5", "small": tm.otherwise}, trigger="event", priority=5,
          retry=tm.retry(attempts=5, timeout="45m", backoff="10s", backoff_cap="1m"))
def close(rows_in, rates, centers, plans):
    return (
        rows_in.update(
            {"reported": "amount * fx.rate", "note": "concat('a', note)"},
            where=NO_DRAFTS,
            join={"fx": (rates.filter("rate > 0"), "currency = currency"),
                  "centers": (centers, ["center", "code"])},
            name="fx", seq=5,
        )
        .delete("source = 'EXPENSE'")
        .delete()
        .aggregate(["currency", "center"], total="sum(reported)", n="count(1)",
                   where="reported > 0", seq=40)
        .append(plans.filter("a"), where="amount > 5000",
                aggregate={"by": ["account"], "set": {"amount": "sum(amount)"}}, name="budget")
        .append(plans)
        .output("exports/close", format="csv", columns=["journal", "total"], include_deleted=True,
                register_as="close_copy")
        .output("exports/all.parquet", name="copy", seq=99)
    )


@tm.asset(trigger=tm.schedule("0 2 * * MON-FRI", timezone="Europe/Amsterdam"), timeout="2h",
          pool="small", max_concurrency=2)
def largest(large):
    return large.filter("total > 50")


@tm.asset(partitioned_by=tm.partitions("region", ["NL", "1.10"]), publish=False)
def unchanged(close):
    return close
"""

IN_YAML = """
sources:
  lines:
    path: data/{partition}/lines.csv
    format: csv
    key: [journal, line]
    schema: journal string, line int, tags array<string>
    options: {header: false, sep: ;}
  plans:
    {path: data/plans.jsonl, schema: "account string, amount int", on_empty: allow, on_shrink: warn}
tables:
  centers: {schema: "code string, region string", key: code}
  rates:
    schema: currency string, center string, rate decimal(9,4)
    key: [currency]
    references: {center: centers.code}
selectors:
  NO_DRAFTS: status <> 'DRAFT' AND {{ EMEA }}
  EMEA: region = 'EMEA'
assets:
  rows_in:
    from: lines
    key: [journal, line]
    unique: false
    thresholds: {absolute: 5, percentage: 0.10}
    evidence: digest
    tags: [finance, daily]
    meta: {owner: finance, tier: 1, pii: false}
    partitioned_by: {column: day, start: 2026-01-01, end: 2026-12-31}
    approval: {message: large, when: sum(amount) > 10, timeout_s: 60}
    update_strategy: append
    unique_key: journal
    publish: ledger
    steps:
      - select: {columns: [journal, line, tags, "coalesce(amount, 0) AS amount"], name: few}
      - drop: [unused, this]
      - withColumn: {columns: {twice: amount * 2, half: amount / 2}, name: both}
      - withColumn: {nothing: null}
      - withColumnRenamed: {existing: half, new: part}
      - filter: {where: status = 'PAID', reason: not paid, name: paid}
      - expect: {rule: positive, that: amount > 0, code: E1}
      - expect: {rule: small, that: amount < 1000000, severity: warn}
      - unionByName: {with: {from: lines, where: {{NO_DRAFTS}}}}
      - union: plans
      - dropDuplicates: [journal]
      - dropDuplicates:
      - join:
          with: {from: plans, steps: [withColumn: {x: 1}, drop: amount]}
          on: account = account
          how: left
          unmatched: error
          fanout: error
      - join:
          {with: plans, on: [account, line], unmatched: filter, fanout: expand, max_unmatched: 5 %}
      - explode: {column: tags, alias: tag, outer: true}
      - groupBy: {by: [journal, line], agg: {total: sum(amount), lines: count(*)}, name: groups}
  close:
    from: rows_in
    key: journal
    trace: off
    thresholds: strict
    publish_rejections: close_rejected
    split: {large: total > 5, small: true}
    trigger: event
    priority: 5
    retry: {attempts: 5, timeout: 45m, backoff: 10s, backoff_cap: 1m}
    steps:
      - update:
          set: {reported: amount * fx.rate, note: "concat('a', note)"}
          where: "{{NO_DRAFTS}}"
          join:
            fx: {from: rates, where: rate > 0, on: currency = currency}
            centers: {from: centers, on: [center, code]}
          name: fx
          seq: 5
      - delete: source = 'EXPENSE'
      - delete: {where: }
      - aggregate:
          by: [currency, center]
          set: {total: sum(reported), n: count(1)}
          where: reported > 0
          seq: 40
      - append:
          from: {from: plans, where: a}
          where: amount > 5000
          aggregate: {by: account, set: {amount: sum(amount)}}
          name: budget
      - append: {from: plans}
      - output:
          path: exports/close
          format: csv
          columns: [journal, total]
          include_deleted: true
          register_as: close_copy
      - output: {path: exports/all.parquet, name: copy, seq: 99}
  largest:
    from: large
    trigger: {cron: 0 2 * * MON-FRI, timezone: Europe/Amsterdam}
    timeout: 2h
    pool: small
    max_concurrency: 2
    steps: [filter: total > 50]
  unchanged:
    from: close
    partitioned_by: {column: region, values: [NL, 1.10]}
    publish: false
"""


def loaded(folder: Path, file: str, text: str) -> Pipeline:
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    return load(folder)


def hashes(pipeline: Pipeline) -> dict[str, str]:
    return {
        name: definition_hash(
            asset.plan(),
            asset=asset,
            sources=pipeline.sources,
            evidence=asset.evidence,
            thresholds=asset.thresholds,
        )
        for name, asset in pipeline.assets.items()
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Pipeline]:
    folder = tmp_path_factory.mktemp("both")
    python = loaded(folder / "python", "p.py", IN_PYTHON)
    return python, loaded(folder / "yaml", "p.yaml", IN_YAML)


def test_both_forms_have_equal_hashes(both: tuple[Pipeline, Pipeline]) -> None:
    python, yaml_form = both

    assert hashes(yaml_form) == hashes(python)
    assert list(yaml_form.assets) == list(python.assets)
    used = {s.kind for a in python.assets.values() for f in frames(a.plan()) for s in f.steps()}
    assert used - {"split"} == {step.kind for step in Step.__subclasses__()}, "every step there is"


def test_init_writes_the_same_pipeline_in_both_forms(tmp_path: Path) -> None:
    python = loaded(tmp_path / "python", "sales.py", PIPELINE)
    yaml_form = loaded(tmp_path / "yaml", "sales.yaml", PIPELINE_AS_YAML)

    assert hashes(yaml_form) == hashes(python)
    assert yaml_form.sources == python.sources


def test_yaml_can_say_all_that_python_can() -> None:
    """Also what is added to Frame later: it is missing here until the table of verbs has it."""
    for name, verb in VERBS.items():
        said = {key.to or word for word, key in verb.keys.items()}
        method = {"withColumn": Frame.withColumns, "groupBy": Grouped.agg}.get(name)
        taken = set(inspect.signature(method or getattr(Frame, name)).parameters) - {"self"}
        assert said - {"by"} == taken - ({"columns"} if name == "groupBy" else {"by"}), name
    for record, function, others in (
        (SOURCE, declare.source, {"name"}),
        (TABLE, declare.table, {"name"}),
        (ASSET, declare.asset, {"name", "function"}),
    ):
        assert set(record.keys) == set(inspect.signature(function).parameters) - others


def test_how_tasks_are_made_is_no_part_of_the_result(
    both: tuple[Pipeline, Pipeline], tmp_path: Path
) -> None:
    kept = [
        line
        for line in IN_YAML.splitlines()
        if line.partition(":")[0].strip()
        not in {"trigger", "retry", "timeout", "priority", "pool", "max_concurrency"}
    ]
    plain = loaded(tmp_path / "plain", "p.yaml", "\n".join(kept))

    assert len(kept) == len(IN_YAML.splitlines()) - 7
    assert hashes(plain) == hashes(both[1])
    texts = [text_of_document(write(pipeline)) for pipeline in (plain, both[1])]
    assert texts[0] != texts[1]


# ---- every value counts ------------------------------------------------------------------------

ANOTHER = {
    "how": "inner",
    "unmatched": {"error": "filter", "filter": "error"},
    "format": {"csv": "json"},
    "fanout": {"error": "expand", "expand": "error"},
    "severity": {"warn": "fail"},
    "max_unmatched": {"5 %": "5"},
    "update_strategy": None,
    "evidence": "keys",
    "trace": "changes",
    "unique": "true",
    "thresholds": "permissive",
    "outer": "false",
    "include_deleted": "false",
    "absolute": "6",
    "percentage": "0.11",
    "seq": {"5": "6", "40": "41", "99": "98"},
    "path": {"exports/all.parquet": "exports/al.parquet"},
    "on": "account = x",
}
"""Where adding a letter would be a mistake; None: it cannot be changed alone."""
NOT_PART_OF_IT = {
    "on_empty", "on_shrink",
    "tags", "meta", "approval", "publish", "publish_rejections", "start", "end", "values",
    "unchanged", "trigger", "retry", "timeout", "priority", "pool", "max_concurrency",
}  # fmt: skip
"""They say when, and for whom, but not what is made."""


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, str):
        yield path
    else:
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        for key, child in pairs:
            yield from _leaves(child, (*path, key))


def _changed(path: tuple[Any, ...], value: str) -> str | None:
    word = next((w for w in reversed(path) if isinstance(w, str)), "")
    found = ANOTHER.get(word, f"{value}x" if value else "x")
    return found.get(value, f"{value}x") if isinstance(found, dict) else found


def test_a_difference_in_any_value_changes_the_hash(tmp_path: Path) -> None:
    document = yaml.load(IN_YAML.replace("{{NO_DRAFTS}}}", "'{{NO_DRAFTS}}'}"), yaml.BaseLoader)
    before = hashes(loaded(tmp_path / "first", "p.yaml", IN_YAML))
    tried = 0
    for path in _leaves(document):
        if path[0] == "tables" or NOT_PART_OF_IT & set(path):
            continue
        *place, last = path
        node: Any = document
        for key in place:
            node = node[key]
        value = node[last]
        another = _changed(path, value)
        if another is None:
            continue
        node[last] = another
        after = _hashes_or_unknown(tmp_path / "edited", json.dumps(_written(document)))
        node[last] = value
        assert after != before, (path, value, another)
        tried += 1
    assert tried > 100


def _hashes_or_unknown(folder: Path, text: str) -> dict[str, str] | None:
    """None: there is no input or selector of that name, which is noticed as well."""
    try:
        return hashes(loaded(folder, "p.yaml", text))
    except DefinitionError as error:
        if all(problem.message.startswith("unknown ") for problem in error.problems):
            return None
        raise


def _written(node: Any) -> Any:
    """For JSON, which is YAML: numbers and truth values are not quoted."""
    if isinstance(node, str):
        typed = {"true": True, "false": False, "0.10": 0.1, "0.11": 0.11}
        return int(node) if node.isdigit() else typed.get(node, node)
    if isinstance(node, list):
        return [_written(each) for each in node]
    return {key: _written(each) for key, each in node.items()}
