"""A manifest that was written is read back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.history.manifest import (
    BoundInput,
    BoundTarget,
    CodeVersion,
    Manifest,
    ProcessingWindow,
)
from tallyman.domain.pipeline.target import Target

NAMES = st.text(min_size=1, max_size=8)
MAYBE = st.none() | NAMES
COUNTS = st.integers(0, 10**9)
SOURCES = st.builds(
    BoundInput,
    kind=st.just("source"),
    hash=MAYBE,
    path=MAYBE,
    partition=MAYBE,
    files=COUNTS,
    bytes=COUNTS,
    problem=MAYBE,
)
DATASETS = st.builds(
    BoundInput,
    kind=st.sampled_from(["asset", "table"]),
    hash=MAYBE,
    partition=MAYBE,
    dataset_id=NAMES,
    version=st.none() | COUNTS,
    files=COUNTS,
    bytes=COUNTS,
)
CODES = st.builds(
    CodeVersion,
    source_hash=NAMES,
    git_commit=MAYBE,
    git_branch=MAYBE,
    git_dirty=st.none() | st.booleans(),
)
TARGETS = st.builds(
    BoundTarget,
    target=st.builds(Target, NAMES, MAYBE),
    folder=NAMES,
    definition_hash=NAMES,
)
MANIFESTS = st.builds(
    Manifest,
    run_id=NAMES,
    targets=st.lists(TARGETS, max_size=3).map(tuple),
    project=NAMES,
    actor=NAMES,
    timestamp=NAMES,
    folder_name=NAMES,
    config_hash=NAMES,
    code=CODES,
    inputs=st.dictionaries(NAMES, SOURCES | DATASETS, max_size=3),
    pipeline_version=MAYBE,
    window=st.builds(ProcessingWindow, start=MAYBE, end=MAYBE, partitions=COUNTS),
    environment=st.dictionaries(NAMES, NAMES, max_size=2),
    locations=st.dictionaries(NAMES, NAMES, max_size=2),
    openlineage_run_id=st.uuids().map(str),
)


@given(MANIFESTS)
def test_what_is_written_is_read_back(manifest: Manifest) -> None:
    written = json.loads(json.dumps(manifest.to_json()))
    assert Manifest.of_json(written) == manifest
    assert Manifest.of_json(written).to_json() == written
    assert str(manifest.id) == manifest.openlineage_run_id


def test_an_input_has_the_keys_of_its_kind() -> None:
    source = BoundInput(kind="source", path="data/a", files=1, bytes=2, hash="sha256:1")
    assert list(source.to_json()) == ["kind", "path", "files", "bytes", "hash"]
    dataset = BoundInput(kind="asset", dataset_id="1", version=3, partition="d:1", hash="sha256:1")
    expected = ["kind", "dataset_id", "version", "partition", "files", "bytes", "hash"]
    assert list(dataset.to_json()) == expected
    gone = BoundInput(kind="source", path="data/a", problem="no such file").to_json()
    assert (gone["hash"], gone["problem"]) == (None, "no such file")


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_id": None, "targets": None},
        {"targets": [{"asset": "daily"}]},
        {"cryptographic_binding": ["a"]},
        {"cryptographic_binding": {"code_version": {"a": 1}}},
        {"manifest_version": "1.0"},
    ],
)
@given(MANIFESTS)
def test_what_is_no_manifest_is_refused(wrong: dict[str, Any], manifest: Manifest) -> None:
    with pytest.raises(ValueError, match=r"not a manifest|version 1\.0"):
        Manifest.of_json(manifest.to_json() | wrong)
