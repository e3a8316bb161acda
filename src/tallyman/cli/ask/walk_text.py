"""Text output of `why` and `where`: an indented tree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tallyman.cli.terminal.output import counted, short, text_of
from tallyman.domain.history.asked_row import said, shown
from tallyman.domain.history.walk import Became, Hop, Joined, Record, RecordOrigin, Where, Why

INDENT = "   "
WIDEST = 160
DID = {"combined": "combined", "multiplied": "split up", "passed": "passed on"}


def why_lines(found: Why) -> Iterator[str]:
    at = f"{found.dataset} v{found.version}"
    if not found.hops:
        yield f"{at}   {counted(found.rows, 'row')}   written by {found.committed_by}"
        yield f"{INDENT}commit {short(found.commit or '')}: rows of a table are written directly"
        yield from _records(found.records, INDENT)
        return
    for hop in found.hops:
        yield from _hop(hop, "", "")


def _hop(hop: Hop, pad: str, word: str, on: str = "") -> Iterator[str]:
    version = f" v{hop.version}" if hop.version else " (never published)"
    partition_ = f"[{hop.partition}]" if hop.partition else ""
    yield f"{pad}{word}{hop.dataset}{version}{partition_}{on}   {counted(hop.rows, 'row')}"
    pad += INDENT if word else ""
    for row in hop.shown:
        yield f"{pad}{INDENT}{_values(row)}"
    if len(hop.shown) < hop.rows:
        yield f"{pad}{INDENT}… {hop.rows - len(hop.shown):,} more"
    name = "" if hop.asset == hop.dataset else f"asset {hop.asset}, "
    name += f"pipeline {hop.pipeline}, " if hop.pipeline else ""
    note = "   keys computed again, digests agree" if hop.recomputed else ""
    yield f"{pad}└─ {name}run {short(hop.run)}   {hop.folder}{note}"
    deeper = pad + INDENT
    for step in hop.steps:
        yield f"{deeper}{step.step}   {DID.get(step.did, step.did)} {counted(step.count, 'record')}"
    for note in hop.notes:
        yield f"{deeper}note: {note}"
    for origin in hop.inputs:
        yield from _origin(origin, deeper, "from ")
    for joined in hop.joins:
        yield from _joined(joined, deeper)


def _joined(joined: Joined, pad: str) -> Iterator[str]:
    yield from _origin(joined.origin, pad, f"{joined.step} joined ", f" on {joined.on}")


def _origin(origin: RecordOrigin, pad: str, word: str, on: str = "") -> Iterator[str]:
    if origin.hops:
        for hop in origin.hops:
            yield from _hop(hop, pad, f"└─ {word}", on)
        return
    version = f" v{origin.version}" if origin.version else ""
    kind = "" if origin.kind == "asset" else f"{origin.kind} "
    count = "" if origin.count is None else f"   {counted(origin.count, 'record')}"
    files = f" in {counted(len(origin.files), 'file')}" if origin.files else ""
    yield f"{pad}└─ {word}{kind}{origin.name}{version}{on}{count}{files}"
    deeper = pad + INDENT
    if origin.not_shown:
        yield f"{deeper}NOT SHOWN: {origin.not_shown}"
    for one in origin.corrections:
        yield f"{deeper}{one}"
    if origin.commit:
        yield f"{deeper}commit {short(origin.commit)} by {origin.committed_by}"
    if len(origin.files) > 1:
        for name, count_ in list(origin.files.items())[:10]:
            yield f"{deeper}{name}   {count_:,}"
        if len(origin.files) > 10:
            yield f"{deeper}… {len(origin.files) - 10:,} more files"
    yield from _records(origin.records, deeper)
    if origin.count and origin.records and len(origin.records) < origin.count:
        yield f"{deeper}… {origin.count - len(origin.records):,} more (--limit, --keys)"


def _records(records: Sequence[Record], pad: str) -> Iterator[str]:
    places = [record.place or record.key or "·" for record in records]
    width = max(map(len, places), default=0)
    for record, place in zip(records, places, strict=True):
        yield f"{pad}{place:<{width}}  {_values(record.values)}"


def where_lines(found: Where) -> Iterator[str]:
    row = said(found.row).removeprefix("@=")
    yield f"source {found.source}   {row}   {counted(found.count, 'record')}"
    yield from _records(found.records, INDENT)
    for note in found.notes:
        yield f"{INDENT}note: {note}"
    for one in found.became:
        yield from _became(one, "")


def _became(one: Became, pad: str) -> Iterator[str]:
    deeper = pad + INDENT
    partition_ = f"[{one.partition}]" if one.partition else ""
    if not one.run:
        yield f"{pad}└─ {one.asset}   left out of {counted(one.other_partitions or 0, 'partition')}"
        return
    status = "" if one.status in ("success", "skipped") else f"   {one.status}"
    of = f" of pipeline {one.pipeline}" if one.pipeline else ""
    yield f"{pad}└─ {one.asset}{partition_}{of}   run {short(one.run)}{status}"
    if one.joined_by is not None:
        yield f"{deeper}joined by {counted(one.joined_by, 'record')} of {one.asset}"
    for letter in one.rejections:
        group = f"   with its group {letter.group_key}" if letter.group_key else ""
        yield (
            f"{deeper}REJECTED at {letter.step}: {letter.rule} ({letter.error_type})   "
            f"expected {letter.expected}   actual {letter.actual}{group}"
        )
    for ended in one.filtered:
        count = "" if ended.count == 1 else f"   {ended.count:,} of them"
        yield f"{deeper}LEFT OUT at {ended.step}: {ended.reason}   ({ended.predicate}){count}"
    for step in one.steps:
        into = "group" if step.did == "aggregated" else "row"
        yield f"{deeper}{step.did} at {step.step} into {counted(step.count, into)}"
    if one.rows:
        version = f" v{one.version}" if one.version else " (not in any version)"
        yield f"{deeper}→ {one.dataset}{version}   {counted(one.rows, 'row')}"
        for row in one.shown:
            yield f"{deeper}{INDENT}{_values(row)}"
    for note in one.notes:
        yield f"{deeper}note: {note}"
    if one.other_partitions:
        yield f"{deeper}left out of {counted(one.other_partitions, 'other partition')}"
    for after in one.then:
        yield from _became(after, deeper)


def _values(row: Mapping[str, Any]) -> str:
    text = "  ".join(f"{name}={_value(value)}" for name, value in row.items() if name != "_tm")
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _value(value: object) -> str:
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False, default=text_of)
    text = shown(None if value is None else text_of(value))
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
