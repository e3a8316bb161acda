"""Modules of pipeline files, as Spark's Python workers see them: they cannot import them."""

from __future__ import annotations

import sys

PREFIX = "tallyman_pipelines_"


def send_by_value() -> None:
    """Let functions of pipeline files travel with their code. PySpark would send only the name of
    the module, which a worker cannot find."""
    cloudpickle = sys.modules.get("pyspark.cloudpickle")
    if cloudpickle is None:
        return
    known = cloudpickle.list_registry_pickle_by_value()
    for name, module in list(sys.modules.items()):
        if name.startswith(PREFIX) and name not in known:
            cloudpickle.register_pickle_by_value(module)
