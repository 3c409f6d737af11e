"""Spark sessions that start without a jar, a script or a variable of the user's.

from moldau.spark import new_session

spark = new_session("orders", master="local[2]", conf={"spark.driver.memory": "1g"})
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.runtime.children import start_thread
from moldau.spark.class_archive import with_archive
from moldau.spark.java import find_java
from moldau.spark.reach import check_reachable

DEFAULTS: Final[Mapping[str, str]] = {
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


def prepare_environment(*, needs_java: bool = True, is_remote: bool = False) -> None:
    """Sets JAVA_HOME, and PYSPARK_PYTHON to this interpreter, where the user has not: a worker of
    another Python would not find this package, and Spark would wait for it in vain. Names the
    archive of classes to Java if there is one. `is_remote`: from here on pyspark.sql's functions
    make expressions for a Spark Connect server."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if needs_java:
        java = find_java()
        os.environ["JAVA_HOME"] = java.home
        os.environ.update(with_archive(java, os.environ))
    if is_remote:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"


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
        session = remote_session(name, remote, conf)
        prepare_environment(needs_java=False, is_remote=True)
        return session
    prepare_environment()
    builder = _spark("pyspark.sql").SparkSession.builder.appName(name)
    if master is not None:
        check_reachable(master)
        # PySpark imports pandas for the first list that goes to Java, a second that is spent here
        # while Java starts.
        start_thread(_import_pandas, "import of pandas")
        builder = builder.master(master)
    for key, value in {**DEFAULTS, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _silence()
    session.sparkContext.setLogLevel((conf or {}).get("spark.log.level", "ERROR"))
    return session


def shared_server(master: str, conf: Mapping[str, str]) -> str:
    """The address of this user's Spark Connect server on this machine, which is started if none
    runs. The first to ask decides about its memory and master."""
    prepare_environment()
    need_connect()
    server = _spark("pyspark.sql.connect.local_server")
    found: str = server.reuse_or_start_local_connect_server(master, {**DEFAULTS, **conf})
    return found


def remote_session(name: str, remote: str, conf: Mapping[str, str] | None = None) -> Any:
    """A session of a Spark Connect server, as of `new_session`, that leaves this process and those
    that it starts free for sessions of any kind. What a server decided when it started cannot be
    set by a session of it."""
    need_connect()
    check_reachable(remote)
    prepare_environment(needs_java=False)
    sessions = _spark("pyspark.sql.connect.session").SparkSession
    builder = sessions.builder.appName(name).remote(remote)
    for key, value in {**DEFAULTS, **(conf or {})}.items():
        if key.startswith("spark.sql."):
            builder = builder.config(key, value)
    session = _created(builder, sessions)
    # The default goes on for ten minutes after a server has died.
    retries = _spark("pyspark.sql.connect.client.retries")
    session.client.set_retry_policies([retries.DefaultPolicy(max_retries=6, max_backoff=4_000)])
    _silence()
    return session


def _created(builder: Any, sessions: Any) -> Any:
    """A new session. Not one that runs already: a session of another address is another one."""
    before = sessions.getActiveSession()
    try:
        return builder.create()
    except _spark("pyspark.errors").PySparkException:
        failed = sessions.getActiveSession()
        if failed is not None and failed is not before:
            # Left open, it asks its server once more when this process ends: for ten minutes if
            # the server is gone by then.
            failed.stop()
        raise


def need_spark() -> None:
    """ConfigError if PySpark is not installed. It is not imported."""
    if find_spec("pyspark") is None:
        raise ConfigError(_INSTALL, missing="pyspark")


def need_connect() -> None:
    """ConfigError if what Spark Connect needs is not installed."""
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


def _import_pandas() -> None:
    with suppress(ImportError):
        import_module("pandas")


def _silence() -> None:
    # They repeat each failed query with all its JVM frames; the exception says it already.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
