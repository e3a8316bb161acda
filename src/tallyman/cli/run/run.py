"""`tallyman run`: make assets, and print one tally per asset."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import (
    AcceptShrink,
    AsJson,
    Force,
    Jobs,
    Master,
    Meta,
    Partition,
    ProjectFolder,
    Selection,
    SparkConf,
    opened_to_make,
    pairs,
)
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import show_result


def run(
    selection: Selection = None,
    partition: Partition = None,
    force: Force = False,
    jobs: Jobs = 1,
    evidence: Annotated[
        str | None,
        typer.Option(help="What to store as proof: keys (every key) or digest (cheaper)."),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(
            help="How many rejections to tolerate: default, strict, permissive, or "
            "absolute=N,percentage=P."
        ),
    ] = None,
    accept_shrink: AcceptShrink = None,
    run_id: Annotated[
        str | None, typer.Option(help="Use this run id instead of a generated one.")
    ] = None,
    meta: Meta = None,
    pipeline_version: Annotated[
        str | None,
        typer.Option(
            help="Run this stored version of the pipeline instead of the project's files: its "
            "hash, a prefix of it, or 'active'.",
            show_default=False,
        ),
    ] = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Run assets, account for every record, publish what balances.

    An asset is skipped if neither its definition nor its inputs changed since its last success.
    The version of the pipeline that is run becomes the active one.
    """
    found = opened_to_make(project, master, spark_conf, short=True)
    result = supervised(
        found,
        json_output,
        lambda progress: found.run(
            selection or [],
            partition=partition,
            force=force,
            jobs=jobs,
            evidence=evidence,
            run_id=run_id,
            thresholds=thresholds,
            accept_shrink=accept_shrink or [],
            meta=pairs(meta or [], "--meta"),
            pipeline_version=pipeline_version,
            listen=progress,
        ),
    )
    show_result(result, json_output)
