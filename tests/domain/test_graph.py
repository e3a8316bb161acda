"""A drawing shows every edge, and no name can break it."""

import re

import pytest

from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.graph import ascii_graph, edges, mermaid, nodes
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, Source


def _source(name: str) -> Source:
    return Source(name=name, path="data", format="json")


def _asset(name: str, *inputs: str) -> Asset:
    return Asset(name=name, function=lambda *frames: Frame("x"), inputs=inputs)


DIAMOND = Pipeline.of(
    [
        _asset("d", "b", "c"),
        _asset("c", "a"),
        _asset("b", "a", "raw"),
        _asset("a", "raw"),
        _source("raw"),
    ]
)
DIAMOND_EDGES = {("raw", "a"), ("raw", "b"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}


def _edges_of_mermaid(text: str) -> set[tuple[str, str]]:
    labels = dict(re.findall(r'^    (\w+)\[\(?"?(.*?)"?\)?\]$', text, re.M))
    drawn = re.findall(r"^    (\w+) --> (\w+)$", text, re.M)
    return {(labels[read], labels[name]) for read, name in drawn}


def test_the_text_has_every_edge_of_a_diamond_and_each_asset_after_what_it_reads() -> None:
    lines = ascii_graph(DIAMOND).splitlines()
    order = [line.split()[0] for line in lines]
    found = set()
    for line in lines:
        name, _, reads = line.partition("  <-  ")
        for read in filter(None, reads.split(", ")):
            found.add((read.removesuffix(" (source)"), name.strip()))

    assert found == DIAMOND_EDGES
    assert all(order.index(read) < order.index(name) for read, name in DIAMOND_EDGES)
    assert lines[0] == "raw (source)"
    assert "b  <-  a, raw (source)" in lines


def test_of_a_choice_its_assets_and_what_they_read_directly_are_drawn() -> None:
    assert edges(DIAMOND, ["b"]) == [("a", "b"), ("raw", "b")]
    assert nodes(DIAMOND, ["b"]) == ["raw", "a", "b"]
    assert ascii_graph(DIAMOND, ["d"]).splitlines()[-1] == "d  <-  b, c"
    assert _edges_of_mermaid(mermaid(DIAMOND, ["b"])) == {("a", "b"), ("raw", "b")}


@pytest.mark.parametrize(
    "name", ["end", "graph", "a-b", "a.b", 'say "hi"', "x] --> y[z", "a\nb", "a;b", "#", "`m`", "é"]
)
def test_no_name_can_break_a_drawing(name: str) -> None:
    pipeline = Pipeline.of([_source("raw"), _asset(name, "raw"), _asset("last", name)])
    text = mermaid(pipeline)

    assert len(text.splitlines()) == 1 + 3 + 2
    for line in text.splitlines()[1:4]:
        assert re.fullmatch(r'    n\d+\[(\(\w+\)|\w+|"[^"`<>\[\]\n]*")\]', line)
    assert not re.search(r"\[(end|graph)\]", text)
    assert text.splitlines()[4:] == ["    n1 --> n2", "    n2 --> n3"]


def test_two_names_that_look_alike_are_two_nodes() -> None:
    text = mermaid(Pipeline.of([_source("a-b"), _source("a.b"), _asset("a_b", "a-b", "a.b")]))

    assert _edges_of_mermaid(text) == {("a-b", "a_b"), ("a.b", "a_b")}
