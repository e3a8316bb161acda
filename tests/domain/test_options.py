"""How a run was asked for is read back as it was kept."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.account.fate import Evidence
from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.history.options import Options, ReplayOptions, RunParams
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.version.change_plan import Action, ChangePlan, Planned

NAMES = st.text(min_size=1, max_size=8)
PLANNED = Planned(
    name="daily",
    dataset="daily",
    action=Action.CREATE,
    reason="new",
    partitions=("d:2024-03-01",),
)
PLAN = ChangePlan(id="p1", pipeline_from=None, pipeline_to="v2", planned=(PLANNED,))
REPLAYS = st.builds(
    ReplayOptions,
    adds=st.lists(NAMES, max_size=2).map(tuple),
    taken_back=st.lists(st.uuids(), max_size=2).map(tuple),
    records=st.dictionaries(NAMES, st.integers(0, 99), max_size=2),
)
OPTIONS = st.builds(
    Options,
    selection=st.lists(NAMES, max_size=2).map(tuple),
    force=st.frozensets(NAMES, max_size=2),
    evidence=st.none() | st.sampled_from(Evidence),
    thresholds=st.none() | st.just(Thresholds(percentage=0.25)),
    jobs=st.integers(1, 8),
    go_on=st.booleans(),
    good_partitions=st.booleans(),
    plan=st.none() | st.just(PLAN),
)
PARAMS = st.builds(
    RunParams,
    options=OPTIONS,
    assets=st.lists(NAMES, max_size=2).map(tuple),
    append=st.lists(NAMES, max_size=2).map(tuple),
    pipeline_version=st.none() | NAMES,
    pipeline_before=st.none() | NAMES,
)


@given(PARAMS)
def test_what_is_kept_is_read_back(params: RunParams) -> None:
    assert of_plain(RunParams, json.loads(json.dumps(to_plain(params)))) == params


@given(REPLAYS)
def test_a_replay_keeps_what_its_commit_has_to_know(replay: ReplayOptions) -> None:
    options = Options(replay_of="r1", replay=replay)
    assert of_plain(Options, json.loads(json.dumps(to_plain(options)))) == options
