"""Start Spark sessions. The user needs no jar, no script and no environment variable.

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
from moldau.plugins.extras import install_command
from moldau.runtime.children import start_thread
from moldau.spark.class_archive import with_archive
from moldau.spark.java import find_java
from moldau.spark.reach import check_master, check_remote
from moldau.spark.tracebacks import hide_frames

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.python.daemon.module": "moldau.spark.daemon",
    # A batch for Delta, Iceberg or a database comes to the driver. With Spark's default a batch of
    # 1 GB would end the query, again at each try.
    "spark.driver.maxResultSize": "0",
}
_NO_SHARED_SERVER: Final = (
    "only PySpark 4.3 and newer can share a Spark Connect server: pip install 'pyspark>=4.3', or "
    "use another spark.deploy"
)


def prepare_environment(*, needs_java: bool = True, is_remote: bool = False) -> None:
    """Set the environment variables that Spark needs.

    PYSPARK_PYTHON becomes this interpreter unless the user has set it: a worker of another Python
    would not find this package, and Spark would wait for it in vain. With `needs_java`, set
    JAVA_HOME, and pass the archive of Spark's classes to Java if there is one. With `is_remote`,
    pyspark.sql's functions make expressions for a Spark Connect server from now on."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if needs_java:
        java = find_java()
        os.environ["JAVA_HOME"] = java.home
        os.environ.update(with_archive(java, os.environ))
    if is_remote:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"


@hide_frames
def new_session(
    name: str,
    *,
    master: str | None = "local[*]",
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Any:
    """Create a SparkSession.

    With `remote` (`sc://host:15002`) it is a session of that Spark Connect server, and this machine
    needs no Java. With `master=None` Spark's master is that of the `spark-submit` that runs this
    program. Raises ConfigError if a package or Java is missing, or if the master or server does not
    answer."""
    if remote is not None:
        session = remote_session(name, remote, conf)
        prepare_environment(needs_java=False, is_remote=True)
        return session
    prepare_environment()
    builder = _import_spark("pyspark.sql").SparkSession.builder.appName(name)
    if master is not None:
        check_master(master)
        # PySpark imports pandas when it sends the first list to Java. That takes a second: spend it
        # now, while Java starts.
        start_thread(_import_pandas, "import of pandas")
        builder = builder.master(master)
    for key, value in {**DEFAULTS, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _silence_query_loggers()
    session.sparkContext.setLogLevel((conf or {}).get("spark.log.level", "ERROR"))
    return session


def shared_server(master: str, conf: Mapping[str, str]) -> str:
    """Return the address of this user's Spark Connect server on this machine. Start it if needed.

    The first caller's `master` and `conf` decide about the server's master and memory."""
    prepare_environment()
    need_connect()
    try:
        server = import_module("pyspark.sql.connect.local_server")
    except ImportError as error:
        raise ConfigError(_NO_SHARED_SERVER, missing=error.name) from error
    found: str = server.reuse_or_start_local_connect_server(master, {**DEFAULTS, **conf})
    return found


def remote_session(name: str, remote: str, conf: Mapping[str, str] | None = None) -> Any:
    """Create a session of a Spark Connect server, as `new_session` does with `remote`.

    Afterwards this process and those that it starts may still create sessions of any kind. Only
    the settings `spark.sql.*` are sent: all others are fixed when the server starts."""
    need_connect()
    check_remote(remote)
    prepare_environment(needs_java=False)
    sessions = _import_spark("pyspark.sql.connect.session").SparkSession
    builder = sessions.builder.appName(name).remote(remote)
    for key, value in {**DEFAULTS, **(conf or {})}.items():
        if key.startswith("spark.sql."):
            builder = builder.config(key, value)
    session = _create_session(builder, sessions)
    # By default the client retries for ten minutes after the server has died.
    retries = _import_spark("pyspark.sql.connect.client.retries")
    session.client.set_retry_policies([retries.DefaultPolicy(max_retries=6, max_backoff=4_000)])
    _silence_query_loggers()
    return session


def _create_session(builder: Any, sessions: Any) -> Any:
    """Create a new session, never reuse one: an existing session may have another address."""
    before = sessions.getActiveSession()
    try:
        return builder.create()
    except _import_spark("pyspark.errors").PySparkException:
        failed = sessions.getActiveSession()
        if failed is not None and failed is not before:
            # An open session calls its server once more when this process ends. If the server has
            # died by then, that takes ten minutes.
            failed.stop()
        raise


def need_spark() -> None:
    """Raise ConfigError if PySpark is not installed. PySpark is not imported."""
    if find_spec("pyspark") is None:
        raise ConfigError(_no_spark(), missing="pyspark")


def _no_spark() -> str:
    return f"Spark is not installed: {install_command('spark')}"


def need_connect() -> None:
    """Raise ConfigError if a package that Spark Connect needs is not installed."""
    for part in ("grpc", "grpc_status", "pandas"):
        try:
            import_module(part)
        except ImportError as error:
            raise ConfigError(
                f"Spark Connect needs more packages: {install_command('spark-connect')}",
                missing=error.name,
            ) from error


def _import_spark(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(_no_spark(), missing=error.name) from error


def _import_pandas() -> None:
    with suppress(ImportError):
        import_module("pandas")


def _silence_query_loggers() -> None:
    # These loggers repeat each failed query with all its Java frames. The exception has it already.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
