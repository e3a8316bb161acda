"""`tallyman init`: create a small working project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson
from tallyman.cli.terminal.output import answer
from tallyman.errors import UsageError

YAML = """\
name: {name}
# pipelines: pipelines        # folder of Python and YAML files that declare sources and assets
# runs: runs                  # where run folders go
# warehouse: warehouse        # where the files of versions go
# master: local[4]            # or spark://host:7077, or sc://host for Spark Connect
# database: postgresql://user@host/name   # instead of the project's own
# thresholds: default         # default, strict, permissive, or absolute: and percentage:
# spark:
#   spark.driver.memory: 8g
"""

PIPELINE = """\
import tallyman as tm

orders = tm.source(
    "orders",
    path="data/orders.jsonl",
    format="json",
    key="order_id",
    schema="order_id string, day date not null, country string, amount decimal(10,2)",
)


@tm.asset(key="day")
def daily_sales(orders: tm.Frame) -> tm.Frame:
    return (
        orders.expect("positive_amount", "amount > 0")
        .filter("country = 'NL'", reason="abroad")
        .groupBy("day")
        .agg(total="sum(amount)", orders="count(*)")
    )
"""

PIPELINE_AS_YAML = """\
sources:
  orders:
    path: data/orders.jsonl
    format: json
    key: order_id
    schema: order_id string, day date not null, country string, amount decimal(10,2)

assets:
  daily_sales:
    from: orders
    key: day
    steps:
      - expect: {rule: positive_amount, that: amount > 0}
      - filter: {where: country = 'NL', reason: abroad}
      - groupBy: {by: day, agg: {total: sum(amount), orders: count(*)}}
"""

ORDERS = [
    f'{{"order_id":"o-{n}","day":"2026-01-{1 + n % 5:02d}",'
    f'"country":"{"BE" if n % 7 == 0 else "NL"}",'
    f'"amount":{"-1.00" if n == 13 else f"{5 + n * 1.25:.2f}"}}}\n'
    for n in range(1, 61)
]


def init(
    name: Annotated[str, typer.Argument(help="The name of the project and of its new folder.")],
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Write the pipeline in YAML instead of Python.")
    ] = False,
    json_output: AsJson = False,
) -> None:
    """Create a small working project, in Python or YAML.

    The project has tallyman.yaml, pipelines/ and data/. One project can mix Python and YAML.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", Path(name).name):
        raise UsageError(f"project name {name!r}: use letters, digits, '.', '_' and '-'")
    folder = Path(name)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} already exists and is not empty; nothing was written")
    path, text = ("sales.yaml", PIPELINE_AS_YAML) if as_yaml else ("sales.py", PIPELINE)
    files = {
        "tallyman.yaml": YAML.format(name=folder.name),
        f"pipelines/{path}": text,
        "data/orders.jsonl": "".join(ORDERS),
        ".gitignore": "runs/\nwarehouse/\n.tallyman/\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    text = f"{folder}: {', '.join(files)}\nnext:  cd {folder} && tallyman run"
    answer({"project": folder.name, "files": list(files)}, text, json_output)
