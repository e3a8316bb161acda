"""The report as one HTML page: the template's filters, which format values for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from tallyman.domain.account.fate import Fate
from tallyman.domain.pipeline.partition import decode
from tallyman.errors import UsageError
from tallyman.pages.flow import PAGE, PHONE, WORDS, drawing, equation, title, units
from tallyman.pages.text import printable, short
from tallyman.query.report.run import Report

LONGEST = 120
OPEN_TABLE = 62
"""The most partitions that are listed at once; a longer list is collapsed."""
STEPS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
STATUS = {
    "success": "succeeded",
    "waiting_approval": "waits for approval",
    "pending": "not run",
    "running": "running",
    "unknown": "unknown",
}
KINDS = {
    "read": "inputs read",
    "output": "output",
    "outputs": "further outputs",
    "evidence": "evidence",
    "dead_letters": "dead letters",
    "trace": "trace",
    "other": "ledger and other",
}


def page(report: Report) -> str:
    """Render a self-contained page, which loads nothing and runs no script."""
    template = _environment().get_template("report.html")
    text = template.render(report=report, head=report.head, **GIVEN)
    # Drop the blank lines that template tags leave.
    return "\n".join(line for line in text.splitlines() if line.strip()) + "\n"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tallyman.pages", "templates"),
        autoescape=True,
        finalize=_harmless,
        # Leave out facts that an older run did not record; the rest is still useful.
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "num": number,
        "time": duration,
        "size": size,
        "share": share,
        "cut": cut,
        "short": short,
        "partition": partition,
        "status": status,
        "equation": equation,
        "flow_title": title,
        "units": units,
    }
    return made


def _harmless(value: Any) -> Any:
    """Make control characters visible: HTML escaping does not touch them."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(printable(line) for line in value.split("\n"))


def number(count: object) -> str:
    return f"{count:,}" if isinstance(count, int) else "–"


def duration(ms: object) -> str:
    if not isinstance(ms, int):
        return "–"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def size(count: object) -> str:
    if not isinstance(count, int):
        return "–"
    for unit, step in STEPS:
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} B"


def share(fraction: float) -> str:
    """Format a share so that a nonzero one is never shown as 0 %, and an incomplete one never as
    100 %."""
    percent = fraction * 100
    if 0 < percent < 0.01:
        return "< 0.01 %"
    if 99.99 < percent < 100:
        return "> 99.99 %"
    return f"{percent:.2f}".rstrip("0").rstrip(".") + " %"


def cut(value: object, longest: int = LONGEST) -> str:
    text = printable("" if value is None else str(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def partition(key: object) -> str:
    """Write a partition key as people write it."""
    if not isinstance(key, str):
        return ""
    try:
        found = decode(key)
    except UsageError:
        return key
    return " ".join(map(str, found)) if isinstance(found, tuple) else str(found)


def status(word: str) -> str:
    return STATUS.get(word, word.replace("_", " "))


def bar(fraction: float, kind: str) -> Markup:
    """Draw a bar as SVG: printers leave out background colours."""
    width = 0 if fraction <= 0 else max(1.0, min(100.0, fraction * 100))
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8"/>'
        '<rect class="{kind}" width="{width:.1f}" height="8"/></svg>'
    ).format(kind=kind, width=width)


def fates_in(targets: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """List the fates that occur, with their words: the columns of a table."""
    met = {fate for one in targets for fate, count in one.get("fates", {}).items() if count}
    order = (Fate.PASSED, Fate.AGGREGATED, Fate.EXPLODED, Fate.FILTERED, Fate.ERROR)
    return [(fate.value, WORDS[fate.value]) for fate in order if fate.value in met]


GIVEN: Mapping[str, Any] = {
    "drawing": drawing,
    "PAGE": PAGE,
    "PHONE": PHONE,
    "WORDS": WORDS,
    "KINDS": KINDS,
    "OPEN_TABLE": OPEN_TABLE,
    "bar": bar,
    "fates_in": fates_in,
}
"""Names that templates use, besides filters."""
