"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.errors import ConfigError
from moldau.spark.java import find_java
from moldau.spark.session import new_session

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A session of a test is over before the better compiler has paid."""


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Java leaves when it is killed lies among the directories that pytest removes."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(folder))
        patch.setenv("SPARK_SUBMIT_OPTS", f"-Djava.io.tmpdir={folder}")
        yield


@pytest.fixture(scope="session")
def spark(scratch: None) -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    try:
        find_java()
    except ConfigError as error:
        pytest.skip(str(error))
    session = new_session(
        "moldau-tests",
        master="local[2]",
        conf={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK_JAVA,
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        },
    )
    try:
        yield session
    finally:
        session.stop()
