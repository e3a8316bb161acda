"""`tallyman report`: write the full report of a run, as text or HTML."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, RunName, opened
from tallyman.cli.terminal.output import answer, as_json, printable, short
from tallyman.domain.history.run import RUN_ID
from tallyman.errors import UsageError
from tallyman.pages.flow import equation, units
from tallyman.pages.report import page
from tallyman.pages.text import KINDS, WORDS, cut, duration, partition, share, size, status
from tallyman.query.report.asset import AssetReport
from tallyman.query.report.run import Report

MOST = 12
"""The most failures, partitions or inputs to list; of the rest only the number is shown."""
BAR = 24


def report(
    run: RunName = "latest",
    html: Annotated[
        bool,
        typer.Option("--html", help="Write one self-contained HTML page, also fit for printing."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the report to this file; '-' is stdout. Default: report-RUN.html.",
        ),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Write the full report of a run, as text or an HTML page.

    The report shows where each record went and why, how long the run took, and the proof.

    tallyman report latest             print the report here

    tallyman report latest --html      write report-RUN.html into this folder
    """
    found = opened(project)
    made = found.report(run)
    if json_output and not html and output is None:
        as_json(made.to_json())
        return
    text = page(made) if html else "\n".join(lines(made)) + "\n"
    if output == "-" or (output is None and not html):
        sys.stdout.write(text)
        return
    target = Path(output or f"report-{_name(made)}.html").absolute()
    if target.resolve().is_relative_to(found.settings.runs_folder.resolve()):
        raise UsageError(f"{target}: run folders are sealed; write the report somewhere else")
    _write(target, text)
    facts = {"run_id": made.head["run_id"], "file": str(target), "bytes": len(text.encode())}
    answer(facts, f"wrote {target}", json_output)


def _name(made: Report) -> str:
    """Return the run id for the file name, or `run`: the id of a run copied from elsewhere is not
    trusted."""
    name = str(made.head["run_id"])
    return short(name) if RUN_ID.fullmatch(name) and set(name) != {"."} else "run"


def _write(target: Path, text: str) -> None:
    """Write the file atomically: the old page stays until the new one is complete."""
    unfinished = target.with_name(f".{target.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None


def lines(report: Report) -> Iterator[str]:
    """Yield the report's lines with control characters made visible: a run copied from elsewhere
    may contain any."""
    yield from map(printable, _lines(report))


def _lines(report: Report) -> Iterator[str]:
    head = report.head
    ended = f" to {head['finished_at']}" if head["finished_at"] else ""
    yield f"run {head['run_id']}   {status(head['status'])}"
    yield f"{head['project']}   {head['started_at']}{ended}   {duration(head['duration_ms'])}"
    yield f"by {head['actor'] or '–'}   {head['folder'] or 'no folder'}"
    if head["replay_of"]:
        yield f"a replay of rejections of run {head['replay_of']}"
    if head["error"]:
        yield from _failure("", head["error"])
    for asset in report.assets:
        yield from ("", *_asset(asset))
    yield from ("", *_published(report), "", *_proof(report), "", *_bound(report))


def _asset(asset: AssetReport) -> Iterator[str]:
    totals = asset.totals
    states = ", ".join(
        f"{count:,} {status(word)}" if asset.partitioned else status(word)
        for word, count in totals["statuses"].items()
    )
    yield f"{asset.name}   {states}   {duration(totals['duration_ms'])}"
    for one in asset.failures[:MOST]:
        yield from _failure(partition(one.get("partition")), one["error"])
    if len(asset.failures) > MOST:
        yield f"  and {len(asset.failures) - MOST:,} more failures"
    for one in [one for one in asset.targets if one.get("unchanged_since")][:1]:
        yield f"  unchanged since run {short(one['unchanged_since'])}   {totals['rows_out']:,} rows"
    yield from _flow(asset)
    if asset.rules:
        yield f"  rejected: {totals['error_count']:,} records, {share(totals['error_rate'])} of all"
        for flow, count in asset.rejected_made:
            yield f"            {count:,} {units(flow)}, {share(count / flow.count)} of all"
    for rule in asset.rules:
        yield f"  {rule['count']:>12,}  {rule['error_type']}  {rule['morphism_path']}"
        yield f"{'':16}{_sample(rule['samples'][0])}"
    for one in asset.filters:
        kept = cut(one["predicate"] or "–", 80)
        yield f"  {one['count']:>12,}  filtered by {one['step']}: kept where {kept}"
    yield from _effort(asset)


def _sample(one: Mapping[str, Any]) -> str:
    return (
        f"{cut(one['key'], 40)}: expected {cut(one['expected'], 50)}, was {cut(one['actual'], 50)}"
    )


def _flow(asset: AssetReport) -> Iterator[str]:
    for flow in asset.flows:
        if not flow.shares and asset.failures:
            continue
        yield f"  {equation(flow)}   {flow.unaccounted:,} unaccounted"
        most = max((one.count for one in flow.shares), default=0)
        for one in flow.shares:
            bar = "█" * max(1, round(BAR * one.count / most))
            word = WORDS[one.fate]
            yield f"  {one.count:>12,}  {word:<10}  {bar:<{BAR}}  {cut(one.description, 60)}"


def _effort(asset: AssetReport) -> Iterator[str]:
    phases = [
        f"{lap['name']} {duration(lap['ms'])}" for lap in asset.steps if lap["kind"] == "phase"
    ]
    steps = [
        f"{lap['name']} {duration(lap['ms'])}" for lap in asset.steps if lap["kind"] != "phase"
    ]
    if phases:
        yield f"  time        {', '.join(phases)}"
    if steps:
        yield f"  up to step  {', '.join(steps)}"
    found = asset.totals["bytes"]
    sizes = [f"{word} {_size(found[kind])}" for kind, word in KINDS.items() if kind in found]
    if sizes:
        yield f"  bytes       {', '.join(sizes)}"
    yield from _columns(asset)


def _columns(asset: AssetReport) -> Iterator[str]:
    for one in asset.columns:
        facts = [f"{one['nulls']:,} NULL"]
        if one["approx_distinct"] is not None:
            facts.append(f"about {one['approx_distinct']:,} distinct")
        if one["min"] is not None and one["max"] is not None:
            facts.append(f"{one['min']} to {one['max']}")
        yield f"  column      {one['input']}.{one['column']}   {', '.join(facts)}"


def _size(one: Mapping[str, int]) -> str:
    return f"{size(one['bytes'])} in {one['files']:,} file{'s' if one['files'] != 1 else ''}"


def _failure(where: str, error: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {where + ': ' if where else ''}{error.get('message', '')}"
    if error.get("hint"):
        yield f"    {error['hint']}"


def _published(report: Report) -> Iterator[str]:
    if not report.versions:
        yield "published   nothing"
    for one in report.versions:
        was = f" (was v{one['was']})" if one["was"] else ""
        yield f"published   {one['dataset']} v{one['version']}{was}   {one['rows']:,} rows"
    if report.versions:
        yield f"            commit {report.head['commit']}"


def _proof(report: Report) -> Iterator[str]:
    proofs = [proof for asset in report.assets for proof in asset.proofs]
    open_ = [proof for proof in proofs if not proof["balanced"]]
    yield f"proof       {len(proofs) - len(open_):,} of {len(proofs):,} ledgers balance"
    for one in (proofs if len(proofs) <= MOST else open_)[:MOST]:
        counts = "   ".join(f"{one[kind]:,} {kind}" for kind in ("missing", "extra", "duplicate"))
        yield f"  {one['target']}"
        yield f"    keys in {one['door_digest']}   of all fates {one['fates_digest']}"
        yield f"    {counts}   {one['method']}"
        for place, columns in (one.get("missing_columns") or {}).items():
            lacking = ", ".join(f"{name} in {count:,}" for name, count in columns.items())
            yield f"    NULL for columns that files of {place} lack, records: {lacking}"
        for reference in one.get("references", ()):
            yield f"    reference {reference['text']}"
        if one.get("duplicate_keys") is None and one["balanced"]:
            yield f"    repeated keys not counted: tallyman verify {report.head['run_id']} --exact"
    if report.seal is None:
        yield "seal        none: the run is still running, or its process died"
        return
    seal, signature = report.seal, report.seal["signature"]
    yield f"seal        {seal['ordinal']}  {seal['hash']}"
    yield f"  before it   {seal['previous'] or 'none: this is the first seal'}"
    yield f"  signed      {'by key ' + signature['key'] if signature else 'no'}"
    yield f"  check with  tallyman verify {report.head['run_id']}"


def _bound(report: Report) -> Iterator[str]:
    binding, code = report.binding, report.binding["code_version"]
    dirty = ", not committed" if code.get("git_dirty") else ""
    yield f"config      {binding['config_hash'] or 'not in the manifest'}"
    yield f"code        {code.get('source_hash') or 'not in the manifest'}"
    yield f"git         {(code.get('git_commit') or 'no commit') + dirty}"
    inputs = list(binding["inputs"].items())
    for name, one in inputs[:MOST]:
        version = f" v{one['version']}" if one.get("version") else ""
        yield f"input       {name}{version}   {_size(one)}   {one['hash'] or one.get('problem')}"
    if len(inputs) > MOST:
        yield f"            and {len(inputs) - MOST:,} more, in manifest.json"
    yield f"lineage     {report.lineage['openlineage_run_id']}"
    for name, one in list(report.lineage["assets"].items())[:MOST]:
        yield f"            {one}  {name}"
