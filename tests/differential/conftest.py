"""One Spark for all files of this folder, as projects start it."""

import pytest
from pyspark.sql import SparkSession

from tallyman.engine.spark.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    return open_session(None, settings, str(tmp_path_factory.mktemp("spark")))
