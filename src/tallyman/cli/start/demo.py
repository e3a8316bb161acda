"""`tallyman demo`: create the airline example and run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyman.cli.start.demo_data import write_airline
from tallyman.cli.terminal.options import AsJson, Master, SparkConf, opened
from tallyman.cli.terminal.output import out
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import print_result


def demo(
    folder: Annotated[
        str, typer.Argument(help="The folder to create the project in.")
    ] = "airline-demo",
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Create the airline example, 349,660 records, and run it."""
    place = Path(folder)
    if not (place / "tallyman.yaml").exists():
        if not json_output:
            out.print(f"writing 349,660 booking segments to {place}/data")
        write_airline(place)
    found = opened(str(place), master, spark_conf, short=True)
    result = supervised(found, json_output, lambda progress: found.run(force=True, listen=progress))
    print_result(result, json_output)
    if not json_output:
        out.print(
            f"explore it:  cd {place} && tallyman show latest && tallyman rejections ls latest && "
            "tallyman why daily_revenue flight_date=2024-01-15 --limit 3"
        )
    raise typer.Exit(result.exit_code)
