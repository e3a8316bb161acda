"""Whether a page is whole: every tag closed, nothing loaded, nothing that runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

EMPTY = {"meta", "br", "link", "img", "input", "hr", "rect", "path"}
"""`rect` and `path` close themselves in SVG."""


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.problems: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self.open[-3:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """As it reads, with single spaces."""
        return re.sub(r"\s+", " ", " ".join(self.texts))


def checked(text: str) -> Page:
    """The page, parsed; it fails when something is wrong with it."""
    page = Page(text)
    assert page.problems == []
    assert not [tag for tag, _ in page.tags if tag in ("script", "img", "link", "iframe", "object")]
    for tag, attributes in page.tags:
        loads = {n: v for n, v in attributes.items() if n in ("src", "href", "xlink:href", "style")}
        handlers = [name for name in attributes if name.startswith("on")]
        assert not loads, (tag, loads)
        assert not handlers, (tag, handlers)
    assert not re.search(r"url\(|@import|https?://", text)
    shown = [c for c in text if not c.isprintable() and c != "\n"]
    assert not shown, f"control characters: {shown[:5]!r}"
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids)), "an id is given twice"
    return page
