"""What tests plant in a process that runs commands, where the pipeline of its project asks for it.

Pipelines are compiled in a process of their own, and a plan has no functions in Python. So a step
that takes its time, draws by chance or doubles rows calls a function of the session that is planted
here, or meets a bug in the engine.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from tallyman.control.compile import child
from tallyman.engine.spark.project_session import ProjectSession

BUG = "doubled_by_a_bug"
"""The name of a step after which each row is there twice: no expression can do that."""
HERE = str(Path(__file__).parent / "at_start")


def slept(n: int, seconds: float) -> int:
    time.sleep(seconds)
    return n


def held(n: int, place: str) -> int:
    """Wait until there is a file, and say so. Not for ever: a test that failed leaves none."""
    with open(f"{place}.awaited", "w"):
        pass
    for _ in range(600):
        if os.path.exists(place):
            break
        time.sleep(0.1)
    return n


def chance() -> float:
    return random.random()


FUNCTIONS: Mapping[str, tuple[Callable[..., object], str]] = {
    "slept": (slept, "int"),
    "held": (held, "int"),
    "chance": (chance, "double"),
}
"""Functions that a pipeline may call as `slept(n, 5)`, with what they return."""


def install() -> None:
    """Plant what the project in the working directory asks for, whenever a session is opened, and
    let commands fork."""
    if getattr(ProjectSession.get, "plants", False):
        return
    # A process of the tests speaks gRPC. A fork of it is whole if gRPC does not try to go on in it,
    # and an interpreter for each of a thousand commands would take most of the time.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    os.register_at_fork(after_in_child=_forget_sessions)
    child._can_fork = lambda: True
    import_module("tallyman.control.compile.yaml_pipeline")  # or each of them would import it
    opened = ProjectSession.get

    def get(own: ProjectSession, *given: Any) -> Any:
        is_new = own._session is None
        session = opened(own, *given)
        if is_new:
            _plant(session)
        return session

    get.plants = True  # type: ignore[attr-defined]
    ProjectSession.get = get  # type: ignore[method-assign]


def _forget_sessions() -> None:
    """Leave the sessions of Spark Connect to the parent: their connections are closed in a fork,
    and PySpark, when it is asked for a Python function, waits for an answer of the active one."""
    module = sys.modules.get("pyspark.sql.connect.session")
    if module is not None:
        module.SparkSession._default_session = None
        module.SparkSession._active_session = threading.local()


def _plant(session: Any) -> None:
    text = "".join(path.read_text(errors="replace") for path in Path("pipelines").glob("*.py"))
    wanted = {name: each for name, each in FUNCTIONS.items() if f"{name}(" in text}
    if wanted:
        cloudpickle = import_module("pyspark.cloudpickle")
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for name, (function, kind) in wanted.items():
        session.udf.register(name, function, kind)
    if BUG in text:
        _plant_bug()


def _plant_bug() -> None:
    segment = import_module("tallyman.engine.segment.segment")
    select = segment.select

    def doubling(flow: Any, step: Any) -> Any:
        done = select(flow, step)
        return replace(done, rows=done.rows.unionAll(done.rows)) if step.name == BUG else done

    segment.select = doubling
