"""Spark sessions that start without a jar, a script or a variable of the user's.

from moldau.spark import new_session

spark = new_session("orders", master="local[2]", conf={"spark.driver.memory": "1g"})
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.spark.java import find_java
from moldau.spark.reach import check_reachable

_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.python.daemon.module": "moldau.spark.daemon",
    # A batch for Delta, Iceberg or a database comes to the driver; 1 GB of it would end the query
    # each time it is tried.
    "spark.driver.maxResultSize": "0",
}
_INSTALL: Final = "Spark is not installed: pip install 'moldau-connectors[spark]'"
_INSTALL_CONNECT: Final = (
    "Spark Connect needs more packages: pip install 'moldau-connectors[spark-connect]'"
)


def prepare_environment(*, needs_java: bool = True) -> None:
    """Sets JAVA_HOME, and PYSPARK_PYTHON to this interpreter, where the user has not: a worker of
    another Python would not find this package, and Spark would wait for it in vain."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if needs_java:
        os.environ["JAVA_HOME"] = find_java().home


def new_session(
    name: str,
    *,
    master: str | None = "local[*]",
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Any:
    """A SparkSession; with `remote` (`sc://host:15002`) of a Spark Connect server, which needs no
    Java here. Without a master, that of the `spark-submit` that runs this program. ConfigError says
    what is missing, or that nothing answers there."""
    if remote is not None:
        return _remote_session(name, remote, conf or {})
    prepare_environment()
    builder = _spark("pyspark.sql").SparkSession.builder.appName(name)
    if master is not None:
        check_reachable(master)
        builder = builder.master(master)
    for key, value in {**_DEFAULTS, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _silence()
    session.sparkContext.setLogLevel((conf or {}).get("spark.log.level", "ERROR"))
    return session


def shared_server(master: str, conf: Mapping[str, str]) -> str:
    """The address of this user's Spark Connect server on this machine, which is started if none
    runs. The first to ask decides about its memory and master."""
    prepare_environment()
    _connect_parts()
    server = _spark("pyspark.sql.connect.local_server")
    found: str = server.reuse_or_start_local_connect_server(master, {**_DEFAULTS, **conf})
    return found


def _remote_session(name: str, remote: str, conf: Mapping[str, str]) -> Any:
    """What a server decided when it started cannot be set by a session of it."""
    _connect_parts()
    check_reachable(remote)
    prepare_environment(needs_java=False)
    builder = _spark("pyspark.sql").SparkSession.builder.appName(name).remote(remote)
    for key, value in {**_DEFAULTS, **conf}.items():
        if key.startswith("spark.sql."):
            builder = builder.config(key, value)
    # Not one that runs already: a session of another address is another one.
    session = builder.create()
    # The default goes on for ten minutes after a server has died.
    retries = _spark("pyspark.sql.connect.client.retries")
    session.client.set_retry_policies([retries.DefaultPolicy(max_retries=6, max_backoff=4_000)])
    _silence()
    return session


def _connect_parts() -> None:
    for part in ("grpc", "grpc_status", "pandas"):
        try:
            import_module(part)
        except ImportError as error:
            raise ConfigError(_INSTALL_CONNECT, missing=error.name) from error


def _spark(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(_INSTALL, missing=error.name) from error


def _silence() -> None:
    # They repeat each failed query with all its JVM frames; the exception says it already.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
