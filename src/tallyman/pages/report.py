"""The report as one page: words and numbers as a person reads them, and the template's filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from tallyman.domain.account.fate import Fate
from tallyman.pages.flow import PAGE, PHONE, WORDS, drawing, equation, title, units
from tallyman.pages.text import (
    KINDS,
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
"""So many partitions are listed at once; of more, the list is opened by who wants to see it."""


def page(report: Report) -> str:
    """Self-contained: nothing is loaded, and nothing has to run."""
    template = _environment().get_template("report.html")
    text = template.render(report=report, head=report.head, **GIVEN)
    # Blank lines are left by tags of the template.
    return "\n".join(line for line in text.splitlines() if line.strip()) + "\n"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tallyman.pages", "templates"),
        autoescape=True,
        finalize=_harmless,
        # What an older run did not record is left out; the rest of it is still worth reading.
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
    """Escaping does not touch control characters, and a page must not hold any."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(printable(line) for line in value.split("\n"))


def number(count: object) -> str:
    return f"{count:,}" if isinstance(count, int) else "–"


def bar(fraction: float, kind: str) -> Markup:
    """Drawn, not coloured in: a printer leaves backgrounds out."""
    width = 0 if fraction <= 0 else max(1.0, min(100.0, fraction * 100))
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8"/>'
        '<rect class="{kind}" width="{width:.1f}" height="8"/></svg>'
    ).format(kind=kind, width=width)


def fates_in(targets: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The fates that some record met, with their words: the columns of a table."""
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
"""What templates call, beside filters."""
