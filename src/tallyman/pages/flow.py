"""Drawing of the flow of records: one bar for the records in, and a ribbon to each fate."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from tallyman.pages.text import WORDS, cut, printable
from tallyman.query.report.flow import RecordFlow

HEIGHT = 168.0
"""The height of the bar, before thin ribbons are widened to be visible."""
LOWER = 64.0
"""The height for groups and children: smaller, because they are not records."""
THINNEST = 4.0
LABEL = 44.0
"""The height of a label: a number and two lines of text."""
BAR = 10.0
TOP = 8.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The measures of a drawing: one for a page, one for a phone."""

    width: int
    left: float
    right: float
    letters: int
    """How many letters of a description fit into a line."""


PAGE = Shape(720, 112, 400, 44)
PHONE = Shape(350, 78, 172, 24)


@dataclass(frozen=True, slots=True)
class Ribbon:
    fate: str
    description: str
    count: int
    thickness: float
    at: float
    """Where it leaves the bar; `to` is where it ends."""
    to: float


def ribbons(flow: RecordFlow) -> list[Ribbon]:
    """Compute the ribbons: as thick as their share, but never too thin to be visible."""
    shares = [(one.fate, one.description, one.count) for one in flow.shares]
    if flow.unaccounted:
        why = "the run stopped before they met a fate" if flow.stopped else "they met no fate"
        shares.append(("UNACCOUNTED", why, abs(flow.unaccounted)))
    whole = sum(count for _, _, count in shares) or 1
    high = HEIGHT if flow.opened_by is None else LOWER
    found: list[Ribbon] = []
    at = to = TOP
    for fate, description, count in shares:
        thickness = max(THINNEST, high * count / whole)
        # A label may be taller than its ribbon: the ribbon ends in the middle of the label's space.
        place = max(thickness, LABEL)
        arrives = to + (place - thickness) / 2
        found.append(Ribbon(fate, description, count, thickness, at, arrives))
        at, to = at + thickness, to + place + 6
    return found


def drawing(flow: RecordFlow, shape: Shape, ident: str) -> Markup:
    """Draw the flow as inline SVG; its colours are CSS classes of the page."""
    found = ribbons(flow)
    bar = sum(one.thickness for one in found)
    ends = [one.to + max(one.thickness, (one.thickness + LABEL) / 2) for one in found]
    high = max([TOP + bar, *ends]) + TOP
    # Center the bar vertically between its ribbons.
    shift = max(0.0, (high - 2 * TOP - bar) / 2)
    drawn = Markup("").join(_ribbon(one, shape, shift) for one in found)
    middle = TOP + shift + bar / 2
    return Markup(
        '<svg class="flow" viewBox="0 0 {w} {h:.0f}" role="img" aria-labelledby="{i}-t {i}-d">'
        '<title id="{i}-t">{title}</title><desc id="{i}-d">{desc}</desc>{drawn}'
        '<rect class="in" x="{x}" y="{y:.1f}" width="{bw}" height="{bh:.1f}" rx="2"/>'
        '<text class="n" x="{tx}" y="{ty:.1f}" text-anchor="end">{count:,}</text>'
        '<text class="u" x="{tx}" y="{uy:.1f}" text-anchor="end">{unit}</text></svg>'
    ).format(
        w=shape.width,
        h=high,
        i=ident,
        title=title(flow),
        desc=description(flow),
        drawn=drawn,
        x=shape.left - BAR,
        y=TOP + shift,
        bw=BAR,
        bh=max(bar, THINNEST),
        tx=shape.left - BAR - 10,
        ty=middle - 1,
        uy=middle + 16,
        count=flow.count,
        unit=units(flow) + (" in" if flow.opened_by is None else ""),
    )


def _ribbon(one: Ribbon, shape: Shape, shift: float) -> Markup:
    left, right, thick = shape.left, shape.right, one.thickness
    bend, at = (left + right) / 2, one.at + shift
    path = (
        f"M{left:.0f} {at:.1f}C{bend:.0f} {at:.1f} {bend:.0f} {one.to:.1f} {right:.0f} {one.to:.1f}"
        f"V{one.to + thick:.1f}C{bend:.0f} {one.to + thick:.1f} {bend:.0f} {at + thick:.1f} "
        f"{left:.0f} {at + thick:.1f}Z"
    )
    middle = one.to + thick / 2
    return Markup(
        '<path class="ribbon {fate}" d="{path}"/>'
        '<rect class="end {fate}" x="{x:.0f}" y="{y:.1f}" width="{bar}" height="{h:.1f}" rx="2"/>'
        '<text x="{tx:.0f}" y="{ty:.1f}"><tspan class="n">{count:,}</tspan> {word}</text>'
        '<text class="u" x="{tx:.0f}" y="{uy:.1f}">{text}</text>'
    ).format(
        fate=one.fate.lower(),
        path=path,
        x=right,
        y=one.to,
        bar=BAR,
        h=thick,
        tx=right + BAR + 10,
        ty=middle - 2,
        uy=middle + 15,
        count=one.count,
        word=WORDS[one.fate],
        text=cut(one.description, shape.letters),
    )


def units(flow: RecordFlow) -> str:
    many = {"child": "children"}.get(flow.unit, f"{flow.unit}s")
    return flow.unit if flow.count == 1 else many


def title(flow: RecordFlow) -> str:
    if flow.opened_by is None:
        return "Fates of the records"
    return f"Fates of the {units(flow)} made by {printable(flow.opened_by)}"


def equation(flow: RecordFlow) -> str:
    """Write the flow as: 349,660 in = 345,000 aggregated + 4,000 filtered + 660 rejected"""
    counts: dict[str, int] = {}
    for one in flow.shares:
        counts[one.fate] = counts.get(one.fate, 0) + one.count
    shares = [f"{count:,} {WORDS[fate]}" for fate, count in counts.items()]
    if flow.unaccounted:
        shares.append(f"{flow.unaccounted:,} unaccounted for")
    what = "in" if flow.opened_by is None else units(flow)
    return f"{flow.count:,} {what} = {' + '.join(shares) or '0'}"


def description(flow: RecordFlow) -> str:
    listed = "; ".join(
        f"{one.count:,} {WORDS[one.fate]} ({one.description})" for one in flow.shares
    )
    return f"{equation(flow)}. {printable(listed)}"
