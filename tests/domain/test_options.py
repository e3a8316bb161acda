"""How a run was asked for is read back as it was kept, also from an older run."""

from __future__ import annotations

import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.account.fate import Evidence
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
    assert RunParams.of_json(json.loads(json.dumps(params.to_json()))) == params


@given(REPLAYS)
def test_a_replay_keeps_what_its_commit_has_to_know(replay: ReplayOptions) -> None:
    options = Options(replay_of="r1", replay=replay)
    assert Options.of_json(json.loads(json.dumps(options.to_json()))) == options


def test_a_run_that_is_no_replay_says_nothing_of_one() -> None:
    assert not {"replay", "replay_of"} & RunParams().to_json().keys()


def test_an_older_run_has_the_defaults() -> None:
    taken = {"taken_back": [str(UUID(int=1))]}
    found = RunParams.of_json({"assets": ["a"], "replay_of": "r1", "replay": taken})
    replay = ReplayOptions(taken_back=(UUID(int=1),))
    assert found == RunParams(assets=("a",), options=Options(replay_of="r1", replay=replay))
    assert RunParams.of_json({}) == RunParams()
