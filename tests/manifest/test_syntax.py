"""Several assets are made at once, and each asks what its file means."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tallyman.engine.code.helper_modules import parsed

CODE = "found = [" + ", ".join(f"f({n}, (a + {n}) * [b for b in c])" for n in range(100)) + "]\n"


@pytest.fixture
def threads_take_turns_in_the_collector() -> Iterator[None]:
    """As they do when objects of Spark are released."""

    def yields(phase: str, info: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(yields)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(yields)


@pytest.mark.usefixtures("threads_take_turns_in_the_collector")
def test_threads_read_python_files_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(parsed, [CODE.encode()] * 20))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(CODE))}
