"""The report as one HTML page: the template's filters, which format values for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from tallyman.pages.flow import PAGE, PHONE, drawing, equation, title, units
from tallyman.pages.text import (
    KINDS,
    WORDS,
    cut,
    duration,
    partition,
    printable,
    share,
    short,
    size,
    status,
)
from tallyman.query.report.run import Report

OPEN_TABLE = 62
"""The most partitions that are listed at once; a longer list is collapsed."""


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
        # Leave out facts that a copied or damaged run lacks; the rest is still useful.
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
    return [(fate, word) for fate, word in WORDS.items() if fate in met]


GIVEN: Mapping[str, Any] = {
    "drawing": drawing,
    "PAGE": PAGE,
    "PHONE": PHONE,
    "KINDS": KINDS,
    "OPEN_TABLE": OPEN_TABLE,
    "bar": bar,
    "fates_in": fates_in,
}
"""Names that templates use, besides filters."""
